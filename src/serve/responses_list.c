/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/responses/ID/input_items: what a kept response was given, item by item. Requests may write items in short forms
 * (a string for the content, no type, no id); the list has OpenAI's full form. */
#include "serve/responses_items.h"

#include <string.h>

struct page {
    bool is_descending; /* newest first, the API's default */
    int64_t limit;
    const char *after; /* the id of an item; NULL = from the start */
};

/* The id that the item came with, or one made from the response's, the same each time. */
static const char *item_id(struct exchange *x, const struct json *item, const char *response_id, uint32_t i) {
    const struct json *id = json_get(item, "id"), *type = field_get(item, "type");
    if (json_is_string(id) && id->count) return arena_copy(&x->arena, id->string, id->count);
    const char *prefix = "msg";
    if (json_string_is(type, "function_call") || json_string_is(type, "function_call_output")) prefix = "fc";
    if (json_string_is(type, "reasoning")) prefix = "rs";
    const char *tail = !strncmp(response_id, "resp_", 5) ? response_id + 5 : response_id;
    return arena_printf(&x->arena, "%s_%s%04u", prefix, tail, i);
}

static void write_part(struct json_writer *w, const struct json *text, bool is_output) {
    json_begin_object(w);
    json_add_string(w, "type", is_output ? "output_text" : "input_text");
    json_add_value(w, "text", text);
    if (is_output) {
        json_add_raw(w, "annotations", "[]", 2);
        json_add_raw(w, "logprobs", "[]", 2);
    }
    json_end_object(w);
}

/* Requests are let through only with text parts, or refusals. */
static void write_content(struct json_writer *w, const struct json *content, bool is_output) {
    json_write_key(w, "content");
    json_begin_array(w);
    if (json_is_string(content)) write_part(w, content, is_output);
    for (uint32_t i = 0; json_is_array(content) && i < content->count; i++) {
        const struct json *part = &content->items[i], *text = json_get(part, "text");
        if (json_string_is(json_get(part, "type"), "refusal") || !text)
            json_write_value(w, part);
        else
            write_part(w, text, is_output);
    }
    json_end_array(w);
}

static void write_item(struct json_writer *w, const struct json *item, const char *id) {
    static const char *const copied[] = {"role", "call_id", "name", "arguments", "output", "summary"};
    const struct json *type = field_get(item, "type"), *status = field_get(item, "status");
    bool is_message = !type || json_string_is(type, "message"), is_thought = json_string_is(type, "reasoning");
    json_begin_object(w);
    json_add_string(w, "id", id);
    json_write_key(w, "type");
    if (is_message)
        json_write_string(w, "message");
    else
        json_write_value(w, type);
    json_write_key(w, "status");
    if (json_is_string(status))
        json_write_value(w, status);
    else
        json_write_string(w, "completed");
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        const struct json *value = field_get(item, copied[i]);
        if (!value) continue;
        json_add_value(w, copied[i], value);
    }
    if (is_thought && !field_get(item, "summary")) json_add_raw(w, "summary", "[]", 2);
    if (is_message)
        write_content(w, field_get(item, "content"), json_string_is(json_get(item, "role"), "assistant"));
    else if (is_thought && field_get(item, "content")) {
        json_add_value(w, "content", field_get(item, "content"));
    }
    json_end_object(w);
}

static bool take_page(struct exchange *x, struct page *page, struct problem *problem) {
    const char *order = http_query(&x->head, "order", &x->arena), *limit = http_query(&x->head, "limit", &x->arena);
    *page = (struct page){.is_descending = true, .limit = 20, .after = http_query(&x->head, "after", &x->arena)};
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return problem_set(problem, 400, "order", "'order' must be asc or desc");
    page->is_descending = !order || !strcmp(order, "desc");
    if (!limit) return true;
    page->limit = 0;
    for (const char *c = limit; *c; c++) {
        if (*c < '0' || *c > '9' || page->limit > 100)
            return problem_set(problem, 400, "limit", "'limit' must be between 1 and 100");
        page->limit = page->limit * 10 + (*c - '0');
    }
    return (page->limit >= 1 && page->limit <= 100) ||
           problem_set(problem, 400, "limit", "'limit' must be between 1 and 100");
}

bool responses_write_list(struct exchange *x, const char *response_id, const char *items, struct buffer *out,
                          struct problem *problem) {
    struct json_writer w = {.out = out};
    struct mx_error err;
    struct page page;
    const char *first = NULL, *last = NULL;
    int64_t n = 0;
    if (!take_page(x, &page, problem)) return false;
    const struct json *list = json_parse(&x->arena, items, strlen(items), 0, 128, &err);
    if (!json_is_array(list)) return problem_set(problem, 500, NULL, "the kept response cannot be read");
    bool is_found = !page.after;
    uint32_t i = 0;
    json_begin_object(&w);
    json_add_string(&w, "object", "list");
    json_write_key(&w, "data");
    json_begin_array(&w);
    for (; i < list->count && n < page.limit; i++) {
        uint32_t place = page.is_descending ? list->count - 1 - i : i;
        const char *id = item_id(x, &list->items[place], response_id, place);
        if (!id) return problem_set(problem, 500, NULL, "out of memory");
        if (is_found) {
            write_item(&w, &list->items[place], id);
            if (!first) first = id;
            last = id;
            n++;
        }
        if (page.after && !strcmp(id, page.after)) is_found = true;
    }
    json_end_array(&w);
    if (!is_found) return problem_set(problem, 400, "after", "there is no item '%.80s'", page.after);
    json_add_string(&w, "first_id", first ? first : "");
    json_add_string(&w, "last_id", last ? last : "");
    json_add_bool(&w, "has_more", i < list->count);
    json_end_object(&w);
    return true;
}
