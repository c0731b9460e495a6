/* SPDX-License-Identifier: Apache-2.0 */
/* Calls and arguments that end where their brackets close: JSON objects, Python calls, Gemma's notation. */
#include "text/reply_parser.h"
#include "text/reply_values.h"

#include "base/memory.h"

enum { JSON_DEPTH = SCAN_MAX_DEPTH };

/* ---- JSON objects that are calls ---- */

static const struct json *first_of(const struct json *object, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct json *v = json_get(object, keys[i]);
        if (v) return v;
    }
    return NULL;
}

/* Arguments that are a JSON string holding an object. */
static bool set_from_string(struct reply *r, const struct json *value) {
    const char *text = value->string;
    size_t n = value->count;
    while (n && reply_is_space(*text)) text++, n--;
    while (n && reply_is_space(text[n - 1])) n--;
    if (!n) text = "{}", n = 2;
    if (!reply_is_json_object(text, n, &r->is_out_of_memory)) return false;
    reply_set_arguments(r, text, n);
    return true;
}

/* The object's own text, so that numbers stay as they were written; where it is not known, a rewritten one. */
static void set_from_object(struct reply *r, const char *base, struct scan_range range, const struct json *value) {
    if (range.to && base[range.from] == '{') {
        reply_set_arguments(r, base + range.from, range.to - range.from);
        return;
    }
    struct buffer text = {0};
    json_write_value(&(struct json_writer){.out = &text}, value);
    if (text.failed)
        r->is_out_of_memory = true;
    else
        reply_set_arguments(r, text.data, text.length);
    buffer_free(&text);
}

static bool set_arguments(struct reply *r, const char *base, struct scan_range range, const struct json *value) {
    if (json_is_object(value))
        set_from_object(r, base, range, value);
    else if (json_is_string(value))
        return set_from_string(r, value);
    else if (json_is_null(value))
        reply_set_arguments(r, "{}", 2);
    else
        return false;
    return true;
}

/* Reads name, arguments and id of the call that `object`, the value of `text`, is. */
static bool read_call(struct reply *r, const char *text, const struct value_scan *scan, const struct json *object) {
    static const char *const names[] = {"name", "tool_name"}, *const ids[] = {"id", "tool_call_id"};
    static const char *const arguments[] = {"arguments", "parameters", "args"};
    struct scan_range range = scan->members[MEMBER_ARGUMENTS];
    if (r->block->flags & BLOCK_NAME_IS_KEY && object->count == 1 && json_is_object(&object->members[0].value)) {
        reply_set(r, &r->name, object->members[0].key, object->members[0].key_length);
        range = scan->n_members == 1 ? scan->value : (struct scan_range){0, 0};
        return set_arguments(r, text, range, &object->members[0].value);
    }
    const struct json *inner = json_get(object, "function");
    const struct json *call = json_is_object(inner) ? inner : object;
    const struct json *name = first_of(call, names, 2), *id = first_of(object, ids, 2);
    if (!name && json_is_string(inner)) name = inner;
    size_t n_arguments = 0;
    for (size_t i = 0; i < 3; i++) n_arguments += json_get(call, arguments[i]) != NULL;
    const struct json *value = first_of(call, arguments, 3);
    if (!json_is_string(name) || (!value && r->block->flags & BLOCK_WHOLE)) return false;
    if (call != object || n_arguments > 1) range = (struct scan_range){0, 0};
    reply_set(r, &r->name, name->string, name->count);
    if (json_is_string(id)) reply_set(r, &r->id, id->string, id->count);
    return set_arguments(r, text, range, value);
}

static bool read_json_call(struct reply *r) {
    const char *text = r->in.data + r->value_start;
    size_t n = r->at - r->value_start;
    struct arena arena = {0};
    struct buffer python = {0};
    struct value_scan scan = r->scan;
    struct mx_error err = {0};
    const struct json *object = json_parse(&arena, text, n, JSON_STRICT, JSON_DEPTH, &err);
    if (!object && r->block->flags & BLOCK_PYTHON_DATA && reply_python_value(&python, text, n)) {
        text = python.data;
        value_scan_begin(&scan, false);
        value_scan_all(&scan, python.data, python.length);
        object = json_parse(&arena, python.data, python.length, JSON_STRICT, JSON_DEPTH, &err);
    }
    r->is_out_of_memory |= err.code == ERROR_MEMORY;
    bool ok = json_is_object(object) && read_call(r, text, &scan, object);
    r->is_out_of_memory |= python.failed;
    buffer_free(&python);
    arena_free(&arena);
    return ok;
}

static bool read_json_arguments(struct reply *r) {
    const char *text = r->in.data + r->value_start;
    size_t n = r->at - r->value_start;
    if (reply_is_json_object(text, n, &r->is_out_of_memory)) {
        reply_set_arguments(r, text, n);
        return true;
    }
    struct buffer python = {0};
    bool ok = r->block->flags & BLOCK_PYTHON_DATA && reply_python_value(&python, text, n) &&
              reply_is_json_object(python.data, python.length, &r->is_out_of_memory);
    if (ok) reply_set_arguments(r, python.data, python.length);
    r->is_out_of_memory |= python.failed;
    buffer_free(&python);
    return ok;
}

static bool read_other_arguments(struct reply *r) {
    const char *text = r->in.data + r->value_start;
    size_t n = r->at - r->value_start;
    struct buffer json = {0};
    bool ok = r->state == IN_PYTHON_CALL ? reply_python_arguments(&json, text, n)
                                         : reply_gemma_arguments(&json, text, n, r->call->quote, &r->tools, &r->name);
    ok = ok && reply_is_json_object(json.data, json.length, &r->is_out_of_memory);
    if (ok) reply_set_arguments(r, json.data, json.length);
    r->is_out_of_memory |= json.failed;
    buffer_free(&json);
    return ok;
}

/* ---- while the value arrives ---- */

/* A marker at which a call that is broken ends. */
static enum match match_stop(const struct reply *r, size_t at) {
    const struct reply_block *b = r->block;
    bool part = false;
    const char *stops[3 + MAX_CALL_FORMS + MAX_SKIPS] = {b->close, b->flags & BLOCK_WHOLE ? NULL : b->open,
                                                         r->call ? r->call->close : NULL};
    for (size_t i = 0; i < MAX_CALL_FORMS && b->calls[i]; i++)
        stops[3 + i] = *b->calls[i]->open ? b->calls[i]->open : NULL;
    for (size_t i = 0; i < MAX_SKIPS; i++) stops[3 + MAX_CALL_FORMS + i] = b->skips[i];
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        enum match match = reply_match(r, at, stops[i]);
        if (match == MATCH_YES) return match;
        part |= match == MATCH_PART;
    }
    return part ? MATCH_PART : MATCH_NO;
}

/* A JSON answer that is no call: some key that calls do not have, or no JSON at all. */
static bool is_plain_answer(const struct reply *r) {
    if (!(r->block->flags & BLOCK_WHOLE) || r->state != IN_JSON_CALL || r->n_queued) return false;
    return r->scan.has_other_key || (!r->scan.is_json && !(r->block->flags & BLOCK_PYTHON_DATA));
}

/* The inside of the JSON string in text[range], if it is one and has no escapes. */
static bool set_plain_string(struct reply *r, struct buffer *buffer, const char *text, struct scan_range range) {
    size_t n = range.to - range.from;
    if (range.to < range.from + 3 || text[range.from] != '"' || memchr(text + range.from, '\\', n)) return false;
    reply_set(r, buffer, text + range.from + 1, n - 2);
    return true;
}

/* Tells what is certain of a JSON call that is not complete. */
static void stream_json(struct reply *r) {
    const struct value_scan *s = &r->scan;
    const char *text = r->in.data + r->value_start;
    struct scan_range range = {0, s->position};
    if (!r->streams_arguments || !s->is_json) return;
    if (r->state == IN_JSON_CALL) {
        struct scan_range name = s->members[MEMBER_NAME];
        if (r->block->flags & BLOCK_NAME_IS_KEY) {
            name = (struct scan_range){s->key.from - 1, s->key.to + 1};
            range.from = s->value.from;
            if (s->n_members || !s->key.to) return;
        } else {
            range = s->members[MEMBER_ARGUMENTS];
            if (!range.to && s->member == MEMBER_ARGUMENTS && s->value.from && !s->value.to)
                range = (struct scan_range){s->value.from, s->position};
        }
        if (!r->is_begun && set_plain_string(r, &r->name, text, name)) {
            set_plain_string(r, &r->id, text, s->members[MEMBER_ID]);
            reply_begin_call(r);
        }
        if (!range.from || text[range.from] != '{') return;
    }
    size_t have = r->arguments.length;
    if (range.to - range.from > have)
        buffer_append(&r->arguments, text + range.from + have, range.to - range.from - have);
    reply_stream_arguments(r);
}

/* The value is complete, or broken and over. */
static enum step end_value(struct reply *r) {
    bool ok = r->state == IN_JSON_CALL        ? read_json_call(r)
              : r->state == IN_JSON_ARGUMENTS ? read_json_arguments(r)
                                              : read_other_arguments(r);
    if (!ok || !reply_end_call(r)) reply_bad_call(r);
    r->state = BETWEEN_CALLS;
    r->after_call = true;
    return STEP_GO;
}

/* Gemma's quotes: in them no bracket counts. True when the byte at `at` was taken so. */
static bool take_quoted(struct reply *r, size_t at, enum match *match) {
    if (r->state != IN_GEMMA_ARGUMENTS) return false;
    *match = reply_match(r, at, r->call->quote);
    if (*match == MATCH_YES) {
        r->in_quote = !r->in_quote;
        r->scan.position += strlen(r->call->quote);
        return true;
    }
    if (*match == MATCH_NO && r->in_quote) r->scan.position++;
    return *match == MATCH_PART || r->in_quote;
}

enum step reply_step_value(struct reply *r) {
    for (;;) {
        size_t at = r->value_start + r->scan.position;
        if (at == r->in.length) break;
        enum match match = MATCH_NO;
        if (take_quoted(r, at, &match)) {
            if (match == MATCH_PART) break;
            continue;
        }
        match = r->scan.is_broken ? match_stop(r, at) : MATCH_NO;
        if (match == MATCH_PART) break;
        if (match == MATCH_YES) {
            r->at = at;
            reply_bad_call(r);
            r->state = BETWEEN_CALLS;
            r->after_call = true;
            return STEP_GO;
        }
        value_scan_next(&r->scan, r->in.data + r->value_start);
        r->at = r->value_start + r->scan.position;
        if (r->scan.is_done) return end_value(r);
        if (is_plain_answer(r)) {
            reply_bad_call(r);
            return reply_leave_block(r);
        }
    }
    if (r->state == IN_JSON_CALL || r->state == IN_JSON_ARGUMENTS) stream_json(r);
    return STEP_WAIT;
}
