/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/request.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

const char *request_string(struct exchange *x, const struct json *body, const char *name) {
    return json_string_copy(&x->arena, field_get(body, name));
}

struct generation *request_open(struct exchange *x, const struct field *table, const struct answer_writer *writer,
                                const struct json **body, struct problem *problem) {
    *body = fields_parse_body(x, problem);
    if (!*body || !fields_check(x, *body, table, problem)) return NULL;
    return generation_create(x, request_string(x, *body, "model"), writer, problem);
}

void request_reply_count(struct generation *g, const char *object) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_begin_object(&w);
    if (object) json_add_string(&w, "object", object);
    json_add_count(&w, "input_tokens", generation_n_prompt(g));
    json_end_object(&w);
    exchange_reply_json(g->exchange, 200, &out);
}

const struct json *request_parse_built(struct exchange *x, struct buffer *text, struct problem *problem) {
    struct mx_error err;
    char *copy = text->failed ? NULL : arena_copy(&x->arena, text->data ? text->data : "", text->length);
    const struct json *value = copy ? json_parse(&x->arena, copy, text->length, 0, 128, &err) : NULL;
    buffer_free(text);
    if (!value) problem_set(problem, 500, NULL, "out of memory");
    return value;
}

/* ---- forms that answers must have ---- */

/* Whether "additionalProperties" decides alone which arguments there may be beside the properties, and is not said. */
static bool is_open_by_default(const struct json *parameters) {
    static const char *const others[] = {"additionalProperties",
                                         "patternProperties",
                                         "unevaluatedProperties",
                                         "propertyNames",
                                         "minProperties",
                                         "$ref",
                                         "$dynamicRef",
                                         "allOf",
                                         "anyOf",
                                         "oneOf",
                                         "not",
                                         "if",
                                         "dependentSchemas",
                                         "dependentRequired",
                                         "dependencies"};
    const struct json *properties = json_get(parameters, "properties");
    if (!json_is_object(properties) || !properties->count) return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_get(parameters, others[i])) return false;
    return true;
}

/* The tool's schema as a document of its own inside the whole, so that its "#/$defs/..." are found in it. Arguments that
 * the tool does not name are not written unless it says that it takes them: they break most callees. */
static void write_parameters(struct json_writer *w, const struct json *parameters, uint32_t number) {
    json_begin_object(w);
    if (!json_get(parameters, "$id")) {
        char id[32];
        snprintf(id, sizeof id, "urn:tool:%u", number);
        json_add_string(w, "$id", id);
    }
    for (uint32_t i = 0; i < parameters->count; i++) {
        json_write_key_n(w, parameters->members[i].key, parameters->members[i].key_length);
        json_write_value(w, &parameters->members[i].value);
    }
    if (is_open_by_default(parameters)) json_add_bool(w, "additionalProperties", false);
    json_end_object(w);
}

/* A call as JSON: {"name": one of the tools, "arguments": what its schema allows}. */
static void write_call_schema(struct json_writer *w, const struct json *function, uint32_t number) {
    const struct json *parameters = field_get(function, "parameters");
    static const char head[] = "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\","
                               "\"arguments\"],\"properties\":{\"name\":{\"const\":";
    struct buffer *out = w->out;
    buffer_append(out, head, sizeof head - 1);
    json_append_quoted(out, json_get(function, "name")->string, json_get(function, "name")->count);
    buffer_puts(out, "},\"arguments\":");
    struct json_writer inner = {.out = out};
    if (json_is_object(parameters) && parameters->count)
        write_parameters(&inner, parameters, number);
    else
        buffer_puts(out, "{\"type\":\"object\"}");
    buffer_puts(out, "}}");
}

bool request_force_call(struct generation *g, const struct json *tools, const char *name, struct problem *problem) {
    struct buffer text = {0};
    struct json_writer w = {.out = &text};
    size_t n = 0;
    buffer_puts(&text, "{\"anyOf\":[");
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct json *function = json_get(&tools->items[i], "function");
        if (name && !json_string_is(json_get(function, "name"), name)) continue;
        if (n++) buffer_putc(&text, ',');
        write_call_schema(&w, function, i);
    }
    buffer_puts(&text, "]}");
    if (!n) {
        buffer_free(&text);
        return problem_set(problem, 400, "tool_choice", "'tool_choice' names '%.100s', which is none of the tools",
                           name ? name : "");
    }
    const struct json *schema = request_parse_built(g->exchange, &text, problem);
    if (!schema) return false;
    /* Written as plain JSON, whatever form the model has: the parser for that form reads it. */
    g->rule = (struct guide_rule){GUIDE_SCHEMA, schema, "tools"};
    g->reply_format = reply_format_find("generic-json");
    return true;
}

bool request_force_json(struct generation *g, const struct json *schema, const char *param, struct problem *problem) {
    if (g->rule.source != GUIDE_NOTHING)
        return problem_set(problem, 400, param, "'%s' and '%s' exclude each other", g->rule.param, param);
    if (schema && !json_is_object(schema) && !json_is_bool(schema))
        return problem_set(problem, 400, param, "'%s': the schema must be an object", param);
    g->rule = (struct guide_rule){schema ? GUIDE_SCHEMA : GUIDE_JSON_OBJECT, schema, param};
    return true;
}

bool request_force_text(struct generation *g, enum guide_source source, const struct json *value, const char *param,
                        struct problem *problem) {
    bool fits = source == GUIDE_CHOICES ? json_is_array(value) : json_is_string(value);
    if (!fits)
        return problem_set(problem, 400, param, "'%s' must be %s", param,
                           source == GUIDE_CHOICES ? "an array of strings" : "a string");
    if (g->rule.source != GUIDE_NOTHING)
        return problem_set(problem, 400, param, "'%s' and '%s' exclude each other", g->rule.param, param);
    g->rule = (struct guide_rule){source, value, param};
    return true;
}

/* ---- sampling and stops ---- */

static bool take_breakers(struct generation *g, const struct json *body, struct problem *problem) {
    const struct json *v = field_get(body, "dry_sequence_breakers");
    struct mx_error err;
    if (!v) return true;
    if (!served_make_breakers(g->served, v, &g->own_breakers, &err))
        return problem_set(problem, 400, "dry_sequence_breakers", "'dry_sequence_breakers': %s", err.message);
    g->breakers = &g->own_breakers;
    return true;
}

static bool take_stop_ids(struct generation *g, const struct json *body, struct problem *problem) {
    const struct json *v = field_get(body, "stop_token_ids");
    if (!v) return true;
    uint32_t *ids = arena_calloc(&g->exchange->arena, v->count, sizeof *ids), vocab = g->served->model.graph.vocab_size;
    if (!ids) return problem_set(problem, 500, NULL, "out of memory");
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t id = json_integer(&v->items[i], -1);
        if (id < 0 || id >= vocab)
            return problem_set(problem, 400, "stop_token_ids", "'stop_token_ids' must hold token ids below %u", vocab);
        ids[i] = (uint32_t)id;
    }
    g->stop_ids = ids;
    g->n_stop_ids = v->count;
    return true;
}

static bool take_priority(struct generation *g, const struct json *body, struct problem *problem) {
    static const char *const words[] = {"low", "normal", "high"};
    const char *header = http_header(&g->exchange->head, "x-priority");
    int64_t value = 0;
    for (int i = 0; header && i < 3; i++)
        if (!strcmp(header, words[i])) value = i - 1;
    if (!field_integer(body, "priority", -1000000, 1000000, value, &value, problem)) return false;
    g->priority = (int)value;
    return true;
}

bool request_take_sampling(struct generation *g, const struct json *body, struct problem *problem) {
    return fields_sampling(body, &g->sampling, problem) &&
           fields_logit_bias(body, &g->exchange->arena, g->served->model.graph.vocab_size, &g->sampling, problem) &&
           take_breakers(g, body, problem) && take_stop_ids(g, body, problem) && take_priority(g, body, problem);
}

bool request_take_stop(struct generation *g, const struct json *body, const char *name, struct problem *problem) {
    const struct json *v = field_get(body, name);
    if (!v) return true;
    if (json_is_string(v)) return generation_add_stop(g, v->string, v->count, problem);
    for (uint32_t i = 0; i < v->count; i++) {
        const struct json *item = &v->items[i];
        if (!json_is_string(item))
            return problem_set(problem, 400, name, "'%s' must hold strings, not %s", name, json_type_name(item));
        if (!generation_add_stop(g, item->string, item->count, problem)) return false;
    }
    return true;
}

/* ---- prompts ---- */

static bool append_id(struct generation *g, struct token_list *tokens, const struct json *v, struct problem *problem) {
    int64_t id = json_integer(v, -1);
    uint32_t vocab = g->served->model.graph.vocab_size;
    if (v->type != JSON_INTEGER || id < 0 || id >= vocab)
        return problem_set(problem, 400, "prompt", "'prompt' holds %s where a token id below %u is expected",
                           v->type == JSON_INTEGER ? "a number" : json_type_name(v), vocab);
    if (!array_reserve(&tokens->ids, &tokens->capacity, tokens->count + 1, sizeof *tokens->ids))
        return problem_set(problem, 500, NULL, "out of memory");
    tokens->ids[tokens->count++] = (uint32_t)id;
    return true;
}

static bool append_text(struct generation *g, struct token_list *tokens, const struct json *v, bool special,
                        struct problem *problem) {
    struct token_list part = {0};
    struct mx_error err = {0};
    bool ok =
        tokenizer_encode(g->served->tokenizer, v->string, v->count, special ? TOKENIZE_SPECIAL : 0, &part, &err) ||
        problem_from_error(problem, &err, "prompt");
    ok = ok && (array_reserve(&tokens->ids, &tokens->capacity, tokens->count + part.count, sizeof *tokens->ids) ||
                problem_set(problem, 500, NULL, "out of memory"));
    if (ok && part.count) memcpy(tokens->ids + tokens->count, part.ids, part.count * sizeof *part.ids);
    if (ok) tokens->count += part.count;
    token_list_free(&part);
    return ok;
}

static bool encode(struct generation *g, const struct json *prompt, struct token_list *tokens,
                   struct problem *problem) {
    if (json_is_string(prompt)) return append_text(g, tokens, prompt, true, problem);
    if (!json_is_array(prompt))
        return problem_set(problem, 400, "prompt", "'prompt' must be text or token ids, not %s",
                           json_type_name(prompt));
    for (uint32_t i = 0; i < prompt->count; i++) {
        const struct json *v = &prompt->items[i];
        bool ok = json_is_string(v) ? append_text(g, tokens, v, !i, problem) : append_id(g, tokens, v, problem);
        if (!ok) return false;
    }
    return true;
}

bool request_add_prompt(struct generation *g, const struct json *prompt, struct problem *problem) {
    struct token_list tokens = {0};
    bool ok = encode(g, prompt, &tokens, problem) && generation_add_prompt(g, tokens.ids, tokens.count, problem);
    token_list_free(&tokens);
    return ok;
}

bool request_take_prompts(struct generation *g, const struct json *prompts, const char *name, int most,
                          struct problem *problem) {
    if (!prompts) return problem_set(problem, 400, name, "'%s' is missing", name);
    const struct json *first = json_at(prompts, 0);
    if (!json_is_array(prompts) || (first && first->type == JSON_INTEGER))
        return request_add_prompt(g, prompts, problem);
    if (!prompts->count || prompts->count > (uint32_t)most)
        return problem_set(problem, 400, name, "'%s' must hold 1 to %d %ss, not %u", name, most, name, prompts->count);
    for (uint32_t i = 0; i < prompts->count; i++)
        if (!request_add_prompt(g, &prompts->items[i], problem)) return false;
    return true;
}
