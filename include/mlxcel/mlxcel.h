/* SPDX-License-Identifier: Apache-2.0 */
/* mlxcel: language models from MLX and Hugging Face safetensors folders, on Linux, in C.
 *
 * A model is opened from a checkpoint folder. Requests are submitted to it and answered by calls of mlxcel_step, which
 * computes one step for all of them together; callbacks run inside mlxcel_step. What a request is answered does not depend
 * on the others. mlxcel_generate does all of it for one prompt.
 *
 * Ownership: what mlxcel_open, mlxcel_tokenize, mlxcel_detokenize and mlxcel_chat_prompt return belongs to the caller and
 * goes back through mlxcel_close and mlxcel_free. Strings and arrays that the caller passes are copied or used only during
 * the call. Text given to callbacks is valid until the callback returns.
 *
 * Threads: mlxcel_submit and mlxcel_cancel may be called by any thread; mlxcel_step and mlxcel_generate by one thread at a
 * time. Different models are independent.
 *
 * A call that can fail returns NULL, 0 or false and fills the error (which may be NULL). */
#ifndef MLXCEL_MLXCEL_H
#define MLXCEL_MLXCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mlxcel_model;

enum mlxcel_error_code {
    MLXCEL_OK = 0,
    MLXCEL_ERROR_USAGE,       /* an argument makes no sense */
    MLXCEL_ERROR_IO,          /* a file cannot be read */
    MLXCEL_ERROR_FORMAT,      /* a file is not what its format says */
    MLXCEL_ERROR_UNSUPPORTED, /* well-formed, but not implemented */
    MLXCEL_ERROR_MEMORY,
    MLXCEL_ERROR_LIMIT,
    MLXCEL_ERROR_CANCELLED,
};

struct mlxcel_error {
    enum mlxcel_error_code code;
    char message[1000]; /* one line */
};

/* ---- models ---- */

struct mlxcel_model_options {
    int threads;            /* 0: one for each processor */
    bool exact;             /* weights and activations in f32 instead of the fast arithmetic of the weights' format */
    uint32_t max_sequences; /* answered at the same time; 0: 1 */
    uint32_t max_tokens;    /* of the longest sequence, prompt and answer; 0: the model's context */
    uint32_t prefix_cache_tokens; /* how much of earlier prompts is kept for later ones; 0: nothing */
};

/* options may be NULL. */
struct mlxcel_model *mlxcel_open(const char *folder, const struct mlxcel_model_options *options,
                                 struct mlxcel_error *error);
/* Cancels what is running. NULL is ignored. */
void mlxcel_close(struct mlxcel_model *model);

uint32_t mlxcel_vocab_size(const struct mlxcel_model *model);
uint32_t mlxcel_context_length(const struct mlxcel_model *model);

/* ---- text and tokens ---- */

/* Token ids of UTF-8 text; special: with BOS and the like, as the model's tokenizer adds them. */
uint32_t *mlxcel_tokenize(const struct mlxcel_model *model, const char *text, bool special, size_t *n_tokens,
                          struct mlxcel_error *error);
/* NUL-terminated UTF-8; special tokens are left out. */
char *mlxcel_detokenize(const struct mlxcel_model *model, const uint32_t *tokens, size_t n_tokens,
                        struct mlxcel_error *error);
/* The prompt for a conversation, by the model's chat template: messages_json is an array of {"role", "content"} objects,
 * tools_json an array of tools or NULL. */
char *mlxcel_chat_prompt(const struct mlxcel_model *model, const char *messages_json, const char *tools_json,
                         struct mlxcel_error *error);
void mlxcel_free(void *memory);

/* ---- requests ---- */

enum mlxcel_finish { MLXCEL_FINISH_STOP, MLXCEL_FINISH_LENGTH, MLXCEL_FINISH_CANCELLED, MLXCEL_FINISH_ERROR };

struct mlxcel_event {
    uint64_t request;
    const char *text; /* UTF-8 that can be shown now, whole characters; not NUL-terminated; may be empty */
    size_t length;
    uint32_t token;                         /* the token it came with; UINT32_MAX with the last event */
    bool is_last;                           /* nothing more comes for this request */
    enum mlxcel_finish finish;              /* of the last event */
    const char *error_message;              /* with MLXCEL_FINISH_ERROR */
    size_t n_prompt, n_cached, n_generated; /* tokens so far */
};

/* What an answer may look like. */
enum mlxcel_form {
    MLXCEL_FORM_TEXT,        /* any text */
    MLXCEL_FORM_JSON,        /* a JSON object */
    MLXCEL_FORM_JSON_SCHEMA, /* JSON that satisfies the schema form_text */
    MLXCEL_FORM_GBNF,        /* a text of the grammar form_text, in llama.cpp's notation */
    MLXCEL_FORM_REGEX,       /* a text that the regular expression form_text matches as a whole */
};

struct mlxcel_request {
    const uint32_t *prompt; /* token ids */
    size_t n_prompt;
    int64_t max_tokens; /* -1: up to the end of the context */
    double temperature; /* 0: the most probable token */
    int32_t top_k;      /* 0: off */
    double top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int64_t seed; /* -1: from the system */
    bool ignore_eos;
    const char *const *stop; /* texts that end the answer; they are not given out */
    size_t n_stop;
    enum mlxcel_form form;
    const char *form_text; /* NUL-terminated; copied */
    /* Returns false to end the answer. */
    bool (*on_event)(void *context, const struct mlxcel_event *event);
    void *context;
};

/* Fills in the defaults: greedy, no penalties, no limit. */
void mlxcel_request_init(struct mlxcel_request *request);

/* Takes a request; returns its number, 0 on failure. */
uint64_t mlxcel_submit(struct mlxcel_model *model, const struct mlxcel_request *request, struct mlxcel_error *error);
void mlxcel_cancel(struct mlxcel_model *model, uint64_t request);
/* Computes one step for all requests; false when there is nothing to do. */
bool mlxcel_step(struct mlxcel_model *model);

/* Answers one prompt given as text (raw, with BOS as the tokenizer adds it), with the settings of `request` (its prompt is
 * not used), and returns when it is done. */
bool mlxcel_generate(struct mlxcel_model *model, const char *prompt, const struct mlxcel_request *request,
                     struct mlxcel_error *error);

/* "0.1.0" */
const char *mlxcel_version(void);

#ifdef __cplusplus
}
#endif

#endif
