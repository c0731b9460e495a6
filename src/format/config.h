/* SPDX-License-Identifier: Apache-2.0 */
/* A view of config.json that hides which library wrote it.
 *
 * A key is looked for in the nested text_config first (where there is one), then at the top, under its name and its
 * known other spellings. Every key that is asked for is marked; what was never asked for is what this program does not
 * know about the model: inspect lists it, and config_refuse_unread refuses keys that are known to change the network.
 *
 * The first wrong value (type, range) is kept in `error` and the caller checks once at the end, so that family files
 * stay declarative; after an error the accessors return their fallback. */
#ifndef MLXCEL_FORMAT_CONFIG_H
#define MLXCEL_FORMAT_CONFIG_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"

struct config {
    const struct json *root; /* the whole file */
    const struct json *text; /* text_config (or its like), or root */
    const char *path;        /* for messages */
    char *content;           /* owned: the file's text, which the tree points into */
    bool *is_read;           /* one flag a member of root, then of text where that is another object */
    struct mx_error error;
    struct arena arena;
};

/* Reads folder/config.json, or the file itself where path is one. */
bool config_open(struct config *config, const char *path, struct mx_error *err);
void config_close(struct config *config);

/* The value under a name or another spelling of it; NULL when absent or null. */
const struct json *config_get(struct config *config, const char *key);
bool config_has(struct config *config, const char *key);

/* A count or size within [1, 2^31): required, or with a fallback for an absent key. */
uint32_t config_size(struct config *config, const char *key);
uint32_t config_size_or(struct config *config, const char *key, uint32_t fallback);
/* A count within [0, 2^31). */
uint32_t config_count_or(struct config *config, const char *key, uint32_t fallback);
/* Any integer in [minimum, maximum]. */
int64_t config_integer_or(struct config *config, const char *key, int64_t fallback, int64_t minimum, int64_t maximum);
/* A finite number; infinities as config_real_inf allows. Both read {"__float__": "Infinity"} too. */
double config_real(struct config *config, const char *key);
double config_real_or(struct config *config, const char *key, double fallback);
double config_real_inf_or(struct config *config, const char *key, double fallback);
bool config_bool_or(struct config *config, const char *key, bool fallback);
/* NUL-terminated, in the config's arena. */
const char *config_string_or(struct config *config, const char *key, const char *fallback);

/* The same on a nested object (rope_scaling and the like), with `where` for messages. A number outside its meaning
 * (not finite) is an error. */
double config_object_real_or(struct config *config, const struct json *object, const char *where, const char *key,
                             double fallback);

/* Keeps the first error; the text gets the file's name in front. */
void config_fail(struct config *config, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Marks a key as known without reading it. */
void config_ignore(struct config *config, const char *key);

/* Refuses keys that are known to change the network, have an effective value and were not asked for. */
bool config_refuse_unread(struct config *config, struct mx_error *err);

/* The key that says that the model also takes images or sound, or NULL. Only its text part is described. */
const char *config_other_part(const struct config *config);

/* Calls visit for each key of the text part (and of the top) that was not asked for and is not known to be without
 * effect on the network. */
void config_unread(const struct config *config, void (*visit)(void *context, const char *key, size_t length),
                   void *context);

#endif
