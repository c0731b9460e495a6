/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/completions: text that goes on. */
#include "serve/api_openai.h"

#include "base/utf8.h"
#include "serve/events.h"
#include "serve/random_id.h"
#include "serve/server_parts.h"

#include <math.h>
#include <string.h>

static const struct field text_fields[] = {
    {"model", T_STRING, FIELD_USED},
    {"prompt", T_STRING | T_ARRAY, FIELD_USED},
    {"n", T_INTEGER, FIELD_USED},
    {"best_of", T_INTEGER, FIELD_USED},
    {"stop", T_STRING | T_ARRAY, FIELD_USED},
    {"logprobs", T_INTEGER, FIELD_USED},
    {"echo", T_BOOL, FIELD_USED},
    {"suffix", T_STRING, FIELD_REFUSED},
    {"prompt_logprobs", T_INTEGER | T_BOOL, FIELD_REFUSED},
    {"include_stop_str_in_output", T_BOOL, FIELD_REFUSED},
    {"truncate_prompt_tokens", T_INTEGER, FIELD_REFUSED},
    {NULL, 0, FIELD_USED, openai_field_table},
};

struct text_extra {
    bool echoes;
};

/* ---- writing ---- */

/* Items are kept as JSON arrays [token, logprob, {alternatives}, offset], separated by commas. */
static void logprob(struct generation_choice *c, uint32_t token, const struct sample_result *sample) {
    const struct tokenizer *tokenizer = c->generation->served->tokenizer;
    struct json_writer w = {.out = &c->logprobs};
    const char *bytes = "";
    size_t n = 0;
    tokenizer_token_bytes(tokenizer, token, &bytes, &n);
    if (c->logprobs.length) buffer_putc(&c->logprobs, ',');
    json_begin_array(&w);
    json_write_string_n(&w, bytes, n);
    json_write_real_as(&w, "%.6g", isfinite(sample->logprob) ? (double)sample->logprob : -9999.0);
    json_begin_object(&w);
    for (uint32_t i = 0; i < sample->n_top; i++) {
        const char *other = "";
        size_t length = 0;
        tokenizer_token_bytes(tokenizer, sample->top[i].token, &other, &length);
        if (utf8_valid_prefix(other, length) == length)
            json_write_key_n(&w, other, length);
        else { /* a piece of a character: its bytes, as OpenAI writes them */
            struct buffer name = {0};
            buffer_puts(&name, "bytes:");
            for (size_t b = 0; b < length; b++) buffer_printf(&name, "\\x%02x", (unsigned char)other[b]);
            json_write_key_n(&w, name.data ? name.data : "", name.length);
            buffer_free(&name);
        }
        json_write_real_as(&w, "%.6g", isfinite(sample->top[i].logprob) ? (double)sample->top[i].logprob : -9999.0);
    }
    json_end_object(&w);
    json_write_integer(&w, (int64_t)c->text_offset);
    json_end_array(&w);
    c->text_offset += utf8_valid_prefix(bytes, n) == n ? utf8_count(bytes, n) : 0;
}

static void write_lists(struct json_writer *w, struct generation_choice *c) {
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    struct arena arena = {0};
    struct buffer all = {0};
    struct mx_error err;
    buffer_printf(&all, "[%s]", c->logprobs.length ? c->logprobs.data : "");
    const struct json *items = all.failed ? NULL : json_parse(&arena, all.data, all.length, 0, 8, &err);
    json_begin_object(w);
    for (size_t k = 0; k < 4; k++) {
        json_write_key(w, names[k]);
        json_begin_array(w);
        for (uint32_t i = 0; items && i < items->count; i++) json_write_value(w, json_at(&items->items[i], k));
        json_end_array(w);
    }
    json_end_object(w);
    buffer_clear(&c->logprobs);
    buffer_free(&all);
    arena_free(&arena);
}

static void write_choice(struct json_writer *w, struct generation_choice *c, const char *text, size_t length,
                         bool is_last) {
    json_begin_object(w);
    json_add_text(w, "text", text, length);
    json_add_integer(w, "index", c->index);
    json_write_key(w, "logprobs");
    if (c->generation->sampling.want_logprobs)
        write_lists(w, c);
    else
        json_write_null(w);
    json_write_key(w, "finish_reason");
    if (is_last)
        json_write_string(w, openai_finish_reason(c));
    else
        json_write_null(w);
    json_end_object(w);
}

static void send_chunk(struct generation_choice *c, const char *text, size_t length, bool is_last) {
    struct generation *g = c->generation;
    struct json_writer w = event_begin(g, NULL);
    openai_write_head(&w, g, "text_completion");
    json_write_key(&w, "choices");
    json_begin_array(&w);
    write_choice(&w, c, text, length, is_last);
    json_end_array(&w);
    if (g->includes_usage) json_add_null(&w, "usage");
    event_end(g, &w);
}

/* The prompt's text, where it is echoed. */
static void prompt_text(struct generation_choice *c, struct buffer *out) {
    struct generation *g = c->generation;
    const struct generation_prompt *p = &g->prompts[c->index / g->n_per_prompt];
    const struct text_extra *extra = g->extra;
    struct mx_error err;
    if (extra->echoes) tokenizer_decode(g->served->tokenizer, p->tokens, p->n_tokens, true, out, &err);
}

static void tell_prompt(struct generation_choice *c) {
    struct buffer text = {0};
    if (c->was_told) return;
    c->was_told = true;
    prompt_text(c, &text);
    if (text.length) send_chunk(c, text.data, text.length, false);
    buffer_free(&text);
}

static void piece(struct generation_choice *c, const struct reply_event *event) {
    tell_prompt(c);
    send_chunk(c, event->text, event->length, false);
}

static void end_choice(struct generation_choice *c) {
    tell_prompt(c);
    send_chunk(c, "", 0, true);
}

static void end(struct generation *g) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    if (g->streams) {
        openai_end_stream(g, "text_completion");
        return;
    }
    json_begin_object(&w);
    openai_write_head(&w, g, "text_completion");
    json_write_key(&w, "choices");
    json_begin_array(&w);
    for (uint32_t i = 0; i < g->n_choices; i++) {
        struct generation_choice *c = &g->choices[i];
        struct buffer text = {0};
        prompt_text(c, &text);
        buffer_append(&text, c->result.content.data ? c->result.content.data : "", c->result.content.length);
        write_choice(&w, c, text.data ? text.data : "", text.length, true);
        if (text.failed) out.failed = true;
        buffer_free(&text);
    }
    json_end_array(&w);
    openai_write_usage(&w, g);
    openai_write_timings(&w, g);
    json_end_object(&w);
    exchange_reply_json(g->exchange, 200, &out);
}

static const struct answer_writer text_writer = {events_begin, piece,   end_choice,
                                                 end,          logprob, sizeof(struct text_extra)};

/* ---- reading ---- */

static bool take(struct generation *g, const struct json *body, struct problem *problem) {
    struct text_extra *extra = g->extra;
    int64_t n, best_of, top;
    random_id(g->answer_id, "cmpl-", 24);
    extra->echoes = json_bool(field_get(body, "echo"), false);
    if (!field_integer(body, "n", 1, MAX_CHOICES, 1, &n, problem) ||
        !field_integer(body, "best_of", 1, MAX_CHOICES, n, &best_of, problem) ||
        !field_integer(body, "logprobs", 0, 20, -1, &top, problem))
        return false;
    if (best_of != n) return problem_set(problem, 400, "best_of", "'best_of' other than 'n' is not supported");
    if (extra->echoes && top >= 0)
        return problem_set(problem, 400, "echo", "'echo' together with 'logprobs' is not supported");
    g->n_per_prompt = (uint32_t)n;
    g->sampling.want_logprobs = top >= 0;
    g->sampling.n_top_logprobs = top > 0 ? top : 0;
    g->sampling.logprobs_kind = LOGPROBS_RAW;
    return openai_take_stream(g, body, problem) && openai_take_limit(g, body, problem) &&
           request_take_sampling(g, body, problem) && request_take_stop(g, body, "stop", problem) &&
           openai_take_format(g, body, problem) &&
           request_take_prompts(g, field_get(body, "prompt"), "prompt", MAX_CHOICES, problem);
}

void api_completions(struct exchange *x) {
    struct problem problem;
    const struct json *body;
    struct generation *g = request_open(x, text_fields, &text_writer, &body, &problem);
    if (!g || !take(g, body, &problem) || !generation_submit(g, &problem)) api_fail(x, &problem);
}
