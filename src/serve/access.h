/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask: API keys and the origins of web pages. */
#ifndef MLXCEL_SERVE_ACCESS_H
#define MLXCEL_SERVE_ACCESS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "serve/http.h"

struct api_key {
    const char *text;
    size_t length;
};

struct access {
    struct arena arena;
    struct api_key *keys;
    size_t n_keys, keys_capacity;
    const char *origins; /* NULL = none */
};

/* lists: each a comma list of keys. file: one key a line, '#' comments; may be NULL. */
bool access_init(struct access *access, const char *const *lists, size_t n_lists, const char *file, const char *origins,
                 struct mx_error *err);
void access_free(struct access *access);

enum key_check { KEY_OK, KEY_MISSING, KEY_WRONG };
/* Whether clients of different keys ask, who must not know of each other. Without keys everybody sees everything. */
static inline bool access_is_shared(const struct access *access) { return access->n_keys > 1; }

/* Bearer token or x-api-key; *owner = 1 + the key's place, 0 where no keys are set. Every key is compared, in time that
 * does not depend on where they differ. */
enum key_check access_check_key(const struct access *access, const struct http_head *head, uint32_t *owner);

/* The Access-Control-Allow-Origin that the request's Origin gets, or NULL. */
const char *access_allowed_origin(const struct access *access, const struct http_head *head);
/* A page of another origin that is not allowed sent this: its Origin is neither allowed nor this server's own Host. */
bool access_is_foreign(const struct access *access, const struct http_head *head);

#endif
