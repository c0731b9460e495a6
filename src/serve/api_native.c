/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens, templates, gaps in code: llama-server's routes that are about text. */
#include "serve/api_native.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "serve/api_openai.h"
#include "serve/server_parts.h"

#include <string.h>

/* ---- tokens ---- */

static const struct field tokenize_fields[] = {
    {"content", T_STRING | T_ARRAY, FIELD_USED},
    {"add_special", T_BOOL, FIELD_USED},
    {"parse_special", T_BOOL, FIELD_USED},
    {"with_pieces", T_BOOL, FIELD_USED},
    {"model", T_STRING, FIELD_USED},
    {NULL, 0, FIELD_USED},
};

static const struct field detokenize_fields[] = {
    {"tokens", T_ARRAY, FIELD_USED},
    {"model", T_STRING, FIELD_USED},
    {NULL, 0, FIELD_USED},
};

/* The body and the model, or an answer that says what is wrong. */
static const struct json *open_body(struct exchange *x, const struct field *fields, struct served **served) {
    struct problem problem;
    const struct json *body = fields_parse_body(x, &problem);
    if (body && fields_check(x, body, fields, &problem)) {
        *served = registry_acquire(&x->server->registry, request_string(x, body, "model"), &problem);
        if (*served) return body;
    }
    api_fail(x, &problem);
    return NULL;
}

static bool append(struct token_list *all, const uint32_t *ids, size_t n) {
    if (!array_reserve(&all->ids, &all->capacity, all->count + n, sizeof *all->ids)) return false;
    if (n) memcpy(all->ids + all->count, ids, n * sizeof *ids);
    all->count += n;
    return true;
}

static bool encode_content(const struct served *served, const struct json *content, unsigned flags,
                           struct token_list *all, struct problem *problem) {
    uint32_t n = json_is_array(content) ? content->count : 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct json *v = json_is_array(content) ? &content->items[i] : content;
        struct token_list part = {0};
        struct mx_error err = {0};
        bool ok;
        if (json_is_string(v)) {
            ok = tokenizer_encode(served->tokenizer, v->string, v->count,
                                  i ? flags & ~(unsigned)TOKENIZE_SPECIAL : flags, &part, &err);
            if (!ok)
                problem_from_error(problem, &err, "content");
            else if (!append(all, part.ids, part.count))
                ok = problem_set(problem, 500, NULL, "out of memory");
            token_list_free(&part);
        } else {
            uint32_t id = (uint32_t)json_integer(v, 0);
            ok = v->type == JSON_INTEGER && v->integer >= 0 && v->integer < INT32_MAX;
            if (!ok)
                problem_set(problem, 400, "content", "'content' must hold strings and token ids, not %s",
                            json_type_name(v));
            else if (!append(all, &id, 1))
                ok = problem_set(problem, 500, NULL, "out of memory");
        }
        if (!ok) return false;
    }
    return true;
}

static void write_piece(struct json_writer *w, const struct served *served, uint32_t id) {
    const char *bytes = "";
    size_t n = 0;
    tokenizer_token_bytes(served->tokenizer, id, &bytes, &n);
    json_begin_object(w);
    json_add_integer(w, "id", id);
    json_write_key(w, "piece");
    if (utf8_valid_prefix(bytes, n) == n) {
        json_write_string_n(w, bytes, n);
    } else {
        json_begin_array(w);
        for (size_t i = 0; i < n; i++) json_write_integer(w, (unsigned char)bytes[i]);
        json_end_array(w);
    }
    json_end_object(w);
}

void api_tokenize(struct exchange *x) {
    struct served *served;
    struct token_list all = {0};
    struct problem problem;
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    const struct json *body = open_body(x, tokenize_fields, &served);
    if (!body) return;
    const struct json *content = field_get(body, "content");
    unsigned flags = json_bool(field_get(body, "add_special"), false) ? TOKENIZE_SPECIAL : 0;
    if (!json_bool(field_get(body, "parse_special"), true)) flags |= TOKENIZE_PLAIN;
    bool pieces = json_bool(field_get(body, "with_pieces"), false);
    if (content && !encode_content(served, content, flags, &all, &problem)) {
        api_fail(x, &problem);
    } else {
        json_begin_object(&w);
        json_write_key(&w, "tokens");
        json_begin_array(&w);
        for (size_t i = 0; i < all.count; i++) {
            if (pieces)
                write_piece(&w, served, all.ids[i]);
            else
                json_write_integer(&w, all.ids[i]);
        }
        json_end_array(&w);
        json_end_object(&w);
        exchange_reply_json(x, 200, &out);
    }
    token_list_free(&all);
    registry_release(&x->server->registry, served);
}

void api_detokenize(struct exchange *x) {
    struct served *served;
    struct buffer text = {0}, out = {0};
    struct json_writer w = {.out = &out};
    struct mx_error err = {0};
    struct problem problem;
    const struct json *body = open_body(x, detokenize_fields, &served);
    if (!body) return;
    const struct json *tokens = field_get(body, "tokens");
    size_t n = tokens ? tokens->count : 0;
    uint32_t *ids = arena_calloc(&x->arena, n, sizeof *ids);
    bool ok = ids || problem_set(&problem, 500, NULL, "out of memory");
    for (size_t i = 0; ok && i < n; i++) {
        int64_t id = tokens->items[i].type == JSON_INTEGER ? tokens->items[i].integer : -1;
        if (id < 0 || id > INT32_MAX)
            ok = problem_set(&problem, 400, "tokens", "'tokens' must hold token ids");
        else
            ids[i] = (uint32_t)id;
    }
    ok = ok &&
         (tokenizer_decode(served->tokenizer, ids, n, false, &text, &err) || problem_from_error(&problem, &err, NULL));
    if (ok) {
        json_begin_object(&w);
        json_add_buffer(&w, "content", &text);
        json_end_object(&w);
        exchange_reply_json(x, 200, &out);
    } else {
        api_fail(x, &problem);
    }
    buffer_free(&text);
    registry_release(&x->server->registry, served);
}

/* ---- templates ---- */

/* Renders a chat request's prompt and answers with it, or with its length. Other fields of the request are let through:
 * clients send the whole of it. */
static void render(struct exchange *x, bool counts) {
    struct problem problem;
    struct buffer text = {0}, out = {0};
    struct json_writer w = {.out = &out};
    const struct json *body = fields_parse_body(x, &problem);
    struct generation *g = body ? generation_create(x, request_string(x, body, "model"), NULL, &problem) : NULL;
    struct chat_input input = openai_chat_input(x, body);
    if (input.kwargs && !json_is_object(input.kwargs)) input.kwargs = NULL;
    if (input.documents && !json_is_array(input.documents)) input.documents = NULL;
    bool ok = g && request_check_messages(input.messages, &problem) && openai_take_tools(g, body, &input, &problem);
    ok = ok && (counts ? request_take_chat(g, &input, &problem) : request_render(g, &input, &text, &problem));
    if (!ok) {
        api_fail(x, &problem);
    } else if (counts) {
        request_reply_count(g, "response.input_tokens");
    } else {
        json_begin_object(&w);
        json_add_buffer(&w, "prompt", &text);
        json_end_object(&w);
        exchange_reply_json(x, 200, &out);
    }
    buffer_free(&text);
}

void api_apply_template(struct exchange *x) { render(x, false); }
void api_count_tokens(struct exchange *x) { render(x, true); }

/* ---- filling gaps ---- */

enum marker { MARK_PREFIX, MARK_SUFFIX, MARK_MIDDLE, N_MARKERS };

/* How vocabularies spell the marks around a gap. */
static const char *const spellings[N_MARKERS][6] = {
    {"<|fim_prefix|>", "<fim_prefix>", "<PRE>", "\xe2\x96\x81<PRE>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "begin\xef\xbd\x9c>",
     "[PREFIX]"},
    {"<|fim_suffix|>", "<fim_suffix>", "<SUF>", "\xe2\x96\x81<SUF>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81hole\xef\xbd\x9c>",
     "[SUFFIX]"},
    {"<|fim_middle|>", "<fim_middle>", "<MID>", "\xe2\x96\x81<MID>",
     "<\xef\xbd\x9c"
     "fim\xe2\x96\x81"
     "end\xef\xbd\x9c>",
     "[MIDDLE]"},
};
static const char *const marker_names[N_MARKERS] = {"prefix", "suffix", "middle"};

static bool find_markers(const struct served *served, uint32_t ids[N_MARKERS], struct problem *problem) {
    for (size_t form = 0; form < 6; form++) {
        int n = 0;
        while (n < N_MARKERS &&
               tokenizer_find(served->tokenizer, spellings[n][form], strlen(spellings[n][form]), &ids[n]))
            n++;
        if (n == N_MARKERS) return true;
    }
    return problem_set(problem, 400, NULL, "this model has no tokens for the %s, %s and %s of a gap", marker_names[0],
                       marker_names[1], marker_names[2]);
}

static bool append_plain(const struct served *served, const struct json *text, struct token_list *all,
                         struct problem *problem) {
    return !text || encode_content(served, text, TOKENIZE_PLAIN, all, problem);
}

static bool append_literal(const struct served *served, const char *text, struct token_list *all,
                           struct problem *problem) {
    struct json value = {.type = JSON_STRING, .count = (uint32_t)strlen(text), .string = text};
    return append_plain(served, &value, all, problem);
}

/* Other files: with the model's marks for repositories where it has them, else as plain text in front. */
static bool append_extra(const struct served *served, const struct json *extra, struct token_list *all,
                         struct problem *problem) {
    uint32_t repository, separator;
    bool has_marks = tokenizer_find(served->tokenizer, "<|repo_name|>", 13, &repository) &&
                     tokenizer_find(served->tokenizer, "<|file_sep|>", 12, &separator);
    if (!extra || !extra->count) return true;
    if (has_marks && (!append(all, &repository, 1) || !append_literal(served, "myproject\n", all, problem)))
        return problem_set(problem, 500, NULL, "out of memory");
    for (uint32_t i = 0; i < extra->count; i++) {
        const struct json *text = field_get(&extra->items[i], "text"), *name = field_get(&extra->items[i], "filename");
        if (!json_is_string(text)) return problem_set(problem, 400, "input_extra", "input_extra[%u] has no text", i);
        if (has_marks) {
            if (!append(all, &separator, 1)) return problem_set(problem, 500, NULL, "out of memory");
            if (json_is_string(name) ? !append_plain(served, name, all, problem)
                                     : !append_literal(served, "tmp", all, problem))
                return false;
            if (!append_literal(served, "\n", all, problem)) return false;
        }
        if (!append_plain(served, text, all, problem) || !append_literal(served, "\n", all, problem)) return false;
    }
    return !has_marks || (append(all, &separator, 1) && append_literal(served, "filename\n", all, problem));
}

bool native_infill_prompt(struct generation *g, const struct json *body, struct token_list *all,
                          struct problem *problem) {
    const struct served *served = g->served;
    const struct json *prefix = field_get(body, "input_prefix"), *suffix = field_get(body, "input_suffix");
    const struct json *prompt = field_get(body, "prompt");
    uint32_t ids[N_MARKERS];
    if (!prefix) return problem_set(problem, 400, "input_prefix", "'input_prefix' is missing");
    if (!suffix) return problem_set(problem, 400, "input_suffix", "'input_suffix' is missing");
    if (prompt && !json_is_string(prompt)) return problem_set(problem, 400, "prompt", "'prompt' must be a string here");
    if (!find_markers(served, ids, problem)) return false;
    int64_t bos = tokenizer_role_id(served->tokenizer, TOKEN_BOS);
    struct token_list probe = {0};
    struct mx_error err;
    bool ok = tokenizer_encode(served->tokenizer, "", 0, TOKENIZE_SPECIAL, &probe, &err);
    if (ok && bos >= 0 && probe.count && probe.ids[0] == (uint32_t)bos) ok = append(all, probe.ids, 1);
    token_list_free(&probe);
    ok = ok && append_extra(served, field_get(body, "input_extra"), all, problem);
    return ok && append(all, &ids[MARK_PREFIX], 1) && append_plain(served, prefix, all, problem) &&
           append(all, &ids[MARK_SUFFIX], 1) && append_plain(served, suffix, all, problem) &&
           append(all, &ids[MARK_MIDDLE], 1) && append_plain(served, prompt, all, problem);
}
