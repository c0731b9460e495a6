/* SPDX-License-Identifier: Apache-2.0 */
/* A request for generated text, from its prompts to the end of its answers, without a dialect's shapes.
 *
 * A worker fills the request in and calls generation_submit. From then on the engine's thread drives it: tokens become
 * text (text_stream), text becomes content, reasoning and calls (reply), and the writer turns these into bytes. Each
 * prompt gives n_per_prompt choices; choice k belongs to prompt k / n_per_prompt. */
#ifndef MLXCEL_SERVE_GENERATION_H
#define MLXCEL_SERVE_GENERATION_H

#include "engine/sampler_dry.h"
#include "serve/guide.h"
#include "serve/registry.h"
#include "text/text_stream.h"

struct generation;

enum { MAX_CHOICES = 128, MAX_VECTORS = 2048, MAX_STOPS = 64, CALL_ID_BYTES = 65 };

struct generation_choice {
    struct generation *generation;
    uint32_t index;
    struct text_stream stream;
    struct reply *reply;        /* NULL: all text is content */
    struct reply_result result; /* everything so far */
    char (*call_ids)[CALL_ID_BYTES];
    size_t n_call_ids, call_ids_capacity, n_calls_ended;
    struct buffer logprobs; /* items of the writer's log-probability list, since the last piece that was sent */
    struct buffer all_logprobs;
    size_t text_offset; /* characters, for the old form of log-probabilities */
    uint32_t *tokens;   /* where keeps_tokens */
    size_t n_tokens, tokens_capacity;
    uint64_t last_token_ns;
    size_t n_generated, n_reasoning; /* tokens */
    bool is_finished, was_told;
    enum finish_reason reason;
    float *vector;      /* of a request with pooling */
    uint32_t end_token; /* the token that ended it, or SAMPLE_NONE */
};

struct generation_prompt {
    struct generation *generation;
    uint32_t number;
    uint32_t *tokens; /* malloc'ed */
    size_t n_tokens;
    uint64_t id; /* the engine's; 0 = not submitted */
    size_t n_cached;
    struct cache_finding cache;
    struct guide *guide; /* or NULL */
};

/* What a dialect does with the events. The first three are for streams only; event may be of any reply_event_kind. All run
 * on the engine's thread. */
struct answer_writer {
    void (*begin)(struct generation *generation); /* on the worker, before any token */
    void (*piece)(struct generation_choice *choice, const struct reply_event *event);
    void (*end_choice)(struct generation_choice *choice);
    void (*end)(struct generation *generation); /* the whole answer, or the end of the stream; ends the exchange */
    /* One more item for choice->logprobs; NULL = none. */
    void (*logprob)(struct generation_choice *choice, uint32_t token, const struct sample_result *sample);
    size_t extra_bytes;                             /* of generation->extra */
    bool collects;                                  /* piece is called for whole answers too */
    void (*dispose)(struct generation *generation); /* frees what `extra` holds beside the arena; or NULL */
};

enum { EXPIRED_NONE, EXPIRED_QUEUE, EXPIRED_FIRST_TOKEN, EXPIRED_TOTAL, EXPIRED_SHUTDOWN };

struct generation {
    struct exchange *exchange;
    struct served *served;
    const struct answer_writer *writer;

    /* The request. */
    bool keeps_markers; /* special tokens that mean something stay in the text */
    bool streams, includes_usage, parses_reply, has_prefill, keeps_tokens, one_call_only, hides_reasoning;
    bool remembers_prompt_only; /* in its slot */
    uint32_t n_per_prompt;
    int64_t max_tokens;
    struct sampling_params sampling;
    struct stop_string stops[MAX_STOPS];
    size_t n_stops;
    const uint32_t *stop_ids; /* in the exchange's arena */
    size_t n_stop_ids;
    const struct dry_breakers *breakers; /* the model's, or own_breakers */
    struct dry_breakers own_breakers;
    const struct json *tools; /* that calls may name; NULL = none are parsed */
    const char *prompt_text;  /* rendered, for the reply parser */
    size_t prompt_text_length;
    struct guide_rule rule; /* that the content must follow */
    int64_t think_budget;   /* tokens of thoughts; -1 = any number */
    bool may_think;
    const struct reply_format *reply_format; /* that calls are written in, where it is not the model's */
    enum pooling pooling;
    int priority;
    int64_t slot; /* where the conversation is remembered; -1 = anywhere */
    void *extra;  /* the writer's, zeros at first; in the exchange's arena */
    char answer_id[CALL_ID_BYTES];
    int64_t created;

    struct generation_prompt *prompts;
    uint32_t n_prompts;
    struct generation_choice *choices;
    uint32_t n_choices, n_finished;

    pthread_mutex_t lock; /* submitting, cancelling, events */
    bool is_submitted, is_abandoned;
    atomic_int expired;
    bool has_failed;
    struct problem failure;
    struct buffer json; /* scratch of the writer */
    struct buffer head; /* what each chunk begins with */
    uint64_t submitted_ns;
    atomic_uint_least64_t started_ns, first_token_ns;
    uint64_t ended_ns;
};

/* A generation with defaults, owned by the exchange, for the model of that name. NULL with the problem set. */
struct generation *generation_create(struct exchange *exchange, const char *model_name,
                                     const struct answer_writer *writer, struct problem *problem);
void generation_free(struct generation *generation);

/* One more prompt; the tokens are copied. */
bool generation_add_prompt(struct generation *generation, const uint32_t *tokens, size_t n, struct problem *problem);
bool generation_add_stop(struct generation *generation, const char *text, size_t length, struct problem *problem);

/* Checks lengths and starts. False with the problem set, and then nothing runs. */
bool generation_submit(struct generation *generation, struct problem *problem);

/* The client is gone. */
void generation_abandon(struct exchange *exchange);
/* Limits of time; I/O thread. */
void generation_check_time(struct exchange *exchange, uint64_t now_ns);
/* Ends it with an error, e.g. at shutdown. */
void generation_expire(struct exchange *exchange, int why);

/* Sums. */
size_t generation_n_prompt(const struct generation *generation);
size_t generation_n_cached(const struct generation *generation);
/* What the prefix cache had of the prompts, in words; of several prompts, why the first one was missed. */
void generation_cache_text(const struct generation *generation, bool is_for_client, char text[CACHE_FINDING_TEXT]);
size_t generation_n_generated(const struct generation *generation);

/* Why a choice ended, for those who ask: the stop string, or NULL. */
const struct stop_string *choice_stop(const struct generation_choice *choice);

#endif
