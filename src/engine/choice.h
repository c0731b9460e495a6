/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's own structures. Requests wait in a list sorted by priority and arrival; admitted choices prefill and then
 * decode. The array of admitted choices is in order of admission, so its end is the youngest. */
#ifndef MLXCEL_ENGINE_CHOICE_H
#define MLXCEL_ENGINE_CHOICE_H

#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/kept.h"
#include "engine/prefix_cache.h"

#include <pthread.h>
#include <stdatomic.h>

enum state {
    STATE_WAITING, /* for admission */
    STATE_SHARING, /* for the prompt of the request's first choice */
    STATE_PREFILL,
    STATE_DECODE,
};

/* A request, shared by its choices. */
struct shared_request {
    struct engine_request request; /* prompt and stop ids are own copies */
    uint64_t id;
    atomic_bool is_cancelled;
    uint32_t n_left;                    /* choices that have not finished */
    struct shared_request *prev, *next; /* in engine.live */
};

/* One choice of one request. */
struct choice {
    struct choice *next; /* in the inbox and the waiting list */
    struct shared_request *shared;
    uint32_t number;
    enum state state;
    struct sequence sequence;
    struct sampler sampler;
    bool has_sampler, was_started;
    uint32_t *tokens; /* [room] prompt, then answer */
    size_t n_tokens, n_prompt, room;
    bool is_in_step;
    uint32_t n_rows, output;     /* in the running step */
    bool wants_token;            /* the step computes its last row's logits */
    float *pooled;               /* [hidden_size] sum of hidden states so far, where they are pooled */
    size_t n_cached;             /* tokens of the prompt that the prefix cache had */
    struct cache_finding cache;  /* why so many */
    struct diffusion *diffusion; /* of models that denoise blocks, once the prompt is read */
    uint32_t snapshot_at;        /* cells of the snapshot taken last while decoding; 0 = none */
};

struct engine {
    struct model *model;
    struct engine_options options;
    struct batch batch;
    struct sampling_scratch scratch;
    struct prefix_cache cache;
    struct kept kept;
    struct choice *waiting;   /* STATE_WAITING and STATE_SHARING */
    struct choice **admitted; /* [max_sequences] */
    uint32_t n_admitted;
    struct choice **stepping; /* [max_sequences] those with rows in the running step */
    uint32_t n_stepping;
    uint32_t *mask_bits;
    double row_ns; /* smoothed time of a prompt row */
    struct engine_stats stats;
    struct mx_error failure; /* of the model: everything fails from then on */
    pthread_mutex_t lock;    /* inbox, live, next_id, is_woken */
    pthread_cond_t wake;
    struct choice *inbox;
    struct shared_request *live;
    uint64_t next_id;
    bool is_woken;
};

/* Runs the assembled step. False when the model turned out damaged: all choices have ended then. */
bool engine_run_batch(struct engine *engine);
/* Ends an admitted choice. */
void engine_end_choice(struct engine *engine, struct choice *choice, struct engine_event event);
void engine_fail_choice(struct engine *engine, struct choice *choice, enum error_code code, const char *message);
/* A drawn token becomes part of the answer, or ends it; false when the choice has ended. */
bool engine_take_token(struct engine *engine, struct choice *choice, const struct sample_result *result);

/* One step of the first admitted choice of a model that denoises blocks (diffusion.c). */
void diffusion_step(struct engine *engine);
void diffusion_free(struct diffusion *diffusion);

/* Tells the end of a choice, which is in no list any more, and frees it. */
void choice_finish(struct engine *engine, struct choice *choice, struct engine_event event);
enum verdict choice_tell(struct choice *choice, struct engine_event event);
static inline struct engine_event choice_ending(enum finish_reason reason) {
    return (struct engine_event){.reason = reason, .token = SAMPLE_NONE};
}

#endif
