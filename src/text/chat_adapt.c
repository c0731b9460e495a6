/* SPDX-License-Identifier: Apache-2.0 */
#include "text/chat_adapt.h"

#include "base/memory.h"

#include <string.h>

/* ---- what a template takes ---- */

#define MARK        "Zq7probe"
#define SYSTEM_MARK "Zq8probe"

/* Renders a conversation; true when it succeeds, shows the mark and does not show the message as Python data. */
static bool probe(const struct jinja_template *template, const struct json_member *tokens, size_t n_tokens,
                  const char *messages, const char *mark) {
    struct arena arena = {0};
    struct buffer out = {0};
    struct jinja_limits limits = jinja_default_limits;
    limits.max_steps = 200000;
    const struct json *list = json_parse(&arena, messages, strlen(messages), 0, 20, NULL);
    struct json_member *members = arena_calloc(&arena, n_tokens + 4, sizeof *members);
    bool ok = list && members;
    if (ok) {
        if (n_tokens) memcpy(members, tokens, n_tokens * sizeof *members);
        members[n_tokens] = (struct json_member){.key = "messages", .key_length = 8, .value = *list};
        members[n_tokens + 1] = (struct json_member){.key = "tools", .key_length = 5};
        members[n_tokens + 2] = (struct json_member){.key = "documents", .key_length = 9};
        members[n_tokens + 3] =
            (struct json_member){.key = "add_generation_prompt", .key_length = 21, .value = {.type = JSON_TRUE}};
        struct json context = {.type = JSON_OBJECT, .count = (uint32_t)n_tokens + 4, .members = members};
        ok = jinja_render(template, &context, &limits, &out, NULL) && out.data && strstr(out.data, mark) &&
             !strstr(out.data, "'type'") && !strstr(out.data, "\"type\"");
    }
    buffer_free(&out);
    arena_free(&arena);
    return ok;
}

void chat_adapt_probe(const struct jinja_template *template, const char *text, const struct json_member *tokens,
                      size_t n_tokens, struct chat_abilities *a) {
    static const char string[] = "[{\"role\":\"user\",\"content\":\"" MARK "\"}]",
                      parts[] = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" MARK "\"}]}]",
                      system[] = "[{\"role\":\"system\",\"content\":\"" SYSTEM_MARK
                                 "\"},{\"role\":\"user\",\"content\":\"" MARK "\"}]",
                      system_parts[] =
                          "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"" SYSTEM_MARK
                          "\"}]},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" MARK "\"}]}]";
    a->takes_strings = probe(template, tokens, n_tokens, string, MARK);
    a->takes_parts = probe(template, tokens, n_tokens, parts, MARK);
    if (!a->takes_strings && !a->takes_parts) a->takes_strings = true; /* a template that no probe suits */
    a->takes_system = probe(template, tokens, n_tokens, a->takes_strings ? system : system_parts, SYSTEM_MARK);
    a->names_developer = strstr(text, "developer") != NULL;
}

/* ---- messages ---- */

struct adapter {
    struct arena *arena;
    const struct chat_abilities *abilities;
    struct mx_error *err;
};

static bool is_key(const struct json_member *m, const char *key) {
    return m->key_length == strlen(key) && !memcmp(m->key, key, m->key_length);
}

static bool set_string(struct adapter *a, struct json *value, const char *text, size_t length) {
    char *copy = arena_copy(a->arena, text, length);
    if (!copy || length > UINT32_MAX) return error_memory(a->err, "chat message");
    *value = (struct json){.type = JSON_STRING, .count = (uint32_t)length, .string = copy};
    return true;
}

/* The texts of a list of parts, joined by line breaks. */
static bool join_parts(struct adapter *a, const struct json *parts, struct buffer *out) {
    bool is_first = true;
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct json *part = &parts->items[i], *text = json_is_string(part) ? part : json_get(part, "text");
        if (!json_is_string(text)) continue;
        if (!is_first) buffer_putc(out, '\n');
        buffer_append(out, text->string, text->count);
        is_first = false;
    }
    return !out->failed || error_memory(a->err, "chat message");
}

static bool adapt_content(struct adapter *a, struct json *content) {
    if (json_is_array(content) && !a->abilities->takes_parts) {
        struct buffer text = {0};
        bool ok = join_parts(a, content, &text) && set_string(a, content, text.data ? text.data : "", text.length);
        buffer_free(&text);
        return ok;
    }
    if (!json_is_string(content) || a->abilities->takes_strings) return true;
    struct json *part = arena_calloc(a->arena, 1, sizeof *part);
    struct json_member *members = arena_calloc(a->arena, 2, sizeof *members);
    if (!part || !members) return error_memory(a->err, "chat message");
    members[0] = (struct json_member){
        .key = "type", .key_length = 4, .value = {.type = JSON_STRING, .count = 4, .string = "text"}};
    members[1] = (struct json_member){.key = "text", .key_length = 4, .value = *content};
    *part = (struct json){.type = JSON_OBJECT, .count = 2, .members = members};
    *content = (struct json){.type = JSON_ARRAY, .count = 1, .items = part};
    return true;
}

/* JSON text becomes an object. */
static bool adapt_arguments(struct adapter *a, struct json *arguments) {
    if (!json_is_string(arguments)) return true;
    if (!arguments->count) {
        *arguments = (struct json){.type = JSON_OBJECT};
        return true;
    }
    struct mx_error why = {0};
    const struct json *parsed =
        json_parse(a->arena, arguments->string, arguments->count, JSON_ALLOW_NAN | JSON_PYTHON_INTEGERS, 200, &why);
    if (!json_is_object(parsed))
        return error_set(a->err, ERROR_USAGE, "the arguments of a tool call are no JSON object%s%s", parsed ? "" : ": ",
                         parsed ? "" : why.message);
    *arguments = *parsed;
    return true;
}

static struct json_member *copy_members(struct adapter *a, struct json *object) {
    struct json_member *copy = arena_calloc(a->arena, object->count, sizeof *copy);
    if (!copy) {
        error_memory(a->err, "chat message");
        return NULL;
    }
    if (object->count) memcpy(copy, object->members, object->count * sizeof *copy);
    object->members = copy;
    return copy;
}

/* `arguments` of a call, or of the function that it names. */
static bool adapt_call(struct adapter *a, struct json *call) {
    if (!json_is_object(call)) return true;
    struct json_member *members = copy_members(a, call);
    for (uint32_t i = 0; members && i < call->count; i++) {
        struct json *value = &members[i].value;
        if (is_key(&members[i], "arguments") && !adapt_arguments(a, value)) return false;
        if (!is_key(&members[i], "function") || !json_is_object(value)) continue;
        struct json_member *inner = copy_members(a, value);
        for (uint32_t j = 0; inner && j < value->count; j++)
            if (is_key(&inner[j], "arguments") && !adapt_arguments(a, &inner[j].value)) return false;
        if (!inner) return false;
    }
    return members != NULL;
}

static bool adapt_calls(struct adapter *a, struct json *calls) {
    if (!json_is_array(calls)) return true;
    struct json *copy = arena_calloc(a->arena, calls->count, sizeof *copy);
    if (!copy) return error_memory(a->err, "chat message");
    if (calls->count) memcpy(copy, calls->items, calls->count * sizeof *copy);
    calls->items = copy;
    for (uint32_t i = 0; i < calls->count; i++)
        if (!adapt_call(a, &copy[i])) return false;
    return true;
}

static bool adapt_message(struct adapter *a, struct json *message) {
    if (!json_is_object(message)) return error_set(a->err, ERROR_USAGE, "a message is no object");
    bool is_assistant = json_string_is(json_get(message, "role"), "assistant"), has_content = false;
    struct json_member *members = arena_calloc(a->arena, (size_t)message->count + 1, sizeof *members);
    if (!members) return error_memory(a->err, "chat message");
    uint32_t n = 0;
    for (uint32_t i = 0; i < message->count; i++) {
        struct json_member m = message->members[i];
        if (m.value.type == JSON_NULL) continue;
        has_content |= is_key(&m, "content");
        if (is_key(&m, "role") && json_string_is(&m.value, "developer") && !a->abilities->names_developer)
            m.value = (struct json){.type = JSON_STRING, .count = 6, .string = "system"};
        if (is_key(&m, "content") && !adapt_content(a, &m.value)) return false;
        if (is_key(&m, "tool_calls") && !adapt_calls(a, &m.value)) return false;
        members[n++] = m;
    }
    if (is_assistant && !has_content) {
        members[n] =
            (struct json_member){.key = "content", .key_length = 7, .value = {.type = JSON_STRING, .string = ""}};
        if (!adapt_content(a, &members[n++].value)) return false;
    }
    *message = (struct json){.type = JSON_OBJECT, .count = n, .members = members};
    return true;
}

/* Puts the text of the system message in front of the first user message's. */
static bool prepend(struct adapter *a, const struct json *system, struct json *user) {
    const struct json *from = json_get(system, "content");
    struct json_member *members = copy_members(a, user);
    for (uint32_t i = 0; members && i < user->count; i++) {
        if (!is_key(&members[i], "content")) continue;
        struct json *content = &members[i].value;
        struct buffer text = {0};
        bool was_array = json_is_array(content);
        bool ok = json_is_array(from) ? join_parts(a, from, &text)
                                      : !json_is_string(from) || buffer_append(&text, from->string, from->count);
        buffer_putc(&text, '\n');
        if (ok && was_array)
            ok = join_parts(a, content, &text);
        else if (ok && json_is_string(content))
            buffer_append(&text, content->string, content->count);
        ok = ok && !text.failed && set_string(a, content, text.data, text.length) && adapt_content(a, content);
        buffer_free(&text);
        return ok || error_memory(a->err, "chat message");
    }
    return members != NULL;
}

static bool merge_system(struct adapter *a, struct json *messages, uint32_t *n) {
    if (!*n || !json_string_is(json_get(&messages[0], "role"), "system")) return true;
    struct json system = messages[0];
    memmove(messages, messages + 1, (*n - 1) * sizeof *messages);
    --*n;
    bool has_user = *n && json_string_is(json_get(&messages[0], "role"), "user");
    return !has_user || prepend(a, &system, &messages[0]);
}

const struct json *chat_adapt_messages(struct arena *arena, const struct chat_abilities *abilities,
                                       const struct json *messages, struct mx_error *err) {
    struct adapter a = {.arena = arena, .abilities = abilities, .err = err};
    struct json *root = arena_calloc(arena, 1, sizeof *root);
    struct json *copy = arena_calloc(arena, messages->count, sizeof *copy);
    uint32_t n = messages->count;
    if (!root || !copy) {
        error_memory(err, "chat messages");
        return NULL;
    }
    if (n) memcpy(copy, messages->items, n * sizeof *copy);
    for (uint32_t i = 0; i < n; i++)
        if (!adapt_message(&a, &copy[i])) return NULL;
    if (!abilities->takes_system && !merge_system(&a, copy, &n)) return NULL;
    *root = (struct json){.type = JSON_ARRAY, .count = n, .items = copy};
    return root;
}
