/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t interrupts, last_interrupt;

static void handle_interrupt(int number) {
    (void)number;
    if (++interrupts >= last_interrupt) _exit(130);
}

void session_catch_interrupt(void) { session_catch_interrupts(2); }

void session_catch_interrupts(int n_until_exit) {
    last_interrupt = n_until_exit;
    struct sigaction action = {.sa_handler = handle_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool session_was_interrupted(void) { return interrupts != 0; }
void session_clear_interrupt(void) { interrupts = 0; }

/* ---- opening ---- */

bool session_open_text(struct session *s, const struct options *options, struct mx_error *err) {
    struct config config;
    *s = (struct session){0};
    if (!load_model_path(options, s->path, sizeof s->path, err) || !config_open(&config, s->path, err)) return false;
    s->context_length = config_size_or(&config, "max_position_embeddings", 4096);
    bool ok = !config.error.code;
    if (!ok) *err = config.error;
    config_close(&config);
    ok = ok && (s->tokenizer = tokenizer_open(s->path, err)) != NULL &&
         (s->chat = template_open(options, s->path, &s->template_name, err)) != NULL;
    if (!ok) session_close(s);
    return ok;
}

bool session_open_model(struct session *s, const struct options *options, uint32_t max_cells, bool with_cache,
                        struct mx_error *err) {
    struct model_options m = {.max_cells = max_cells, .n_snapshots = with_cache ? 4 : 0};
    if (with_cache) m.n_cache_pages = (max_cells ? max_cells : s->context_length) / PAGE_CELLS;
    struct engine_options e = {.n_tokens = (uint32_t)tokenizer_vocab_size(s->tokenizer),
                               .cache_within_pages = true,
                               .diffusion = load_diffusion_options(options)};
    if (!load_model_options(options, &m, err)) return false;
    struct progress progress;
    progress_begin(&progress, "loading the model");
    bool ok = model_open(&s->model, s->path, &m, err);
    progress_end(&progress);
    if (!ok) return false;
    s->keeps = with_cache;
    if (with_cache) e.cache_pages = s->model.options.max_cells / PAGE_CELLS;
    s->engine = engine_create(&s->model, &e, err);
    return s->engine != NULL;
}

void session_close(struct session *s) {
    engine_destroy(s->engine);
    model_close(&s->model);
    token_trie_destroy(s->trie);
    if (s->chat) chat_template_close(s->chat);
    if (s->tokenizer) tokenizer_close(s->tokenizer);
    *s = (struct session){0};
}

/* ---- prompts ---- */

static bool has_token(void *tokenizer, const char *text) {
    uint32_t id;
    return tokenizer_find(tokenizer, text, strlen(text), &id);
}

bool session_encode_chat(const struct session *s, const struct options *options, const struct json *messages,
                         struct token_list *tokens, struct mx_error *err) {
    struct arena arena = {0};
    struct buffer text = {0};
    struct chat_request request = {.messages = messages,
                                   .name = s->template_name,
                                   .add_generation_prompt = true,
                                   .adapts_messages = true,
                                   .enables_thinking = chat_vocabulary_thinks(has_token, s->tokenizer)};
    /* A template writes the BOS itself or means that there is none; the fallback leaves it to the tokenizer. */
    unsigned flags = chat_template_exists(s->chat) ? 0 : TOKENIZE_SPECIAL;
    bool ok = template_kwargs(options, &arena, &request.kwargs, err);
    if (ok && !chat_template_render(s->chat, &request, NULL, &text, NULL, err))
        ok = error_prefix(err, "--no-chat-template would give the prompt as it is");
    ok = ok && tokenizer_encode(s->tokenizer, text.data, text.length, flags, tokens, err);
    buffer_free(&text);
    arena_free(&arena);
    return ok;
}

bool session_encode_prompt(const struct session *s, const struct options *options, const char *prompt,
                           struct token_list *tokens, struct mx_error *err) {
    if (options_flag(options, OPT_NO_CHAT_TEMPLATE) || !chat_template_exists(s->chat)) {
        if (!options_flag(options, OPT_NO_CHAT_TEMPLATE))
            log_line(LOG_INFO, "the model has no chat template: the prompt is used as it is");
        return tokenizer_encode(s->tokenizer, prompt, strlen(prompt), TOKENIZE_SPECIAL, tokens, err);
    }
    struct buffer text = {0};
    struct arena arena = {0};
    struct json_writer w = {.out = &text};
    json_begin_array(&w);
    json_begin_object(&w);
    json_add_string(&w, "role", "user");
    json_add_string(&w, "content", prompt);
    json_end_object(&w);
    json_end_array(&w);
    const struct json *messages = text.failed ? NULL : json_parse(&arena, text.data, text.length, 0, 16, err);
    bool ok = messages ? session_encode_chat(s, options, messages, tokens, err) : error_memory(err, "prompt");
    arena_free(&arena);
    buffer_free(&text);
    return ok;
}

/* ---- sampling ---- */

static const struct {
    enum option_id option;
    const char *field;
} sampling_options[] = {
    {OPT_TEMPERATURE, "temperature"},
    {OPT_TOP_P, "top_p"},
    {OPT_TOP_K, "top_k"},
    {OPT_SERVE_TEMPERATURE, "temperature"},
    {OPT_SERVE_TOP_P, "top_p"},
    {OPT_SERVE_TOP_K, "top_k"},
    {OPT_SERVE_MIN_P, "min_p"},
    {OPT_SERVE_SEED, "seed"},
    {OPT_MIN_P, "min_p"},
    {OPT_TYPICAL_P, "typical_p"},
    {OPT_TOP_N_SIGMA, "top_n_sigma"},
    {OPT_XTC_PROBABILITY, "xtc_probability"},
    {OPT_XTC_THRESHOLD, "xtc_threshold"},
    {OPT_REPETITION_PENALTY, "repetition_penalty"},
    {OPT_PRESENCE_PENALTY, "presence_penalty"},
    {OPT_FREQUENCY_PENALTY, "frequency_penalty"},
    {OPT_REPEAT_LAST_N, "repetition_last_n"},
    {OPT_DRY_MULTIPLIER, "dry_multiplier"},
    {OPT_DRY_BASE, "dry_base"},
    {OPT_DRY_ALLOWED_LENGTH, "dry_allowed_length"},
    {OPT_DRY_PENALTY_LAST_N, "dry_last_n"},
    {OPT_DYNATEMP_RANGE, "dynatemp_range"},
    {OPT_DYNATEMP_EXP, "dynatemp_exponent"},
    {OPT_MIROSTAT, "mirostat"},
    {OPT_MIROSTAT_LR, "mirostat_eta"},
    {OPT_MIROSTAT_ENT, "mirostat_tau"},
    {OPT_GENERATE_SEED, "seed"},
    {OPT_MIN_TOKENS, "min_tokens"},
};

/* "ID=BIAS" or "ID+BIAS" or "ID-BIAS"; "-inf" bans. */
static bool parse_bias(const char *text, struct logit_bias *bias, struct mx_error *err) {
    char *end;
    unsigned long id = strtoul(text, &end, 10);
    if (end != text && id < UINT32_MAX && (*end == '=' || *end == '+' || *end == '-')) {
        const char *number = *end == '=' ? end + 1 : end;
        float value = strtof(number, &end);
        if (end != number && !*end && value == value) {
            *bias = (struct logit_bias){(uint32_t)id, value};
            return true;
        }
    }
    return error_set(err, ERROR_USAGE, "--logit-bias: '%s' is not of the form ID=BIAS", text);
}

bool session_sampling(const struct options *options, struct sampling_params *params, struct mx_error *err) {
    *params = sampling_defaults();
    return session_override_sampling(options, params, err);
}

bool session_override_sampling(const struct options *options, struct sampling_params *params, struct mx_error *err) {
    for (size_t i = 0; i < sizeof sampling_options / sizeof *sampling_options; i++) {
        const char *text = options->text[sampling_options[i].option];
        const struct sampling_field *field = sampling_field_find(sampling_options[i].field);
        if (!text || !field) continue;
        if (!sampling_set(params, field, strtod(text, NULL), err)) {
            err->code = ERROR_USAGE;
            return error_prefix(err, "%s", option_table[sampling_options[i].option].name);
        }
    }
    if (options_is_set(options, OPT_IGNORE_EOS)) params->ignore_eos = options_flag(options, OPT_IGNORE_EOS);
    size_t n = options->n_values[OPT_LOGIT_BIAS];
    if (!n) return true;
    struct logit_bias *biases = array_calloc(n, sizeof *biases);
    if (!biases) return error_memory(err, "--logit-bias");
    params->logit_bias = biases;
    params->n_logit_bias = n;
    for (size_t i = 0; i < n; i++)
        if (!parse_bias(options->values[OPT_LOGIT_BIAS][i], &biases[i], err)) return false;
    return true;
}

/* ---- memory ---- */

/* Weights, keys and values and state of the longest sequence, working buffers. */
static bool estimate(const struct session *s, uint32_t max_cells, uint64_t parts[4], struct mx_error *err) {
    struct config config;
    struct graph graph;
    if (!config_open(&config, s->path, err)) return false;
    bool ok = model_build(&graph, &config, NULL, err);
    if (ok) {
        uint32_t widest = 0;
        for (size_t i = 0; i < graph.weights.n; i++) parts[0] += graph.weights.list[i]->stored_bytes;
        for (size_t g = 0; g < graph.n_groups; g++)
            parts[1] +=
                model_pages_for(&graph.groups[g], max_cells, 512) * cache_group_page_bytes(&graph.groups[g], KV_F16);
        parts[2] = graph.state_floats * 4;
        for (size_t i = 0; i < graph.n_values; i++)
            if (!graph.values[i].is_output_domain && graph.values[i].width > widest) widest = graph.values[i].width;
        parts[3] = 4ull * 512 * widest * 4 + 16ull * graph.vocab_size * 4;
        graph_free(&graph);
    }
    config_close(&config);
    return ok;
}

bool session_check_memory(const struct session *s, const struct options *options, uint32_t max_cells,
                          struct mx_error *err) {
    static const char *const names[] = {"weights", "keys and values", "recurrent state", "working buffers"};
    uint64_t parts[4] = {0}, total = 0, available = memory_available();
    if (!estimate(s, max_cells, parts, err)) return false;
    for (int i = 0; i < 4; i++) total += parts[i];
    if (options_flag(options, OPT_ESTIMATE_MEMORY)) {
        fprintf(stderr, "memory estimate for %u tokens:\n", max_cells);
        for (int i = 0; i < 4; i++)
            if (parts[i]) fprintf(stderr, "  %-16s %10.1f MiB\n", names[i], (double)parts[i] / 0x1p20);
        fprintf(stderr, "  %-16s %10.1f MiB\n  %-16s %10.1f MiB\n", "total", (double)total / 0x1p20, "available",
                (double)available / 0x1p20);
    }
    if (total <= available || !available) return true;
    double over = (double)(total - available) / 0x1p30;
    if (options_flag(options, OPT_FORCE)) {
        log_line(LOG_WARNING, "the estimate exceeds the available memory by %.2f GiB; going on (--force)", over);
        return true;
    }
    return error_set(
        err, ERROR_MEMORY,
        "about %.2f GiB are needed for %u tokens, %.2f GiB are available (fewer tokens: -n; regardless: --force)",
        (double)total / 0x1p30, max_cells, (double)available / 0x1p30);
}
