/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters between tags, and code. The arguments' JSON text grows in r->arguments: a value that is certainly a string
 * piece by piece, any other when it is complete. */
#include "text/reply_parser.h"
#include "text/reply_values.h"

#include "base/utf8.h"

bool reply_attribute(const char *text, size_t length, const char *name, const char **value, size_t *value_length) {
    const char *end = text + length;
    size_t n = strlen(name);
    for (const char *at = text; (size_t)(end - at) > n; at++) {
        if (memcmp(at, name, n) != 0 || at[n] != '=' || (at > text && reply_is_name_char(at[-1]))) continue;
        at += n + 1;
        char quote = at < end && (*at == '"' || *at == '\'') ? *at++ : '\0';
        const char *stop = at;
        while (stop < end && (quote ? *stop != quote : !reply_is_space(*stop))) stop++;
        if (quote && stop == end) return false;
        *value = at;
        *value_length = (size_t)(stop - at);
        return true;
    }
    return false;
}

/* Appends the text as the inside of a JSON string. */
static void append_escaped(struct reply *r, const char *text, size_t length) {
    struct buffer quoted = {0};
    json_append_quoted(&quoted, text, length);
    if (quoted.failed)
        r->is_out_of_memory = true;
    else
        buffer_append(&r->arguments, quoted.data + 1, quoted.length - 2);
    buffer_free(&quoted);
}

/* Appends what has arrived of a text value up to `end`, but for an incomplete character. */
static void take_text(struct reply *r, size_t end, bool is_last) {
    if (end <= r->value_taken) return;
    size_t n = end - r->value_taken;
    if (!is_last) n -= utf8_incomplete_tail(r->in.data + r->value_taken, n);
    append_escaped(r, r->in.data + r->value_taken, n);
    r->value_taken += n;
    reply_stream_arguments(r);
}

/* ---- parameters ---- */

static enum step end_parameters(struct reply *r) {
    buffer_putc(&r->arguments, '}');
    if (!reply_end_call(r)) reply_bad_call(r);
    r->state = BETWEEN_CALLS;
    return STEP_GO;
}

static enum step step_before_parameter(struct reply *r) {
    const struct reply_call *call = r->call;
    reply_skip_space(r);
    if (r->at == r->in.length) return STEP_WAIT;
    enum match open = reply_match(r, r->at, call->param_open), close = reply_match(r, r->at, call->close);
    enum match end = reply_match(r, r->at, r->block->close);
    if (open == MATCH_YES) {
        r->at += strlen(call->param_open);
        r->scanned = r->at;
        r->state = IN_KEY;
        return STEP_GO;
    }
    if (close == MATCH_YES) {
        r->after_call = call->close != r->block->close && r->block->close && !strcmp(call->close, r->block->close);
        if (!r->after_call) r->at += strlen(call->close);
        return end_parameters(r);
    }
    if (end == MATCH_YES) return end_parameters(r); /* without the call's own end */
    if (open == MATCH_PART || close == MATCH_PART || end == MATCH_PART) return STEP_WAIT;
    reply_bad_call(r);
    return reply_leave_block(r);
}

/* The key, and how the value is written. */
static bool read_key(struct reply *r, const char *text, size_t length) {
    const struct reply_call *call = r->call;
    const char *key = text, *type;
    size_t n = length, type_length;
    if (call->key_attribute && !reply_attribute(text, length, call->key_attribute, &key, &n)) return false;
    while (n && reply_is_space(*key)) key++, n--;
    while (n && reply_is_space(key[n - 1])) n--;
    if (!n) return false;
    reply_set(r, &r->key, key, n);
    r->value_types = reply_tools_types(&r->tools, r->name.data, r->name.length, key, n);
    if (call->type_attribute && reply_attribute(text, length, call->type_attribute, &type, &type_length)) {
        bool is_text =
            (type_length == 4 && !memcmp(type, "true", 4)) || (type_length == 6 && !memcmp(type, "string", 6));
        if (is_text)
            r->value_types = TYPE_STRING;
        else if (r->value_types == TYPE_STRING)
            r->value_types = 0;
    }
    return true;
}

static enum step step_key(struct reply *r) {
    const struct reply_call *call = r->call;
    size_t found, from = r->at;
    enum match match = reply_search(r, r->scanned, call->key_end, &found);
    r->scanned = found;
    if (found - from > MAX_HEAD_BYTES || memchr(r->in.data + from, '\n', found - from) ||
        (match == MATCH_YES && !read_key(r, r->in.data + from, found - from))) {
        reply_bad_call(r);
        return reply_leave_block(r);
    }
    if (match != MATCH_YES) return STEP_WAIT;
    r->at = found + strlen(call->key_end);
    if (r->arguments.length > 1) buffer_putc(&r->arguments, ',');
    json_append_quoted(&r->arguments, r->key.data, r->key.length);
    buffer_putc(&r->arguments, ':');
    if (r->value_types == TYPE_STRING && !(call->flags & CALL_CDATA)) buffer_putc(&r->arguments, '"');
    r->value_start = r->value_taken = r->scanned = r->at;
    r->state = call->value_open ? BEFORE_VALUE : IN_VALUE;
    return STEP_GO;
}

static enum step step_before_value(struct reply *r) {
    reply_skip_space(r);
    if (r->at == r->in.length) return STEP_WAIT;
    enum match match = reply_match(r, r->at, r->call->value_open);
    if (match == MATCH_PART) return STEP_WAIT;
    if (match == MATCH_NO) {
        reply_bad_call(r);
        return reply_leave_block(r);
    }
    r->at += strlen(r->call->value_open);
    r->value_start = r->value_taken = r->scanned = r->at;
    r->state = IN_VALUE;
    return STEP_GO;
}

/* Values are not escaped and may hold the closing tag as text: it ends the value only where a further parameter or the
 * end of the call follows. */
static enum match is_real_end(const struct reply *r, size_t at) {
    const struct reply_call *call = r->call;
    size_t from = at;
    while (at < r->in.length && reply_is_space(r->in.data[at])) at++;
    if (at - from > MAX_HEAD_BYTES) return MATCH_NO;
    if (at == r->in.length) return r->is_finishing ? MATCH_YES : MATCH_PART;
    const char *const follows[] = {call->param_open, call->close, r->block->close};
    bool part = false;
    for (size_t i = 0; i < 3; i++) {
        enum match match = reply_match(r, at, follows[i]);
        if (match == MATCH_YES) return match;
        part |= match == MATCH_PART;
    }
    return part ? MATCH_PART : MATCH_NO;
}

/* The value is in[value_start .. end). */
static void end_value(struct reply *r, size_t end) {
    static const char open[] = "<![CDATA[", close[] = "]]>";
    enum { OPEN = sizeof open - 1, CLOSE = sizeof close - 1 };
    bool is_text = r->value_types == TYPE_STRING && !(r->call->flags & CALL_CDATA);
    if (is_text) {
        take_text(r, end, true);
        buffer_putc(&r->arguments, '"');
    } else {
        const char *text = r->in.data + r->value_start;
        size_t n = end - r->value_start;
        if (r->call->flags & CALL_CDATA && n >= OPEN + CLOSE && !memcmp(text, open, OPEN) &&
            !memcmp(text + n - CLOSE, close, CLOSE)) {
            text += OPEN;
            n -= OPEN + CLOSE;
        }
        reply_typed_value(&r->arguments, text, n, r->value_types);
    }
    reply_stream_arguments(r);
}

static enum step step_value(struct reply *r) {
    const struct reply_call *call = r->call;
    bool loses_breaks = call->flags & CALL_LOSES_BREAKS;
    if (loses_breaks && r->at == r->value_start && r->at < r->in.length && r->in.data[r->at] == '\n') {
        r->value_start = r->value_taken = r->at + 1;
        if (r->scanned < r->value_start) r->scanned = r->value_start;
    }
    size_t found;
    enum match match = MATCH_NO;
    while (match == MATCH_NO) {
        match = reply_search(r, r->scanned, call->param_close, &found);
        r->scanned = found;
        if (match != MATCH_YES) break;
        match = is_real_end(r, found + strlen(call->param_close));
        if (match == MATCH_NO) r->scanned++;
    }
    size_t end = found;
    if (loses_breaks && end > r->value_start && r->in.data[end - 1] == '\n') end--;
    if (match != MATCH_YES) {
        if (r->value_types == TYPE_STRING && !(call->flags & CALL_CDATA)) take_text(r, end, false);
        return STEP_WAIT;
    }
    end_value(r, end);
    r->at = found + strlen(call->param_close);
    r->state = BEFORE_PARAMETER;
    return STEP_GO;
}

enum step reply_step_parameters(struct reply *r) {
    switch (r->state) {
    case BEFORE_PARAMETER: return step_before_parameter(r);
    case IN_KEY: return step_key(r);
    case BEFORE_VALUE: return step_before_value(r);
    default: return step_value(r);
    }
}

/* ---- code ---- */

enum step reply_step_code(struct reply *r) {
    for (;; r->scanned++) {
        const char *next =
            r->scanned < r->in.length ? memchr(r->in.data + r->scanned, '<', r->in.length - r->scanned) : NULL;
        r->scanned = next ? (size_t)(next - r->in.data) : r->in.length;
        enum match eom = next ? reply_match(r, r->scanned, "<|eom_id|>") : MATCH_NO;
        enum match eot = next ? reply_match(r, r->scanned, "<|eot_id|>") : MATCH_NO;
        bool ends = eom == MATCH_YES || eot == MATCH_YES;
        if (ends || !next || eom == MATCH_PART || eot == MATCH_PART) {
            take_text(r, r->scanned, ends || r->is_finishing);
            if (!ends) return STEP_WAIT;
            r->at = r->scanned;
            buffer_puts(&r->arguments, "\"}");
            if (!reply_end_call(r)) reply_bad_call(r);
            r->state = BETWEEN_CALLS;
            return STEP_GO;
        }
    }
}
