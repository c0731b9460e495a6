/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of a conversation: grown turn by turn, written and read as JSON. */
#ifndef MLXCEL_CLI_CONVERSATION_H
#define MLXCEL_CLI_CONVERSATION_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

struct message {
    char *role, *content;
};

struct conversation {
    struct message *messages;
    size_t n, capacity;
};

/* False when memory runs out. */
bool conversation_add(struct conversation *c, const char *role, const char *content, size_t length);
/* Forgets the messages from an index on. */
void conversation_cut(struct conversation *c, size_t from);
void conversation_free(struct conversation *c);

/* The system message at the start, or NULL. */
const char *conversation_system(const struct conversation *c);
/* Sets it; an empty text removes it. */
bool conversation_set_system(struct conversation *c, const char *text);

/* As a JSON array of {role, content}. */
void conversation_write(const struct conversation *c, struct buffer *out, int indent);
/* Replaces the messages by those of a file; on failure they stay. */
bool conversation_load(struct conversation *c, const char *path, struct mx_error *err);
bool conversation_save(const struct conversation *c, const char *path, struct mx_error *err);

#endif
