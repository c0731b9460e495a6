/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: requests in, tokens out.
 *
 * engine_step assembles one step: a row for each decoding sequence first, then prompt chunks under a row budget that
 * bounds the delay of the running ones; runs it; samples; delivers. One thread steps; any thread may submit and cancel
 * (both go through an inbox). Callbacks run on the stepping thread.
 *
 * When pages run out, the youngest sequence gives its pages back and computes its tokens again later; its text does not
 * change by that, nor by anything else that other requests do. */
#ifndef MLXCEL_ENGINE_ENGINE_H
#define MLXCEL_ENGINE_ENGINE_H

#include "engine/cache_finding.h"
#include "engine/model.h"
#include "engine/sampler.h"

struct engine;

enum finish_reason {
    FINISH_STOP,      /* an end-of-sequence or stop token, or the callback said so */
    FINISH_LENGTH,    /* max_tokens, or the end of the context */
    FINISH_CANCELLED, /* engine_cancel, or the engine was closed */
    FINISH_ERROR,
};

enum event_kind {
    EVENT_STARTED,  /* the prompt's first rows are about to run */
    EVENT_PROMPT,   /* a part of the prompt was computed: n_computed of n_prompt tokens */
    EVENT_TOKEN,    /* a token was drawn (never a stop token) */
    EVENT_FINISHED, /* the last event of a choice */
};

/* Instead of an answer, a vector: of the last hidden states of the prompt's tokens (what the head reads). */
enum pooling {
    POOLING_NONE,
    POOLING_LAST, /* the last token's */
    POOLING_MEAN,
};

struct engine_event {
    enum event_kind kind;
    uint64_t request;
    uint32_t choice;
    uint32_t token;                     /* EVENT_TOKEN; EVENT_FINISHED by a stop token: that token, else SAMPLE_NONE */
    const struct sample_result *sample; /* EVENT_TOKEN, and a stop token: log-probabilities where wanted */
    enum finish_reason reason;          /* EVENT_FINISHED */
    const struct mx_error *error;       /* EVENT_FINISHED with FINISH_ERROR */
    const float *hidden;                /* EVENT_FINISHED of a request with pooling: [hidden_size]; else NULL */
    size_t n_prompt, n_computed, n_generated; /* tokens so far */
    size_t n_cached;                          /* of the prompt, found in the prefix cache */
    struct cache_finding cache;               /* why so many */
};

enum verdict { VERDICT_GO_ON, VERDICT_STOP };

/* Restricts tokens, e.g. to a grammar. fill sets bit t for each token that may come next (bits has one bit for each
 * token, cleared); false = every token may come. accept is told each token of the answer. */
struct token_mask {
    void *context;
    bool (*fill)(void *context, uint32_t choice, uint32_t *bits);
    void (*accept)(void *context, uint32_t choice, uint32_t token);
};

struct engine_request {
    const uint32_t *prompt; /* copied */
    size_t n_prompt;
    int64_t max_tokens; /* -1: up to the end of the context */
    uint32_t n_choices; /* answers to the same prompt, which is computed once; 0 = 1 */
    struct sampling_params sampling;
    const uint32_t *stop_ids; /* beside the model's own; copied */
    size_t n_stop_ids;
    const struct dry_breakers *breakers; /* or NULL; must outlive the request */
    struct token_mask mask;              /* zeroed = none */
    int priority;                        /* higher ones first */
    enum pooling pooling;
    bool keeps; /* its cells stay until the next such request, which goes on from them */
    enum verdict (*on_event)(void *context, const struct engine_event *event);
    void *context;
};

/* Over the model's own settings, for models that denoise blocks; zeroed = as the model says. */
struct diffusion_options {
    uint32_t max_steps;
    bool by_confidence; /* tokens whose probability reaches the threshold are revealed and stay; else by entropy */
    double threshold;   /* of a canvas by confidence: 0 = 0.9; of masked blocks: 0 = 0.95 */
    uint32_t min_canvas, max_canvas; /* tokens; 0 = 64 and the model's block */
    bool is_full_canvas;             /* always the model's block */
};

struct engine_options {
    uint32_t n_tokens;  /* ids of the tokenizer; higher logits are padding. 0 = all */
    size_t cache_pages; /* pages of 64 tokens that the prefix cache keeps at most; 0 = no cache */
    /* Hits of the prefix cache may end within a page, where the model needs no snapshots. What was found, and the time to
     * the first token, then tell token by token what was asked before: not for clients that must not know of each other. */
    bool cache_within_pages;
    struct diffusion_options diffusion;
    uint64_t step_ns; /* wanted duration of a step while sequences decode; 0 = prompts are never held back */
};

struct engine_stats {
    uint32_t n_waiting, n_prefilling, n_decoding;
    uint64_t n_steps, n_rows, n_preempted;
    uint64_t n_prompt_tokens, n_cached_tokens; /* of admitted requests */
    size_t n_cache_pages, n_cache_snapshots;
    uint64_t busy_ns; /* in the backend */
};

/* The model must outlive the engine. */
struct engine *engine_create(struct model *model, const struct engine_options *options, struct mx_error *err);
/* Cancels what is left, then frees. */
void engine_destroy(struct engine *engine);

/* Tokens of the longest prompt with its answer: the context, or what all pages hold. Any thread. */
uint32_t engine_most_tokens(const struct engine *engine);
/* Checks and takes a request; any thread. *id names it for engine_cancel and in events. */
bool engine_submit(struct engine *engine, const struct engine_request *request, uint64_t *id, struct mx_error *err);
/* Asks for the end of a request; any thread. Its choices finish with FINISH_CANCELLED before the next step runs. */
void engine_cancel(struct engine *engine, uint64_t id);

/* Runs one step. Returns false when there is nothing to do. */
bool engine_step(struct engine *engine);
/* Blocks the stepping thread until there is something to do or timeout_ms passed; true = there is. */
bool engine_wait(struct engine *engine, int timeout_ms);
/* Wakes engine_wait; any thread. */
void engine_wake(struct engine *engine);

/* By the stepping thread. */
struct engine_stats engine_stats(const struct engine *engine);
/* Why nothing can be computed any more (damaged weights), or NULL; by the stepping thread. */
const struct mx_error *engine_failure(const struct engine *engine);

#endif
