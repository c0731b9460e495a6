/* SPDX-License-Identifier: Apache-2.0 */
/* mlxcel serve, mlxcel-server: options to the server's settings. */
#include "cli/commands.h"
#include "cli/load.h"
#include "cli/session.h"

#include "base/file.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

static bool set_sampling(void *context, struct sampling_params *params, struct mx_error *err) {
    return session_override_sampling(context, params, err);
}

static void read_limits(const struct options *o, struct server_options *s) {
    s->max_body_bytes = (size_t)options_integer(o, OPT_MAX_BODY_SIZE) << 20;
    s->max_total_body_bytes = 8 * s->max_body_bytes;
    s->max_connections = (uint32_t)options_integer(o, OPT_MAX_CONNECTIONS);
    s->max_queue = (uint32_t)options_integer(o, OPT_MAX_QUEUE_DEPTH);
    s->write_timeout = options_real(o, OPT_TIMEOUT);
    s->queue_timeout = options_real(o, OPT_QUEUE_TIMEOUT);
    s->first_token_timeout = options_real(o, OPT_FIRST_TOKEN_TIMEOUT);
    s->total_timeout = options_real(o, OPT_REQUEST_TIMEOUT);
    s->drain_timeout = options_real(o, OPT_DRAIN_TIMEOUT);
    s->stuck_timeout = options_real(o, OPT_DECODE_TIMEOUT);
    s->header_timeout = options_real(o, OPT_HEADER_TIMEOUT);
    s->ping_interval = options_real(o, OPT_SSE_PING_INTERVAL);
    s->n_workers = (int)options_integer(o, OPT_THREADS_HTTP);
    if (s->n_workers < 1) s->n_workers = 2;
}

static bool read_models(const struct options *o, struct server_options *s, char *path, size_t room,
                        struct mx_error *err) {
    s->models_dir = options_text(o, OPT_MODELS_DIR);
    if (options_text(o, OPT_MODEL) || !s->models_dir) {
        if (!load_model_path(o, path, room, err)) return false;
        s->model_path = path;
    }
    s->max_models = (uint32_t)options_integer(o, OPT_MODELS_MAX);
    s->autoload = !options_flag(o, OPT_NO_MODELS_AUTOLOAD);
    s->alias = options_text(o, OPT_ALIAS);
    s->n_parallel = (uint32_t)options_integer(o, OPT_PARALLEL);
    s->context = (uint32_t)options_integer(o, OPT_CTX_SIZE);
    s->kv_budget = (uint64_t)options_integer(o, OPT_KV_CACHE_BUDGET) << 20;
    int64_t cache = options_integer(o, OPT_CACHE_RAM);
    s->has_cache = cache != 0 && !options_flag(o, OPT_NO_PROMPT_CACHE);
    s->cache_bytes = cache < 0 ? 0 : (uint64_t)cache << 20;
    s->step_ms = options_real(o, OPT_STEP_MS);
    s->diffusion = load_diffusion_options(o);
    s->model.max_rows = (uint32_t)options_integer(o, OPT_BATCH_SIZE);
    return load_model_options(o, &s->model, err);
}

static bool read_template(const struct options *o, struct server_options *s, char **file, struct mx_error *err) {
    const char *path = options_text(o, OPT_CHAT_TEMPLATE_FILE);
    size_t length;
    s->chat_template = options_text(o, OPT_CHAT_TEMPLATE);
    s->chat_template_kwargs = options_text(o, OPT_CHAT_TEMPLATE_KWARGS);
    if (!path) return true;
    if (s->chat_template) return error_set(err, ERROR_USAGE, "give one of --chat-template and --chat-template-file");
    s->chat_template = *file = file_read(path, 16 << 20, &length, err);
    return *file != NULL;
}

/* What would otherwise be found out by clients only. */
static bool check_places(const struct server_options *s, struct mx_error *err) {
    const char *prefix = s->api_prefix;
    size_t n = prefix ? strlen(prefix) : 0;
    if (n && (prefix[0] != '/' || prefix[n - 1] == '/'))
        return error_set(err, ERROR_USAGE, "--api-prefix: '%s' does not begin with '/', or ends with it", prefix);
    if (s->slot_save_path && !file_is_directory(s->slot_save_path))
        return error_set(err, ERROR_USAGE, "--slot-save-path: %s is no folder", s->slot_save_path);
    return true;
}

int command_serve(const struct options *o) {
    struct server_options s;
    struct mx_error err = {0};
    char path[4096], *template_file = NULL;
    int status = 1;
    server_options_init(&s);
    s.host = options_text(o, OPT_HOST);
    s.port = (int)options_integer(o, OPT_PORT);
    s.api_prefix = options_text(o, OPT_API_PREFIX);
    s.tls_certificate = options_text(o, OPT_SSL_CERT_FILE);
    s.tls_key = options_text(o, OPT_SSL_KEY_FILE);
    s.api_keys = o->values[OPT_API_KEY];
    s.n_api_keys = o->n_values[OPT_API_KEY];
    s.api_key_file = options_text(o, OPT_API_KEY_FILE);
    s.cors_origins = options_text(o, OPT_CORS_ORIGINS);
    s.n_predict = options_integer(o, OPT_SERVE_N_PREDICT);
    s.reasoning_budget = options_integer(o, OPT_REASONING_BUDGET);
    s.pools_last = !strcmp(options_text(o, OPT_POOLING), "last");
    s.has_metrics = options_flag(o, OPT_METRICS);
    s.has_props = options_flag(o, OPT_PROPS);
    s.has_slots = !options_flag(o, OPT_NO_SLOTS);
    s.has_web = !options_flag(o, OPT_NO_UI);
    s.slot_save_path = options_text(o, OPT_SLOT_SAVE_PATH);
    s.store_path = options_text(o, OPT_RESPONSES_STORE);
    s.max_stored = (uint32_t)options_integer(o, OPT_RESPONSES_STORE_MAX);
    s.log_is_json = options_flag(o, OPT_LOG_JSONL);
    s.log_is_off = options_flag(o, OPT_LOG_DISABLE);
    s.set_sampling = set_sampling;
    s.sampling_context = (void *)(uintptr_t)o;
    read_limits(o, &s);
    if (s.n_predict == 0)
        error_set(&err, ERROR_USAGE, "--n-predict must be -1 or at least 1");
    else if (check_places(&s, &err) && read_models(o, &s, path, sizeof path, &err) &&
             read_template(o, &s, &template_file, &err))
        status = server_run(&s, &err);
    free(template_file);
    return err.code ? command_fail(&err) : status;
}
