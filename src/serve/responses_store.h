/* SPDX-License-Identifier: Apache-2.0 */
/* Responses that were asked to be kept, in SQLite: a file, or memory. Any thread. */
#ifndef MLXCEL_SERVE_RESPONSES_STORE_H
#define MLXCEL_SERVE_RESPONSES_STORE_H

#include "base/arena.h"
#include "base/error.h"

#include <pthread.h>
#include <stdint.h>

struct responses_store {
    struct sqlite3 *database;
    pthread_mutex_t lock;
    uint32_t max_entries; /* the oldest ones go */
    bool is_open;
};

/* path NULL = in memory. */
bool responses_store_open(struct responses_store *store, const char *path, uint32_t max_entries, struct mx_error *err);
void responses_store_close(struct responses_store *store);

/* history: the conversation up to and with this response, a JSON array of items; input: the items of this request.
 * owner: the API key; others do not see it. */
bool responses_store_put(struct responses_store *store, const char *id, uint32_t owner, const char *history,
                         const char *input, const char *response, struct mx_error *err);
enum responses_column { RESPONSES_HISTORY, RESPONSES_INPUT, RESPONSES_RESPONSE };
/* A copy in the arena; NULL when there is none. */
const char *responses_store_get(struct responses_store *store, const char *id, uint32_t owner,
                                enum responses_column column, struct arena *arena);
bool responses_store_delete(struct responses_store *store, const char *id, uint32_t owner);

#endif
