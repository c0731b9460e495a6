/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/api_error.h"

#include <stdio.h>
#include <string.h>

bool problem_set(struct problem *p, int status, const char *param, const char *format, ...) {
    va_list args;
    *p = (struct problem){.status = status};
    if (param) snprintf(p->param, sizeof p->param, "%s", param);
    va_start(args, format);
    vsnprintf(p->message, sizeof p->message, format, args);
    va_end(args);
    for (char *c = p->message; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    return false;
}

bool problem_from_error(struct problem *p, const struct mx_error *err, const char *param) {
    bool is_ours = err->code == ERROR_IO || err->code == ERROR_MEMORY;
    return problem_set(p, is_ours ? 500 : 400, param, "%s", err->message);
}

/* The words of OpenAI and llama-server. */
static const char *openai_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    case 504: return "timeout_error";
    default: return "invalid_request_error";
    }
}

static const char *anthropic_type(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 500: return "api_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return "invalid_request_error";
    }
}

static void write_optional(struct json_writer *w, const char *key, const char *value) {
    json_add_string(w, key, value && *value ? value : NULL);
}

static void write_error(struct exchange *x, const struct problem *p, struct json_writer *w) {
    json_begin_object(w);
    if (x->dialect == DIALECT_OLLAMA) {
        json_add_string(w, "error", p->message);
        json_end_object(w);
        return;
    }
    if (x->dialect == DIALECT_ANTHROPIC) json_add_string(w, "type", "error");
    json_write_key(w, "error");
    json_begin_object(w);
    json_add_string(w, "message", p->message);
    json_write_key(w, "type");
    bool is_too_long = p->n_ctx > 0 && x->dialect == DIALECT_NATIVE;
    json_write_string(w, x->dialect == DIALECT_ANTHROPIC ? anthropic_type(p->status)
                         : is_too_long                   ? "exceed_context_size_error"
                                                         : openai_type(p->status));
    if (x->dialect != DIALECT_ANTHROPIC) write_optional(w, "param", p->param);
    if (x->dialect == DIALECT_NATIVE) {
        json_add_integer(w, "code", p->status);
    } else if (x->dialect == DIALECT_OPENAI) {
        write_optional(w, "code", p->code);
    }
    if (p->n_ctx > 0) {
        json_add_integer(w, "n_prompt_tokens", p->n_prompt_tokens);
        json_add_integer(w, "n_ctx", p->n_ctx);
    }
    json_end_object(w);
    if (x->dialect == DIALECT_ANTHROPIC) json_add_string(w, "request_id", x->id);
    json_end_object(w);
}

void api_fail(struct exchange *x, const struct problem *p) {
    struct buffer text = {0};
    struct json_writer w = {.out = &text};
    x->finish = x->finish ? x->finish : "error";
    if (!exchange_has_begun(x)) {
        write_error(x, p, &w);
        if (p->status == 429 || p->status == 503) exchange_add_header(x, "Retry-After", "1");
        if (p->status == 401) exchange_add_header(x, "WWW-Authenticate", "Bearer");
        exchange_reply_json(x, p->status, &text);
        return;
    }
    if (x->dialect == DIALECT_ANTHROPIC) buffer_puts(&text, "event: error\n");
    if (x->dialect != DIALECT_OLLAMA) buffer_puts(&text, "data: ");
    write_error(x, p, &w);
    buffer_puts(&text, x->dialect == DIALECT_OLLAMA ? "\n" : "\n\n");
    exchange_write_end(x, text.data, text.failed ? 0 : text.length);
    buffer_free(&text);
}

void api_refuse(struct exchange *x, int status, const char *message) {
    struct problem problem;
    problem_set(&problem, status, NULL, "%s", message);
    if (status == 401) problem.code = "invalid_api_key";
    api_fail(x, &problem);
}

void api_no_memory(struct exchange *x) { api_refuse(x, 500, "out of memory"); }
