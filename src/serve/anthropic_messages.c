/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/anthropic_messages.h"

#include "serve/chat_turn.h"

#include <string.h>

enum turn { TURN_NONE, TURN_USER, TURN_ASSISTANT };

/* The messages written so far, and the turn being put together. */
struct translation {
    struct json_writer w;
    enum turn turn;
    struct chat_turn said;
    struct buffer reminders; /* system turns that wait for a user turn */
    struct problem *problem;
};

static void join(struct buffer *out, const char *separator, const char *text, size_t length) {
    if (out->length) buffer_puts(out, separator);
    buffer_append(out, text, length);
}

/* Ends the turn. */
static void flush(struct translation *t) {
    const struct buffer *text = &t->said.text;
    if (t->turn == TURN_ASSISTANT || text->length || text->failed)
        turn_write(&t->said, &t->w, t->turn == TURN_USER ? "user" : "assistant");
    t->turn = TURN_NONE;
}

static void begin_turn(struct translation *t, enum turn turn) {
    if (t->turn != turn) flush(t);
    t->turn = turn;
    if (turn == TURN_USER && t->reminders.length) {
        join(&t->said.text, "\n\n", t->reminders.data, t->reminders.length);
        buffer_clear(&t->reminders);
    }
}

static bool fault(struct translation *t, uint32_t i, const char *what) {
    return problem_set(t->problem, 400, "messages", "messages[%u]: %s", i, what);
}

static bool unsupported(struct translation *t, uint32_t i, const struct json *type) {
    return problem_set(t->problem, 400, "messages",
                       "messages[%u]: blocks of type '%.*s' are not supported by this model", i,
                       (int)(type->count < 60 ? type->count : 60), type->string);
}

/* The text of a string, or of the text blocks in an array. False for other blocks. */
static bool gather_text(struct translation *t, const struct json *content, uint32_t i, struct buffer *out) {
    if (json_is_string(content)) return buffer_append(out, content->string, content->count);
    for (uint32_t k = 0; json_is_array(content) && k < content->count; k++) {
        const struct json *type = json_get(&content->items[k], "type"), *text = json_get(&content->items[k], "text");
        if (!json_is_string(type)) return fault(t, i, "a block has no type");
        if (json_string_is(type, "search_result")) {
            if (!gather_text(t, json_get(&content->items[k], "content"), i, out)) return false;
        } else if (!json_string_is(type, "text") || !json_is_string(text)) {
            return unsupported(t, i, type);
        } else {
            join(out, "\n", text->string, text->count);
        }
    }
    return true;
}

static bool add_result(struct translation *t, const struct json *block, uint32_t i) {
    struct buffer text = {0};
    const struct json *id = json_get(block, "tool_use_id"), *content = field_get(block, "content");
    if (!json_is_string(id)) return fault(t, i, "a tool_result has no tool_use_id");
    bool ok = gather_text(t, content, i, &text);
    if (json_bool(json_get(block, "is_error"), false) && !text.length) buffer_puts(&text, "error");
    flush(t);
    turn_write_result(&t->w, id, &text);
    buffer_free(&text);
    return ok;
}

static bool add_document(struct translation *t, const struct json *block, uint32_t i) {
    const struct json *source = json_get(block, "source"), *kind = json_get(source, "type"),
                      *data = json_get(source, "data");
    if (json_string_is(kind, "text") && json_is_string(data))
        join(&t->said.text, "\n", data->string, data->count);
    else if (json_string_is(kind, "content"))
        return gather_text(t, json_get(source, "content"), i, &t->said.text);
    else
        return fault(t, i, "documents other than text are not supported by this model");
    return true;
}

static bool add_user_block(struct translation *t, const struct json *block, uint32_t i) {
    const struct json *type = json_get(block, "type"), *text = json_get(block, "text");
    if (!json_is_string(type)) return fault(t, i, "a block has no type");
    if (json_string_is(type, "tool_result")) return add_result(t, block, i);
    begin_turn(t, TURN_USER);
    if (json_string_is(type, "text") && json_is_string(text))
        join(&t->said.text, "\n", text->string, text->count);
    else if (json_string_is(type, "document"))
        return add_document(t, block, i);
    else if (json_string_is(type, "search_result"))
        return gather_text(t, json_get(block, "content"), i, &t->said.text);
    else
        return unsupported(t, i, type);
    return true;
}

static bool add_call(struct translation *t, const struct json *block, uint32_t i) {
    const struct json *id = json_get(block, "id"), *name = json_get(block, "name"), *input = field_get(block, "input");
    if (!json_is_string(id) || !json_is_string(name)) return fault(t, i, "a tool_use has no id or no name");
    turn_add_call(&t->said, id, name, json_is_object(input) ? input : NULL);
    return true;
}

static bool add_assistant_block(struct translation *t, const struct json *block, uint32_t i) {
    const struct json *type = json_get(block, "type"), *text = json_get(block, "text"),
                      *thinking = json_get(block, "thinking");
    if (!json_is_string(type)) return fault(t, i, "a block has no type");
    begin_turn(t, TURN_ASSISTANT);
    if (json_string_is(type, "text") && json_is_string(text))
        join(&t->said.text, "\n", text->string, text->count);
    else if (json_string_is(type, "thinking") && json_is_string(thinking))
        join(&t->said.reasoning, "\n", thinking->string, thinking->count);
    else if (json_string_is(type, "tool_use"))
        return add_call(t, block, i);
    else if (!json_string_is(type, "redacted_thinking"))
        return unsupported(t, i, type);
    return true;
}

static bool add_message(struct translation *t, const struct json *m, uint32_t i, bool is_head) {
    const struct json *role = json_get(m, "role"), *content = field_get(m, "content");
    bool is_user = json_string_is(role, "user"), is_assistant = json_string_is(role, "assistant");
    if (!json_is_string(role)) return fault(t, i, "there is no role");
    if (json_string_is(role, "system")) {
        if (is_head) return true; /* in the system text already */
        if (t->reminders.length) buffer_puts(&t->reminders, "\n\n");
        return gather_text(t, content, i, &t->reminders);
    }
    if (!is_user && !is_assistant)
        return problem_set(t->problem, 400, "messages", "messages[%u]: unknown role '%.*s'", i,
                           (int)(role->count < 60 ? role->count : 60), role->string);
    if (json_is_string(content)) {
        begin_turn(t, is_user ? TURN_USER : TURN_ASSISTANT);
        join(&t->said.text, "\n\n", content->string, content->count);
        return true;
    }
    if (!json_is_array(content)) return fault(t, i, "the content must be text or an array of blocks");
    /* Results of calls come first, whatever the order of the blocks. */
    for (uint32_t k = 0; is_user && k < content->count; k++)
        if (json_string_is(json_get(&content->items[k], "type"), "tool_result") &&
            !add_user_block(t, &content->items[k], i))
            return false;
    for (uint32_t k = 0; k < content->count; k++) {
        const struct json *block = &content->items[k];
        if (is_user && json_string_is(json_get(block, "type"), "tool_result")) continue;
        if (!(is_user ? add_user_block(t, block, i) : add_assistant_block(t, block, i))) return false;
    }
    if (is_assistant && t->turn != TURN_ASSISTANT) begin_turn(t, TURN_ASSISTANT);
    return true;
}

static bool is_volatile(const struct json *text) {
    return text->count >= 12 && !memcmp(text->string, "x-anthropic-", 12);
}

/* The system field and the system turns at the head. */
static bool gather_system(struct translation *t, const struct json *system, const struct json *messages,
                          uint32_t *n_head, struct buffer *out) {
    if (json_is_string(system)) {
        if (!is_volatile(system)) buffer_append(out, system->string, system->count);
    } else if (json_is_array(system)) {
        for (uint32_t i = 0; i < system->count; i++) {
            const struct json *text = json_get(&system->items[i], "text");
            if (!json_is_string(text)) return problem_set(t->problem, 400, "system", "'system' must hold text blocks");
            if (!is_volatile(text)) join(out, "\n", text->string, text->count);
        }
    } else if (system) {
        return problem_set(t->problem, 400, "system", "'system' must be text or an array of text blocks");
    }
    while (*n_head < messages->count && json_string_is(json_get(&messages->items[*n_head], "role"), "system")) {
        if (out->length) buffer_puts(out, "\n\n");
        if (!gather_text(t, field_get(&messages->items[*n_head], "content"), *n_head, out)) return false;
        ++*n_head;
    }
    return true;
}

const struct json *anthropic_messages(struct exchange *x, const struct json *body, struct problem *problem) {
    struct buffer text = {0}, system = {0};
    struct translation t = {.w = {.out = &text}, .problem = problem};
    const struct json *messages = field_get(body, "messages"), *result = NULL;
    uint32_t n_head = 0;
    if (!json_is_array(messages) || !messages->count) {
        problem_set(problem, 400, "messages", "'messages' must be an array of messages");
        return NULL;
    }
    json_begin_array(&t.w);
    bool ok = gather_system(&t, field_get(body, "system"), messages, &n_head, &system);
    if (ok && system.length) {
        json_begin_object(&t.w);
        json_write_key(&t.w, "role");
        json_write_string(&t.w, "system");
        json_add_buffer(&t.w, "content", &system);
        json_end_object(&t.w);
    }
    for (uint32_t i = 0; ok && i < messages->count; i++) ok = add_message(&t, &messages->items[i], i, i < n_head);
    /* A reminder at the end belongs to the last user turn, which is this one or a new one. */
    if (ok && t.reminders.length) begin_turn(&t, TURN_USER);
    flush(&t);
    json_end_array(&t.w);
    if (system.failed || t.reminders.failed) text.failed = true;
    if (ok) result = request_parse_built(x, &text, problem);
    buffer_free(&text);
    buffer_free(&system);
    turn_free(&t.said);
    buffer_free(&t.reminders);
    return result;
}

const struct json *anthropic_tools(struct exchange *x, const struct json *tools, struct problem *problem) {
    struct buffer text = {0}, dropped = {0};
    struct json_writer w = {.out = &text};
    json_begin_array(&w);
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct json *tool = &tools->items[i], *schema = json_get(tool, "input_schema"),
                          *description = json_get(tool, "description");
        if (!json_is_object(schema)) {
            buffer_printf(&dropped, "%stools[%u]", dropped.length ? ", " : "", i);
            continue;
        }
        json_begin_object(&w);
        json_add_string(&w, "type", "function");
        json_write_key(&w, "function");
        json_begin_object(&w);
        json_write_key(&w, "name");
        if (json_is_string(json_get(tool, "name")))
            json_write_value(&w, json_get(tool, "name"));
        else
            json_write_null(&w);
        if (json_is_string(description)) json_add_value(&w, "description", description);
        json_add_value(&w, "parameters", schema);
        json_end_object(&w);
        json_end_object(&w);
    }
    json_end_array(&w);
    if (dropped.length && !dropped.failed) exchange_add_header(x, "X-Ignored-Tools", dropped.data);
    buffer_free(&dropped);
    const struct json *list = request_parse_built(x, &text, problem);
    return list && request_check_tools(list, problem) ? list : NULL;
}
