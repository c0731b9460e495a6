/* SPDX-License-Identifier: Apache-2.0 */
#include "text/chat_template.h"

#include "base/file.h"
#include "base/memory.h"
#include "text/chat_adapt.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEMPLATE_BYTES ((size_t)2 << 20)
#define MAX_CONFIG_BYTES   ((size_t)64 << 20)
#define MAX_TEMPLATES      64
#define MAX_TOKENS         16

struct entry {
    const char *name, *text;
    size_t length;
    struct jinja_template *template; /* NULL: error says why */
    struct mx_error error;
    struct jinja_failure failure;
    struct chat_abilities abilities;
};

struct chat_template {
    struct arena arena;
    struct entry *entries;
    size_t n;
    struct json_member tokens[MAX_TOKENS]; /* bos_token, ... : strings or lists of strings */
    size_t n_tokens;
    bool is_fallback;
};

/* ---- files ---- */

/* The file's text in the arena; NULL without an error when it is not there. */
static char *read_text(struct chat_template *t, const char *folder, const char *name, size_t max, size_t *length,
                       bool *ok, struct mx_error *err) {
    char *path = path_join(&t->arena, folder, name);
    *ok = path != NULL;
    if (!path) return error_memory(err, "chat template"), NULL;
    if (!file_exists(path)) return NULL;
    char *text = file_read(path, max, length, err);
    char *copy = text ? arena_copy(&t->arena, text, *length) : NULL;
    *ok = copy != NULL;
    if (text && !copy) error_memory(err, "chat template");
    free(text);
    return copy;
}

static const struct json *read_json(struct chat_template *t, const char *folder, const char *name, bool *ok,
                                    struct mx_error *err) {
    size_t length;
    char *text = read_text(t, folder, name, MAX_CONFIG_BYTES, &length, ok, err);
    if (!text) return NULL;
    const struct json *json = json_parse(&t->arena, text, length, JSON_ALLOW_NAN, 200, err);
    *ok = json != NULL;
    if (!json) error_prefix(err, "%s/%s", folder, name);
    return json;
}

static bool add_template(struct chat_template *t, const char *name, const char *text, size_t length,
                         struct mx_error *err) {
    if (t->n == MAX_TEMPLATES) return error_set(err, ERROR_LIMIT, "more than %d chat templates", MAX_TEMPLATES);
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->entries[i].name, name)) { /* of equal names the last one counts */
            t->entries[i].text = text;
            t->entries[i].length = length;
            return true;
        }
    t->entries[t->n++] = (struct entry){.name = name, .text = text, .length = length};
    return true;
}

static bool add_json_template(struct chat_template *t, const char *name, const struct json *value,
                              struct mx_error *err) {
    char *text = json_is_string(value) ? arena_copy(&t->arena, value->string, value->count) : NULL;
    if (json_is_string(value) && !text) return error_memory(err, "chat template");
    if (!text)
        return error_set(err, ERROR_FORMAT, "chat_template '%s' is %s, expected a string", name, json_type_name(value));
    return add_template(t, name, text, value->count, err);
}

/* A string, or a list of {name, template}. */
static bool add_from_config(struct chat_template *t, const struct json *value, struct mx_error *err) {
    if (json_is_null(value)) return true;
    if (!json_is_array(value)) return add_json_template(t, "default", value, err);
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *item = &value->items[i];
        char *name = json_string_copy(&t->arena, json_get(item, "name"));
        if (!name) return error_set(err, ERROR_FORMAT, "chat_template item %u has no name", i);
        if (!add_json_template(t, name, json_get(item, "template"), err)) return false;
    }
    return true;
}

static bool add_files(struct chat_template *t, const char *folder, struct mx_error *err) {
    bool ok;
    size_t length, n;
    char **names, *more = path_join(&t->arena, folder, "additional_chat_templates");
    char *text = read_text(t, folder, "chat_template.jinja", MAX_TEMPLATE_BYTES, &length, &ok, err);
    if (!ok || (text && !add_template(t, "default", text, length, err))) return false;
    if (!more) return error_memory(err, "chat template");
    if (!file_is_directory(more)) return true;
    if (!folder_list(&t->arena, more, ".jinja", &names, &n, err)) return false;
    for (size_t i = 0; i < n; i++) {
        text = read_text(t, more, names[i], MAX_TEMPLATE_BYTES, &length, &ok, err);
        char *name = arena_copy(&t->arena, names[i], strlen(names[i]) - strlen(".jinja"));
        if (!name) return error_memory(err, "chat template");
        if (!ok || (text && !add_template(t, name, text, length, err))) return false;
    }
    return true;
}

static bool mentions_images(const struct json *value) {
    return json_is_string(value) && memmem(value->string, value->count, "image", 5);
}

static bool add_templates(struct chat_template *t, const char *folder, const struct json *config,
                          struct mx_error *err) {
    bool ok;
    if (!add_files(t, folder, err)) return false;
    if (t->n) return true;
    const struct json *processor = read_json(t, folder, "chat_template.json", &ok, err);
    if (!ok) return false;
    const struct json *own = json_get(config, "chat_template"), *other = json_get(processor, "chat_template");
    bool prefers_other = mentions_images(other) && json_is_string(own) && !mentions_images(own);
    if (!prefers_other && !add_from_config(t, own, err)) return error_prefix(err, "%s/tokenizer_config.json", folder);
    if (!t->n && !add_from_config(t, other, err)) return error_prefix(err, "%s/chat_template.json", folder);
    return true;
}

/* ---- special tokens ---- */

static bool add_token(struct chat_template *t, const char *variable, const struct json *value, struct mx_error *err) {
    if (json_is_object(value)) value = json_get(value, "content");
    if (!json_is_string(value) || t->n_tokens == MAX_TOKENS) return true;
    for (size_t i = 0; i < t->n_tokens; i++)
        if (!strcmp(t->tokens[i].key, variable)) return true;
    char *copy = arena_copy(&t->arena, value->string, value->count);
    if (!copy) return error_memory(err, "special token");
    struct json_member *m = &t->tokens[t->n_tokens++];
    *m = (struct json_member){.key = variable, .key_length = (uint32_t)strlen(variable)};
    m->value = (struct json){.type = JSON_STRING, .count = value->count, .string = copy};
    return true;
}

/* additional_special_tokens: the contents as a list. */
static bool add_token_list(struct chat_template *t, const struct json *value, struct mx_error *err) {
    static const char variable[] = "additional_special_tokens";
    if (!json_is_array(value) || !value->count || t->n_tokens == MAX_TOKENS) return true;
    for (size_t i = 0; i < t->n_tokens; i++)
        if (!strcmp(t->tokens[i].key, variable)) return true;
    struct json *items = arena_calloc(&t->arena, value->count, sizeof *items);
    if (!items) return error_memory(err, "special tokens");
    uint32_t n = 0;
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *item = &value->items[i];
        if (json_is_object(item)) item = json_get(item, "content");
        if (json_is_string(item)) items[n++] = *item;
    }
    struct json_member *m = &t->tokens[t->n_tokens++];
    *m = (struct json_member){.key = variable, .key_length = sizeof variable - 1};
    m->value = (struct json){.type = JSON_ARRAY, .count = n, .items = items};
    return true;
}

static bool add_tokens(struct chat_template *t, const struct json *from, struct mx_error *err) {
    static const char *const variables[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (!add_token(t, variables[i], json_get(from, variables[i]), err)) return false;
    return add_token_list(t, json_get(from, "additional_special_tokens"), err);
}

/* ---- opening ---- */

static void compile_entry(struct chat_template *t, struct entry *e) {
    e->template = jinja_compile_explained(e->text, e->length, &e->failure, &e->error);
    if (e->template) chat_adapt_probe(e->template, e->text, t->tokens, t->n_tokens, &e->abilities);
}

static struct chat_template *new_template(struct mx_error *err) {
    struct chat_template *t = calloc(1, sizeof *t);
    if (t) t->entries = calloc(MAX_TEMPLATES, sizeof *t->entries);
    if (t && t->entries) return t;
    free(t);
    error_memory(err, "chat template");
    return NULL;
}

static bool open_folder(struct chat_template *t, const char *folder, bool with_templates, struct mx_error *err) {
    bool ok;
    const struct json *config = read_json(t, folder, "tokenizer_config.json", &ok, err);
    if (!ok || (with_templates && !add_templates(t, folder, config, err)) || !add_tokens(t, config, err)) return false;
    const struct json *map = read_json(t, folder, "special_tokens_map.json", &ok, err);
    return ok && add_tokens(t, map, err);
}

struct chat_template *chat_template_open(const char *folder, struct mx_error *err) {
    struct chat_template *t = new_template(err);
    if (t && !open_folder(t, folder, true, err)) {
        chat_template_close(t);
        return NULL;
    }
    for (size_t i = 0; t && i < t->n; i++) compile_entry(t, &t->entries[i]);
    return t;
}

struct chat_template *chat_template_from_text(const char *text, size_t length, const char *folder,
                                              struct mx_error *err) {
    struct chat_template *t = new_template(err);
    char *copy = t ? arena_copy(&t->arena, text, length) : NULL;
    if (t && !copy) error_memory(err, "chat template");
    if (!copy || (folder && !open_folder(t, folder, false, err)) || !add_template(t, "default", copy, length, err)) {
        chat_template_close(t);
        return NULL;
    }
    compile_entry(t, &t->entries[0]);
    return t;
}

void chat_template_close(struct chat_template *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n; i++) {
        jinja_free(t->entries[i].template);
        jinja_failure_free(&t->entries[i].failure);
    }
    free(t->entries);
    arena_free(&t->arena);
    free(t);
}

bool chat_template_set_fallback(struct chat_template *t, bool has_chatml, struct mx_error *err) {
    static const char chatml[] =
        "{% for message in messages %}{{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content "
        "~ '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    static const char plain[] = "{% for message in messages %}{{ message.role ~ ': ' ~ message.content ~ '\\n' }}"
                                "{% endfor %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";
    const char *text = has_chatml ? chatml : plain;
    if (t->n) return true;
    if (!add_template(t, "default", text, strlen(text), err)) return false;
    t->is_fallback = true;
    compile_entry(t, &t->entries[0]);
    return true;
}

/* ---- what there is ---- */

static const struct entry *find_entry(const struct chat_template *t, const char *name) {
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->entries[i].name, name)) return &t->entries[i];
    return NULL;
}

static const struct entry *choose(const struct chat_template *t, const char *name, bool has_tools) {
    if (name) return find_entry(t, name);
    const struct entry *e = has_tools ? find_entry(t, "tool_use") : NULL;
    return e ? e : find_entry(t, "default");
}

bool chat_template_exists(const struct chat_template *t) { return t->n > 0 && !t->is_fallback; }
size_t chat_template_count(const struct chat_template *t) { return t->n; }
const char *chat_template_name(const struct chat_template *t, size_t index) { return t->entries[index].name; }

const char *chat_template_text(const struct chat_template *t, const char *name) {
    const struct entry *e = choose(t, name, false);
    return e ? e->text : NULL;
}

const char *chat_template_token(const struct chat_template *t, const char *variable) {
    for (size_t i = 0; i < t->n_tokens; i++)
        if (!strcmp(t->tokens[i].key, variable) && t->tokens[i].value.type == JSON_STRING)
            return t->tokens[i].value.string;
    return NULL;
}

bool chat_vocabulary_thinks(bool (*has_token)(void *context, const char *text), void *context) {
    static const char *const pairs[][2] = {{"<think>", "</think>"}, {"<longcat_think>", "</longcat_think>"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (has_token(context, pairs[i][0]) && has_token(context, pairs[i][1])) return true;
    return false;
}

/* ---- rendering ---- */

bool chat_template_now(struct tm *now, bool *is_set, struct mx_error *err) {
    const char *text = getenv("MLXCEL_NOW");
    int length = 0;
    *is_set = text && *text;
    *now = (struct tm){.tm_isdst = -1};
    if (!*is_set) return true;
    if (sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d%n", &now->tm_year, &now->tm_mon, &now->tm_mday, &now->tm_hour,
               &now->tm_min, &now->tm_sec, &length) != 6 ||
        text[length] || now->tm_mon < 1 || now->tm_mon > 12 || now->tm_mday < 1 || now->tm_mday > 31)
        return error_set(err, ERROR_USAGE, "MLXCEL_NOW: '%s' is no time, expected YYYY-MM-DD hh:mm:ss", text);
    now->tm_year -= 1900;
    now->tm_mon--;
    struct tm copy = *now; /* timegm computes the weekday and the day of the year */
    timegm(&copy);
    now->tm_wday = copy.tm_wday;
    now->tm_yday = copy.tm_yday;
    return true;
}

static const char continue_tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

struct rendering {
    struct arena arena;
    const struct json *messages;
    const struct json *final_text; /* of the last message, when it is to be continued */
};

static bool append_tag(struct rendering *r, struct json *text, struct mx_error *err) {
    size_t length = (size_t)text->count + sizeof continue_tag;
    char *joined = arena_alloc(&r->arena, length);
    if (!joined || length > UINT32_MAX) return error_memory(err, "chat message");
    if (text->count) memcpy(joined, text->string, text->count);
    memcpy(joined + text->count, continue_tag, sizeof continue_tag);
    *text = (struct json){.type = JSON_STRING, .count = (uint32_t)length - 1, .string = joined};
    return true;
}

static void *copy_items(struct rendering *r, const void *items, uint32_t n, size_t size) {
    void *copy = arena_calloc(&r->arena, n, size);
    if (copy && n) memcpy(copy, items, n * size);
    return copy;
}

/* The string that ends the content: itself, or the text of the last text part, in a copy that may be changed. */
static struct json *last_text(struct rendering *r, struct json *content) {
    if (json_is_string(content)) return content;
    if (!json_is_array(content)) return NULL;
    struct json *parts = copy_items(r, content->items, content->count, sizeof *parts);
    content->items = parts;
    for (uint32_t i = content->count; parts && i-- > 0;) {
        if (!json_is_object(&parts[i])) continue;
        struct json_member *members = copy_items(r, parts[i].members, parts[i].count, sizeof *members);
        parts[i].members = members;
        for (uint32_t j = 0; members && j < parts[i].count; j++)
            if (members[j].key_length == 4 && !memcmp(members[j].key, "text", 4) && json_is_string(&members[j].value))
                return &members[j].value;
    }
    return NULL;
}

/* Marks the end of the last message's content, so that everything the template writes behind it can be cut off. */
static bool tag_final_message(struct rendering *r, struct mx_error *err) {
    uint32_t n = r->messages->count;
    struct json *messages = copy_items(r, r->messages->items, n, sizeof *messages);
    struct json *root = arena_calloc(&r->arena, 1, sizeof *root), *text = NULL;
    if (!messages || !root) return error_memory(err, "chat messages");
    *root = (struct json){.type = JSON_ARRAY, .count = n, .items = messages};
    struct json *last = n ? &messages[n - 1] : NULL;
    struct json_member *members =
        last && json_is_object(last) ? copy_items(r, last->members, last->count, sizeof *members) : NULL;
    if (members) last->members = members;
    for (uint32_t i = 0; members && i < last->count; i++)
        if (members[i].key_length == 7 && !memcmp(members[i].key, "content", 7)) text = last_text(r, &members[i].value);
    if (!text) return error_set(err, ERROR_USAGE, "the final message has no text to continue");
    struct json *original = copy_items(r, text, 1, sizeof *text);
    if (!original) return error_memory(err, "chat messages");
    r->final_text = original;
    r->messages = root;
    return append_tag(r, text, err);
}

static bool cut_behind_tag(const struct rendering *r, struct buffer *out, size_t start, struct mx_error *err) {
    const size_t n = sizeof continue_tag - 2; /* without the blank at its end */
    size_t from = 0, to = r->final_text->count, tag = SIZE_MAX;
    jinja_trim_space(r->final_text->string, &from, &to);
    bool has_text = jinja_find(out->data, start, out->length, r->final_text->string + from, to - from) != SIZE_MAX;
    if (has_text) tag = jinja_find_last(out->data, start, out->length, continue_tag, n);
    if (tag == SIZE_MAX)
        return error_set(err, ERROR_USAGE,
                         "the final message does not appear in the rendering and cannot be continued");
    bool keeps_space = tag + n < out->length && out->data[tag + n] == ' ';
    out->length = tag;
    from = start;
    if (!keeps_space) jinja_trim_space(out->data, &from, &out->length);
    out->data[out->length] = '\0';
    return true;
}

static void add_member(struct json_member *members, uint32_t *n, const char *key, const struct json *value) {
    struct json none = {.type = JSON_NULL};
    members[(*n)++] =
        (struct json_member){.key = key, .key_length = (uint32_t)strlen(key), .value = value ? *value : none};
}

/* All variables; of equal names the last one counts. */
static const struct json *make_context(const struct chat_template *t, struct rendering *r, const struct chat_request *q,
                                       struct mx_error *err) {
    uint32_t n_kwargs = json_is_object(q->kwargs) ? q->kwargs->count : 0, n = 0;
    struct json_member *members = arena_calloc(&r->arena, t->n_tokens + 5 + n_kwargs, sizeof *members);
    struct json *context = arena_calloc(&r->arena, 1, sizeof *context);
    if (!members || !context) return error_memory(err, "chat template context"), NULL;
    for (size_t i = 0; i < t->n_tokens; i++) members[n++] = t->tokens[i];
    struct json flag = {.type = q->add_generation_prompt ? JSON_TRUE : JSON_FALSE};
    add_member(members, &n, "messages", r->messages);
    add_member(members, &n, "tools", q->tools);
    add_member(members, &n, "documents", q->documents);
    add_member(members, &n, "add_generation_prompt", &flag);
    if (q->enables_thinking) add_member(members, &n, "enable_thinking", &(struct json){.type = JSON_TRUE});
    for (uint32_t i = 0; i < n_kwargs; i++) members[n++] = q->kwargs->members[i];
    *context = (struct json){.type = JSON_OBJECT, .count = n, .members = members};
    return context;
}

static bool render(const struct chat_template *t, const struct entry *e, const struct chat_request *q,
                   const struct jinja_limits *limits, struct rendering *r, struct buffer *out,
                   struct jinja_failure *failure, struct mx_error *err) {
    size_t start = out->length;
    r->messages = q->messages;
    if (q->adapts_messages && !(r->messages = chat_adapt_messages(&r->arena, &e->abilities, q->messages, err)))
        return false;
    if (q->continue_final_message && !tag_final_message(r, err)) return false;
    const struct json *context = make_context(t, r, q, err);
    return context && jinja_render_explained(e->template, context, limits, out, failure, err) &&
           (!q->continue_final_message || cut_behind_tag(r, out, start, err));
}

static bool report_compile_failure(const struct entry *e, struct jinja_failure *failure, struct mx_error *err) {
    if (failure) {
        jinja_failure_free(failure);
        failure->kind = e->failure.kind;
        failure->line = e->failure.line;
        buffer_append(&failure->message, e->failure.message.data, e->failure.message.length);
    }
    return error_set(err, e->error.code, "%s", e->error.message);
}

bool chat_template_render(const struct chat_template *t, const struct chat_request *q,
                          const struct jinja_limits *limits, struct buffer *out, struct jinja_failure *failure,
                          struct mx_error *err) {
    const struct entry *e = choose(t, q->name, !json_is_null(q->tools));
    struct jinja_limits own = limits ? *limits : jinja_default_limits;
    struct tm now;
    bool is_set;
    if (!e && q->name) return error_set(err, ERROR_USAGE, "there is no chat template '%s'", q->name);
    if (!e)
        return error_set(err, ERROR_FORMAT,
                         t->n ? "of several chat templates none is called 'default'"
                              : "the folder has no chat template");
    if (!json_is_array(q->messages)) return error_set(err, ERROR_USAGE, "the messages are no array");
    if (q->continue_final_message && q->add_generation_prompt)
        return error_set(err, ERROR_USAGE, "a final message is continued, or a generation prompt added, not both");
    if (!e->template) return report_compile_failure(e, failure, err);
    if (!own.now) {
        if (!chat_template_now(&now, &is_set, err)) return false;
        if (is_set) own.now = &now;
    }
    struct rendering r = {0};
    size_t start = out->length;
    bool ok = render(t, e, q, &own, &r, out, failure, err);
    if (!ok) out->length = start;
    arena_free(&r.arena);
    return ok;
}
