/* SPDX-License-Identifier: Apache-2.0 */
/* A model that is loaded and running: everything that a request needs of it, and the thread that steps its engine. */
#ifndef MLXCEL_SERVE_SERVED_H
#define MLXCEL_SERVE_SERVED_H

#include "engine/engine.h"
#include "serve/metrics.h"
#include "serve/server.h"
#include "text/chat_template.h"
#include "text/reply.h"
#include "text/token_mask.h"
#include "text/tokenizer.h"

#include <pthread.h>
#include <stdatomic.h>

/* Called by the engine's thread after each step. */
struct step_hook {
    void (*call)(void *context);
    void *context;
};

struct served {
    char *id, *path;
    const struct server_options *options;
    bool is_shared; /* as served_open was told */
    struct metrics *metrics;
    struct step_hook after_step;
    struct tokenizer *tokenizer;
    struct chat_template *chat;
    const char *template_name; /* of several; NULL = chosen by the request */
    bool has_template;         /* of its own: it writes the special tokens */
    bool thinks;               /* unless told not to */
    const struct reply_format *format;
    struct model model;
    struct engine *engine;
    struct sampling_params sampling; /* where a request is silent */
    struct dry_breakers breakers;    /* likewise */
    struct arena arena;              /* of kwargs */
    const struct json *kwargs;       /* template variables of the command line, or NULL */
    int64_t created_unix;
    char family[64]; /* the config's model_type */
    uint64_t n_parameters;
    uint64_t load_ns; /* how long loading took */

    pthread_t thread;
    bool has_thread;
    atomic_bool is_stopping;
    atomic_uint_least64_t step_since_ns; /* the running step began; 0 = none runs */
    atomic_bool is_damaged;

    /* What each slot answered last: the conversation's tokens, for saving. Slots are places to remember only: any number of
     * requests may name the same one. */
    pthread_mutex_t slots_lock;
    struct slot_tokens {
        uint32_t *tokens;
        size_t n;
        uint64_t used_ns;
    } * slots; /* [n_parallel] */

    pthread_mutex_t trie_lock;
    struct token_trie *trie; /* made when it is first needed */

    pthread_mutex_t lock;
    struct engine_stats stats; /* as of the last step */
    uint64_t awake_ns;         /* time in which there was work */
};

/* Loads and starts. NULL with the error set. is_shared: by clients that must not know of each other; the prefix cache then
 * gives whole pages, and tells no more than that. */
struct served *served_open(const struct server_options *options, bool is_shared, struct metrics *metrics,
                           struct step_hook after_step, const char *path, const char *id, struct mx_error *err);
/* Cancels what runs, stops the thread, frees. */
void served_close(struct served *served);

struct engine_stats served_stats(struct served *served);
/* False when the engine is dead, or a step has taken longer than the limit. */
bool served_is_healthy(struct served *served, uint64_t now_ns);

/* The vocabulary for grammars; any thread. NULL with the error set. */
const struct token_trie *served_trie(struct served *served, struct mx_error *err);

/* Keeps a conversation in a slot (-1: the one not used for longest), taking over the malloc'ed tokens. */
void served_keep_slot(struct served *served, int64_t slot, uint32_t *tokens, size_t n);
/* A malloc'ed copy; NULL when the slot is empty or memory is out. */
uint32_t *served_copy_slot(struct served *served, uint32_t slot, size_t *n);

/* Breakers of DRY from the strings of a JSON array; false with the error set. */
bool served_make_breakers(const struct served *served, const struct json *strings, struct dry_breakers *breakers,
                          struct mx_error *err);

#endif
