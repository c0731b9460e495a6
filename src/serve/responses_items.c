/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/responses_items.h"

#include "serve/chat_turn.h"

#include <string.h>

/* Assistant's items (thoughts, text, calls) that follow one another are one message. */
struct translation {
    struct json_writer w;
    bool is_open;
    struct chat_turn said;
    struct problem *problem;
};

static void flush(struct translation *t) {
    if (t->is_open) turn_write(&t->said, &t->w, "assistant");
    t->is_open = false;
}

/* Text of a string or of text parts. */
static bool gather(struct translation *t, const struct json *content, struct buffer *out) {
    if (json_is_string(content)) return buffer_append(out, content->string, content->count);
    if (content && !json_is_array(content))
        return problem_set(t->problem, 400, "input", "the content of an item must be text or an array of parts");
    for (uint32_t i = 0; content && i < content->count; i++) {
        const struct json *type = json_get(&content->items[i], "type"), *text = json_get(&content->items[i], "text");
        if (!text) text = json_get(&content->items[i], "refusal");
        if (!json_is_string(text))
            return problem_set(t->problem, 400, "input", "parts of type '%.*s' are not supported by this model",
                               json_is_string(type) ? (int)(type->count < 60 ? type->count : 60) : 1,
                               json_is_string(type) ? type->string : "?");
        if (out->length) buffer_putc(out, '\n');
        buffer_append(out, text->string, text->count);
    }
    return true;
}

static bool add_message(struct translation *t, const struct json *item) {
    const struct json *role = json_get(item, "role"), *content = field_get(item, "content");
    struct json_writer *w = &t->w;
    if (!json_is_string(role)) return problem_set(t->problem, 400, "input", "an input message has no role");
    if (json_string_is(role, "assistant")) {
        t->is_open = true;
        return gather(t, content, &t->said.text);
    }
    struct buffer text = {0};
    bool ok = gather(t, content, &text);
    flush(t);
    json_begin_object(w);
    json_add_value(w, "role", role);
    json_add_buffer(w, "content", &text);
    json_end_object(w);
    if (text.failed) w->out->failed = true;
    buffer_free(&text);
    return ok;
}

static bool add_call(struct translation *t, const struct json *item) {
    const struct json *id = json_get(item, "call_id"), *name = json_get(item, "name"),
                      *arguments = json_get(item, "arguments");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_string(arguments))
        return problem_set(t->problem, 400, "input", "a function_call needs call_id, name and arguments as strings");
    t->is_open = true;
    turn_add_call(&t->said, id, name, arguments);
    return true;
}

static bool add_output(struct translation *t, const struct json *item) {
    const struct json *id = json_get(item, "call_id");
    struct buffer text = {0};
    if (!json_is_string(id)) return problem_set(t->problem, 400, "input", "a function_call_output has no call_id");
    bool ok = gather(t, field_get(item, "output"), &text);
    flush(t);
    turn_write_result(&t->w, id, &text);
    buffer_free(&text);
    return ok;
}

static bool add_item(struct translation *t, const struct json *item) {
    const struct json *type = field_get(item, "type");
    if (!json_is_object(item)) return problem_set(t->problem, 400, "input", "each input item must be an object");
    if (!type || json_string_is(type, "message")) return add_message(t, item);
    if (json_string_is(type, "function_call")) return add_call(t, item);
    if (json_string_is(type, "function_call_output")) return add_output(t, item);
    if (json_string_is(type, "reasoning")) {
        t->is_open = true;
        return gather(t, field_get(item, "content"), &t->said.reasoning);
    }
    return problem_set(t->problem, 400, "input", "input items of type '%.*s' are not supported",
                       json_is_string(type) ? (int)(type->count < 60 ? type->count : 60) : 1,
                       json_is_string(type) ? type->string : "?");
}

const struct json *responses_messages(struct exchange *x, const struct json *instructions, const struct json *history,
                                      const struct json *items, struct problem *problem) {
    struct buffer text = {0};
    struct translation t = {.w = {.out = &text}, .problem = problem};
    const struct json *result = NULL;
    bool ok = true;
    json_begin_array(&t.w);
    if (instructions && instructions->count) {
        json_begin_object(&t.w);
        json_write_key(&t.w, "role");
        json_write_string(&t.w, "system");
        json_write_key(&t.w, "content");
        json_write_value(&t.w, instructions);
        json_end_object(&t.w);
    }
    for (uint32_t i = 0; ok && history && i < history->count; i++) ok = add_item(&t, &history->items[i]);
    for (uint32_t i = 0; ok && i < items->count; i++) ok = add_item(&t, &items->items[i]);
    flush(&t);
    json_end_array(&t.w);
    if (ok) result = request_parse_built(x, &text, problem);
    buffer_free(&text);
    turn_free(&t.said);
    return result;
}

const struct json *responses_input_items(struct exchange *x, const struct json *input, struct problem *problem) {
    struct buffer text = {0};
    struct json_writer w = {.out = &text};
    if (json_is_array(input)) return input;
    if (!json_is_string(input)) {
        problem_set(problem, 400, "input", input ? "'input' must be text or an array of items" : "'input' is missing");
        return NULL;
    }
    json_begin_array(&w);
    json_begin_object(&w);
    json_add_string(&w, "type", "message");
    json_add_string(&w, "role", "user");
    json_add_value(&w, "content", input);
    json_end_object(&w);
    json_end_array(&w);
    return request_parse_built(x, &text, problem);
}

const struct json *responses_tools(struct exchange *x, const struct json *tools, struct problem *problem) {
    static const char *const members[] = {"name", "description", "parameters", "strict"};
    struct buffer text = {0};
    struct json_writer w = {.out = &text};
    json_begin_array(&w);
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct json *tool = &tools->items[i], *type = json_get(tool, "type");
        json_begin_object(&w);
        json_write_key(&w, "type");
        if (json_is_string(type))
            json_write_value(&w, type);
        else
            json_write_string(&w, "function");
        json_write_key(&w, "function");
        json_begin_object(&w);
        for (size_t k = 0; k < 4; k++) {
            const struct json *v = field_get(tool, members[k]);
            if (!v) continue;
            json_add_value(&w, members[k], v);
        }
        json_end_object(&w);
        json_end_object(&w);
    }
    json_end_array(&w);
    const struct json *list = request_parse_built(x, &text, problem);
    return list && request_check_tools(list, problem) ? list : NULL;
}
