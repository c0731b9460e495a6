/* SPDX-License-Identifier: Apache-2.0 */
/* POST /completion and /infill: llama-server's shape. */
#include "serve/api_native.h"
#include "serve/api_openai.h"
#include "serve/events.h"
#include "serve/server_parts.h"

#include <string.h>

static const struct field native_fields[] = {
    {"model", T_STRING, FIELD_USED},
    {"prompt", T_STRING | T_ARRAY | T_OBJECT, FIELD_USED},
    {"stop", T_STRING | T_ARRAY, FIELD_USED},
    {"n_probs", T_INTEGER, FIELD_USED},
    {"logprobs", T_INTEGER | T_BOOL, FIELD_USED},
    {"post_sampling_probs", T_BOOL, FIELD_USED},
    {"response_fields", T_ANY, FIELD_USED},
    {"timings_per_token", T_BOOL, FIELD_USED},
    {"n_cmpl", T_INTEGER, FIELD_USED},
    {"n", T_INTEGER, FIELD_USED},
    {"input_prefix", T_STRING, FIELD_USED},
    {"input_suffix", T_STRING, FIELD_USED},
    {"input_extra", T_ARRAY, FIELD_USED},
    {"typ_p", T_NUMBER, FIELD_USED},
    {"stream_options", T_ANY, FIELD_IGNORED},
    {"cache_prompt", T_BOOL, FIELD_IGNORED}, /* a hit changes no answer */
    {"return_tokens", T_BOOL, FIELD_USED},
    {"id_slot", T_INTEGER, FIELD_USED},
    {"n_cache_reuse", T_INTEGER, FIELD_IGNORED},
    {"verbose", T_BOOL, FIELD_IGNORED},
    {"n_indent", T_INTEGER, FIELD_REFUSED},
    {"t_max_predict_ms", T_INTEGER, FIELD_REFUSED},
    {"t_max_prompt_ms", T_INTEGER, FIELD_REFUSED},
    {"return_progress", T_BOOL, FIELD_REFUSED},
    {"image_data", T_ARRAY, FIELD_REFUSED},
    {"grammar_lazy", T_BOOL, FIELD_REFUSED},
    {"grammar_triggers", T_ARRAY, FIELD_REFUSED},
    {"preserved_tokens", T_ARRAY, FIELD_REFUSED},
    {NULL, 0, FIELD_USED, openai_field_table},
};

struct native_extra {
    const struct json *fields; /* response_fields, or NULL */
    bool is_list;              /* several prompts: the answer is an array */
    bool returns_tokens, times_tokens, is_final_distribution;
    size_t n_told; /* tokens that frames have carried; a stream has one choice */
};

/* ---- settings ---- */

void native_write_settings(struct json_writer *w, const struct sampling_params *params) {
    for (int i = 0; i < N_SAMPLING_FIELDS; i++) {
        const struct sampling_field *f = &sampling_fields[i];
        if (!strcmp(f->name, "want_logprobs") || !strcmp(f->name, "logprobs_kind") ||
            !strcmp(f->name, "n_top_logprobs"))
            continue;
        json_write_key(w, !strcmp(f->name, "repetition_penalty")  ? "repeat_penalty"
                          : !strcmp(f->name, "repetition_last_n") ? "repeat_last_n"
                          : !strcmp(f->name, "dry_last_n")        ? "dry_penalty_last_n"
                                                                  : f->name);
        if (f->kind == SAMPLING_INTEGER)
            json_write_integer(w, (int64_t)sampling_get(params, f));
        else
            json_write_real(w, sampling_get(params, f));
    }
}

static void write_generation_settings(struct json_writer *w, const struct generation *g) {
    json_begin_object(w);
    native_write_settings(w, &g->sampling);
    json_add_integer(w, "n_predict", g->max_tokens);
    json_add_integer(w, "max_tokens", g->max_tokens);
    json_add_integer(w, "n_probs", g->sampling.n_top_logprobs);
    json_write_key(w, "stop");
    json_begin_array(w);
    for (size_t i = 0; i < g->n_stops; i++) json_write_string_n(w, g->stops[i].text, g->stops[i].length);
    json_end_array(w);
    json_add_bool(w, "stream", g->streams);
    json_end_object(w);
}

/* ---- the whole answer ---- */

static const char *stop_type(const struct generation_choice *c) {
    if (choice_stop(c)) return "word";
    return c->reason == FINISH_LENGTH ? "limit" : c->end_token != SAMPLE_NONE ? "eos" : "none";
}

static void write_tokens(struct json_writer *w, const uint32_t *tokens, size_t n) {
    json_begin_array(w);
    for (size_t i = 0; i < n; i++) json_write_integer(w, tokens[i]);
    json_end_array(w);
}

static void write_prompt(struct json_writer *w, const struct generation *g, const struct generation_prompt *p) {
    struct buffer text = {0};
    struct mx_error err;
    tokenizer_decode(g->served->tokenizer, p->tokens, p->n_tokens, false, &text, &err);
    json_write_string_n(w, text.data ? text.data : "", text.length);
    buffer_free(&text);
}

static void write_probabilities(struct json_writer *w, struct generation_choice *c) {
    if (!c->generation->sampling.want_logprobs) return;
    json_write_key(w, "completion_probabilities");
    json_begin_array(w);
    if (c->logprobs.length) json_write_raw(w, c->logprobs.data, c->logprobs.length);
    json_end_array(w);
    buffer_clear(&c->logprobs);
}

static void write_whole(struct json_writer *w, struct generation_choice *c) {
    struct generation *g = c->generation;
    const struct native_extra *extra = g->extra;
    const struct generation_prompt *p = &g->prompts[c->index / g->n_per_prompt];
    const struct stop_string *stop = choice_stop(c);
    const struct buffer *content = &c->result.content;
    json_begin_object(w);
    json_add_integer(w, "index", c->index);
    json_add_text(w, "content", g->streams ? "" : content->data ? content->data : "", g->streams ? 0 : content->length);
    json_write_key(w, "tokens");
    write_tokens(w, c->tokens, extra->returns_tokens && !g->streams ? c->n_tokens : 0);
    json_add_integer(w, "id_slot", c->index);
    json_add_bool(w, "stop", true);
    json_add_string(w, "model", g->served->id);
    json_add_count(w, "tokens_predicted", c->n_generated);
    json_add_count(w, "tokens_evaluated", p->n_tokens);
    json_write_key(w, "generation_settings");
    write_generation_settings(w, g);
    json_write_key(w, "prompt");
    write_prompt(w, g, p);
    json_add_bool(w, "has_new_line", content->length && memchr(content->data, '\n', content->length));
    json_add_bool(w, "truncated", false);
    json_add_string(w, "stop_type", stop_type(c));
    json_add_text(w, "stopping_word", stop ? stop->text : "", stop ? stop->length : 0);
    json_add_count(w, "tokens_cached", p->n_tokens + c->n_generated);
    if (!g->streams) write_probabilities(w, c);
    openai_write_timings(w, g);
    json_end_object(w);
}

/* Only the members that response_fields names, each by its path ("a/b" keeps the whole path as the key). */
static void write_projected(struct json_writer *w, const struct json *whole, const struct json *fields) {
    json_begin_object(w);
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct json *path = &fields->items[i], *v = whole;
        bool is_repeated = false;
        for (uint32_t k = 0; k < i; k++)
            is_repeated |=
                fields->items[k].count == path->count && !memcmp(fields->items[k].string, path->string, path->count);
        for (uint32_t at = 0; v && at < path->count && !is_repeated;) {
            const char *slash = memchr(path->string + at, '/', path->count - at);
            uint32_t n = slash ? (uint32_t)(slash - path->string) - at : path->count - at;
            char key[128];
            snprintf(key, sizeof key, "%.*s", (int)(n < 127 ? n : 127), path->string + at);
            v = json_get(v, key);
            at += n + 1;
        }
        if (is_repeated || !v || !path->count) continue;
        json_write_key_n(w, path->string, path->count);
        json_write_value(w, v);
    }
    json_end_object(w);
}

static void write_final(struct json_writer *w, struct generation_choice *c) {
    const struct native_extra *extra = c->generation->extra;
    if (!extra->fields) {
        write_whole(w, c);
        return;
    }
    struct buffer whole = {0};
    struct arena arena = {0};
    struct mx_error err;
    struct json_writer inner = {.out = &whole};
    write_whole(&inner, c);
    const struct json *parsed = whole.failed ? NULL : json_parse(&arena, whole.data, whole.length, 0, 16, &err);
    if (parsed)
        write_projected(w, parsed, extra->fields);
    else
        w->out->failed = true;
    arena_free(&arena);
    buffer_free(&whole);
}

/* ---- streams: `data:` frames, no [DONE] ---- */

static void send_frame(struct generation_choice *c, const char *text, size_t length) {
    struct generation *g = c->generation;
    struct native_extra *extra = g->extra;
    struct json_writer w = event_begin(g, NULL);
    json_add_integer(&w, "index", c->index);
    json_add_text(&w, "content", text, length);
    json_write_key(&w, "tokens");
    write_tokens(&w, c->tokens + extra->n_told, c->n_tokens - extra->n_told);
    extra->n_told = c->n_tokens;
    json_add_bool(&w, "stop", false);
    json_add_integer(&w, "id_slot", c->index);
    json_add_count(&w, "tokens_predicted", c->n_generated);
    json_add_count(&w, "tokens_evaluated", g->prompts[c->index / g->n_per_prompt].n_tokens);
    write_probabilities(&w, c);
    if (extra->times_tokens) openai_write_timings(&w, g);
    event_end(g, &w);
}

static void piece(struct generation_choice *c, const struct reply_event *event) {
    send_frame(c, event->text, event->length);
}

static void end_choice(struct generation_choice *c) { (void)c; }

static void end(struct generation *g) {
    const struct native_extra *extra = g->extra;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    if (g->streams) {
        buffer_puts(&out, "data: ");
        write_final(&w, &g->choices[0]);
        buffer_puts(&out, "\n\n");
        exchange_write_end(g->exchange, out.data, out.failed ? 0 : out.length);
        buffer_free(&out);
        return;
    }
    if (extra->is_list) json_begin_array(&w);
    for (uint32_t i = 0; i < g->n_choices; i++) write_final(&w, &g->choices[i]);
    if (extra->is_list) json_end_array(&w);
    exchange_reply_json(g->exchange, 200, &out);
}

static const struct answer_writer native_writer = {
    events_begin, piece, end_choice, end, openai_add_logprob, sizeof(struct native_extra)};

/* ---- reading ---- */

static bool add_prompt(struct generation *g, const struct json *prompt, struct problem *problem) {
    const struct json *text = json_is_object(prompt) ? field_get(prompt, "prompt_string") : prompt;
    const struct json *media = json_is_object(prompt) ? field_get(prompt, "multimodal_data") : NULL;
    if (media && media->count)
        return problem_set(problem, 400, "prompt", "'multimodal_data': this model takes text only");
    return text ? request_add_prompt(g, text, problem)
                : problem_set(problem, 400, "prompt", "'prompt' has no 'prompt_string'");
}

/* Strings in an array that has numbers too are one mixed prompt; an array of strings or arrays is several. */
static bool take_prompts(struct generation *g, const struct json *prompt, struct problem *problem) {
    struct native_extra *extra = g->extra;
    bool is_mixed = false;
    if (!prompt) return problem_set(problem, 400, "prompt", "'prompt' is missing");
    for (uint32_t i = 0; json_is_array(prompt) && i < prompt->count; i++) is_mixed |= json_is_number(&prompt->items[i]);
    if (!json_is_array(prompt) || is_mixed) return add_prompt(g, prompt, problem);
    if (!prompt->count || prompt->count > MAX_CHOICES)
        return problem_set(problem, 400, "prompt", "'prompt' must hold 1 to %d prompts, not %u", MAX_CHOICES,
                           prompt->count);
    extra->is_list = true;
    for (uint32_t i = 0; i < prompt->count; i++)
        if (!add_prompt(g, &prompt->items[i], problem)) return false;
    return true;
}

static bool take_probabilities(struct generation *g, const struct json *body, struct problem *problem) {
    const struct json *logprobs = field_get(body, "logprobs");
    int64_t n = json_is_number(logprobs) ? json_integer(logprobs, 0) : 0;
    if (!field_integer(body, "n_probs", 0, 1000, n, &n, problem)) return false;
    struct native_extra *extra = g->extra;
    extra->is_final_distribution = json_bool(field_get(body, "post_sampling_probs"), false);
    g->sampling.want_logprobs = n > 0;
    g->sampling.n_top_logprobs = n;
    g->sampling.logprobs_kind = extra->is_final_distribution ? LOGPROBS_FINAL : LOGPROBS_RAW;
    return true;
}

/* Anything but a list of strings selects everything. */
static const struct json *response_fields(const struct json *body) {
    const struct json *v = field_get(body, "response_fields");
    if (!json_is_array(v) || !v->count) return NULL;
    for (uint32_t i = 0; i < v->count; i++)
        if (!json_is_string(&v->items[i])) return NULL;
    return v;
}

static bool take(struct generation *g, const struct json *body, bool fills, struct problem *problem) {
    struct native_extra *extra = g->extra;
    int64_t n;
    g->streams = json_bool(field_get(body, "stream"), false);
    extra->fields = response_fields(body);
    extra->times_tokens = json_bool(field_get(body, "timings_per_token"), false);
    extra->returns_tokens = json_bool(field_get(body, "return_tokens"), false);
    if (!field_integer(body, "id_slot", -1, g->served->options->n_parallel - 1, -1, &g->slot, problem)) return false;
    if (!field_integer(body, "n", 1, MAX_CHOICES, 1, &n, problem) ||
        !field_integer(body, "n_cmpl", 1, MAX_CHOICES, n, &n, problem))
        return false;
    g->n_per_prompt = (uint32_t)n;
    extra->is_list = n > 1;
    if (json_integer(field_get(body, "n_predict"), 1) == 0)
        g->max_tokens = 1; /* as llama-server: one token all the same */
    else if (!openai_take_limit(g, body, problem))
        return false;
    bool ok = request_take_sampling(g, body, problem) && request_take_stop(g, body, "stop", problem) &&
              take_probabilities(g, body, problem) && openai_take_format(g, body, problem);
    if (ok && fills) {
        struct token_list tokens = {0};
        ok = native_infill_prompt(g, body, &tokens, problem) &&
             generation_add_prompt(g, tokens.ids, tokens.count, problem);
        token_list_free(&tokens);
    } else if (ok) {
        ok = take_prompts(g, field_get(body, "prompt"), problem);
    }
    if (ok && g->streams && (g->n_prompts > 1 || n > 1))
        return problem_set(problem, 400, "stream", "'stream' takes one prompt and one answer here");
    return ok;
}

static void complete(struct exchange *x, bool fills) {
    struct problem problem;
    const struct json *body;
    struct generation *g = request_open(x, native_fields, &native_writer, &body, &problem);
    if (!g || !take(g, body, fills, &problem) || !generation_submit(g, &problem)) api_fail(x, &problem);
}

void api_completion(struct exchange *x) { complete(x, false); }
void api_infill(struct exchange *x) { complete(x, true); }
