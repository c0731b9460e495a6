/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/conversation.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)256 << 20)

bool conversation_add(struct conversation *c, const char *role, const char *content, size_t length) {
    if (!array_reserve(&c->messages, &c->capacity, c->n + 1, sizeof *c->messages)) return false;
    struct message *m = &c->messages[c->n];
    m->role = strdup(role);
    m->content = strndup(content, length);
    if (m->role && m->content) {
        c->n++;
        return true;
    }
    free(m->role);
    free(m->content);
    return false;
}

void conversation_cut(struct conversation *c, size_t from) {
    while (c->n > from) {
        c->n--;
        free(c->messages[c->n].role);
        free(c->messages[c->n].content);
    }
}

void conversation_free(struct conversation *c) {
    conversation_cut(c, 0);
    free(c->messages);
    *c = (struct conversation){0};
}

const char *conversation_system(const struct conversation *c) {
    return c->n && !strcmp(c->messages[0].role, "system") ? c->messages[0].content : NULL;
}

bool conversation_set_system(struct conversation *c, const char *text) {
    bool had = conversation_system(c) != NULL;
    if (*text && !conversation_add(c, "system", text, strlen(text))) return false;
    struct message new = *text ? c->messages[c->n - 1] : (struct message){0};
    if (had) {
        free(c->messages[0].role);
        free(c->messages[0].content);
        if (*text)
            c->messages[0] = new;
        else
            memmove(c->messages, c->messages + 1, (c->n - 1) * sizeof *c->messages);
        c->n--;
    } else if (*text) {
        memmove(c->messages + 1, c->messages, (c->n - 1) * sizeof *c->messages);
        c->messages[0] = new;
    }
    return true;
}

void conversation_write(const struct conversation *c, struct buffer *out, int indent) {
    struct json_writer w = {.out = out, .indent = indent};
    json_begin_array(&w);
    for (size_t i = 0; i < c->n; i++) {
        json_begin_object(&w);
        json_add_string(&w, "role", c->messages[i].role);
        json_add_string(&w, "content", c->messages[i].content);
        json_end_object(&w);
    }
    json_end_array(&w);
}

bool conversation_save(const struct conversation *c, const char *path, struct mx_error *err) {
    struct buffer out = {0};
    conversation_write(c, &out, 1);
    buffer_putc(&out, '\n');
    bool ok = out.failed ? error_memory(err, path) : file_write_atomic(path, out.data, out.length, err);
    buffer_free(&out);
    return ok;
}

static bool take_messages(struct conversation *c, const struct json *list, struct mx_error *err) {
    if (!json_is_array(list)) return error_set(err, ERROR_FORMAT, "expected a JSON array of messages");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *role = json_get(&list->items[i], "role"), *content = json_get(&list->items[i], "content");
        char name[32];
        if (!json_is_string(role) || !json_is_string(content) || role->count >= sizeof name)
            return error_set(err, ERROR_FORMAT, "message %u has no role or no text", i);
        memcpy(name, role->string, role->count);
        name[role->count] = '\0';
        if (!conversation_add(c, name, content->string, content->count)) return error_memory(err, "conversation");
    }
    return true;
}

bool conversation_load(struct conversation *c, const char *path, struct mx_error *err) {
    struct arena arena = {0};
    struct conversation loaded = {0};
    size_t length;
    char *text = file_read(path, MAX_FILE_BYTES, &length, err);
    const struct json *list = text ? json_parse(&arena, text, length, 0, 64, err) : NULL;
    bool ok = list && take_messages(&loaded, list, err);
    if (text && !ok) error_prefix(err, "%s", path);
    if (ok) {
        conversation_free(c);
        *c = loaded;
    } else {
        conversation_free(&loaded);
    }
    free(text);
    arena_free(&arena);
    return ok;
}
