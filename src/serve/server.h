/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server: what can be set, and running it.
 *
 * Threads: the caller's does all socket work (an event loop); one for each loaded model steps its engine and writes the
 * answers; a few prepare requests (JSON, template, tokens). Nothing but their queues is shared between them. */
#ifndef MLXCEL_SERVE_SERVER_H
#define MLXCEL_SERVE_SERVER_H

#include "engine/model.h"
#include "engine/sampling.h"

struct server_options {
    /* listening */
    const char *host; /* address or name; ends in ".sock": a Unix socket */
    int port;         /* 0 = one that is free, printed at the start */
    const char *tls_certificate, *tls_key;
    const char *api_prefix;
    /* who may ask */
    const char *const *api_keys; /* each a comma list */
    size_t n_api_keys;
    const char *api_key_file;
    const char *cors_origins; /* comma list, "*" or "localhost"; NULL = none */
    /* limits */
    size_t max_body_bytes, max_total_body_bytes, max_header_bytes;
    uint32_t max_connections, max_queue;
    double header_timeout, body_timeout, idle_timeout, write_timeout; /* seconds */
    double queue_timeout, first_token_timeout, total_timeout;         /* 0 = none */
    double drain_timeout, stuck_timeout, ping_interval;
    int n_workers;
    /* models */
    const char *model_path;
    const char *models_dir; /* further models, loaded when asked for */
    uint32_t max_models;    /* loaded at the same time; 0 = no limit */
    bool autoload;
    const char *alias;          /* comma list of names for model_path */
    struct model_options model; /* precision, tier, threads, max_rows */
    uint32_t n_parallel, context;
    struct diffusion_options diffusion;
    double step_ms;       /* wanted duration of a step while answers are written; 0 = as long as it takes */
    uint64_t kv_budget;   /* bytes of keys, values and state; 0 = from the free memory */
    uint64_t cache_bytes; /* of them, for the prefix cache at most */
    bool has_cache;
    /* chat */
    const char *chat_template;        /* text, or NULL */
    const char *chat_template_kwargs; /* JSON object, or NULL */
    const char *reasoning_format;     /* auto, none, deepseek */
    int64_t reasoning_budget;         /* -1 = none */
    /* answers */
    bool pools_last;   /* embeddings: the last token's state, not the mean of all */
    int64_t n_predict; /* where a request sets no limit; -1 = the rest of the context */
    bool (*set_sampling)(void *context, struct sampling_params *params, struct mx_error *err);
    void *sampling_context;
    /* endpoints */
    bool has_slots, has_props, has_metrics, has_web;
    const char *slot_save_path;
    const char *store_path; /* of the responses' database; NULL = in memory */
    uint32_t max_stored;
    /* log */
    bool log_is_json, log_is_off;
};

/* Fills in every default. */
void server_options_init(struct server_options *options);

/* Serves until SIGTERM or SIGINT. The exit status; an error that keeps it from starting is in *err. */
int server_run(const struct server_options *options, struct mx_error *err);

#endif
