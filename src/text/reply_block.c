/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of calls. Between calls only markers, white space and list punctuation may stand; anything else ends the block
 * and is content. A call that is broken ends where its brackets close or at the next marker, and the block goes on: one
 * bad call does not undo the good ones. */
#include "text/reply_parser.h"

void reply_enter_block(struct reply *r, const struct reply_block *block, size_t marker_length) {
    if (r->n_markers && r->markers[r->n_markers - 1].kind == MARKER_CLOSE) r->n_markers--;
    r->block = block;
    r->call = NULL;
    r->raw_start = r->item_start = r->at;
    r->at += marker_length;
    r->n_block_calls = r->n_queued = 0;
    r->has_bad = r->after_call = false;
    r->state = BETWEEN_CALLS;
    if (!(block->flags & BLOCK_CODE)) return;
    reply_set(r, &r->name, "python", 6);
    reply_clear(r, &r->id);
    reply_set(r, &r->arguments, "{\"code\":\"", 9);
    r->scanned = r->value_taken = r->at;
    reply_begin_call(r);
    r->state = IN_CODE;
}

void reply_enter_arguments(struct reply *r, const struct reply_block *block, const struct reply_call *call) {
    if (r->state == IN_HEADER) { /* the message's header was the head */
        r->item_start = r->raw_start;
        r->n_block_calls = r->n_queued = 0;
        r->has_bad = false;
    }
    reply_clear(r, &r->arguments);
    r->after_call = false;
    r->block = block;
    r->call = call;
    r->state = BEFORE_ARGUMENTS;
}

/* The block is over at `at`; text in it that is no call is content. */
static enum step end_block(struct reply *r) {
    bool is_empty = !r->n_block_calls && !(r->block->flags & BLOCK_SILENT);
    if (r->has_bad || is_empty) reply_put_content(r, r->raw_start, r->at);
    r->state = IN_CONTENT;
    return STEP_GO;
}

enum step reply_leave_block(struct reply *r) {
    size_t from = r->raw_start;
    if (r->block->flags & BLOCK_WHOLE) r->n_queued = r->n_block_calls = 0;
    if (!r->n_block_calls && !r->has_bad && r->block->flags & BLOCK_SILENT) from += strlen(r->block->open);
    if (!r->n_block_calls && r->at == r->raw_start && r->at < r->in.length) r->at++; /* always go forward */
    reply_put_content(r, from, r->at);
    if (r->n_block_calls && !r->has_bad && r->block->close && r->n_markers < MAX_MARKERS)
        r->markers[r->n_markers++] =
            (struct marker){.text = r->block->close, .length = strlen(r->block->close), .kind = MARKER_CLOSE};
    if (r->block->close) r->is_marker_start[(unsigned char)r->block->close[0]] = true;
    r->state = IN_CONTENT;
    return STEP_GO;
}

/* ---- between calls ---- */

/* The text of a call begins at `at`. */
static void begin_item(struct reply *r) {
    r->item_start = r->at;
    if (r->n_block_calls && !r->has_bad && !(r->block->flags & BLOCK_WHOLE)) r->raw_start = r->at;
    r->after_call = false;
    reply_clear(r, &r->name);
    reply_clear(r, &r->id);
    reply_clear(r, &r->arguments);
}

static void begin_head(struct reply *r, const struct reply_call *call) {
    begin_item(r);
    r->call = call;
    r->at += strlen(call->open);
    r->scanned = r->at;
    r->state = IN_HEAD;
}

static void begin_value(struct reply *r, enum reply_state state) {
    r->value_start = r->scanned = r->at;
    r->in_quote = false;
    value_scan_begin(&r->scan, state == IN_PYTHON_CALL || state == IN_GEMMA_ARGUMENTS);
    r->state = state;
}

/* Takes ``` and the word behind it. MATCH_PART: the word may go on. */
static enum match take_fence(struct reply *r) {
    enum match match = reply_match(r, r->at, "```");
    if (match != MATCH_YES) return match;
    size_t i = r->at + 3;
    while (i < r->in.length && r->in.data[i] >= 'a' && r->in.data[i] <= 'z') i++;
    if (i == r->in.length && !r->is_finishing) return MATCH_PART;
    r->at = i;
    return MATCH_YES;
}

/* Takes what may stand between calls and means nothing. */
static enum match take_filling(struct reply *r) {
    const struct reply_block *b = r->block;
    bool part = false, is_good = r->n_block_calls && !r->has_bad && !(b->flags & BLOCK_WHOLE);
    const char *const close = r->after_call && r->call ? r->call->close : NULL;
    const char *const fillings[] = {close, b->skips[0], b->skips[1], b->skips[2], b->skips[3]};
    for (size_t i = 0; i < sizeof fillings / sizeof *fillings; i++) {
        if (fillings[i] && b->close && !strcmp(fillings[i], b->close)) continue;
        enum match match = reply_match(r, r->at, fillings[i]);
        part |= match == MATCH_PART;
        if (match != MATCH_YES) continue;
        r->at += strlen(fillings[i]);
        if (is_good) r->raw_start = r->at;
        return MATCH_YES;
    }
    enum match match = b->flags & BLOCK_FENCED ? take_fence(r) : MATCH_NO;
    if (match == MATCH_YES && is_good) r->raw_start = r->at;
    return match == MATCH_NO && part ? MATCH_PART : match;
}

static bool is_identifier_start(char c) { return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_'; }

/* NAME( begins a Python call. */
static enum step begin_python_call(struct reply *r) {
    size_t i = r->at, from = i;
    while (i < r->in.length && reply_is_name_char(r->in.data[i]) && i - from < MAX_HEAD_BYTES) i++;
    size_t end = i;
    while (i < r->in.length && reply_is_space(r->in.data[i])) i++;
    if (i - from > MAX_HEAD_BYTES) return reply_leave_block(r);
    if (i == r->in.length) return STEP_WAIT;
    if (r->in.data[i] != '(') return reply_leave_block(r);
    begin_item(r);
    r->call = NULL;
    reply_set(r, &r->name, r->in.data + from, end - from);
    reply_begin_call(r);
    r->at = i;
    begin_value(r, IN_PYTHON_CALL);
    return STEP_GO;
}

/* A list's brackets and the separators between calls. */
static bool take_punctuation(struct reply *r) {
    if (!(r->block->flags & (BLOCK_JSON | BLOCK_NAME_IS_KEY | BLOCK_PYTHON))) return false;
    if (!strchr("[],;", r->in.data[r->at])) return false;
    bool ends = r->in.data[r->at++] == ']';
    if (ends && r->n_block_calls && !r->has_bad && !(r->block->flags & BLOCK_WHOLE)) r->raw_start = r->at;
    return true;
}

/* What stands at `at` decides what comes; MATCH_PART: more input is needed. */
static enum match begin_marked(struct reply *r) {
    const struct reply_block *b = r->block;
    bool part = false;
    for (size_t i = 0; i < MAX_CALL_FORMS && b->calls[i]; i++) {
        if (!*b->calls[i]->open) continue;
        enum match match = reply_match(r, r->at, b->calls[i]->open);
        part |= match == MATCH_PART;
        if (match != MATCH_YES) continue;
        begin_head(r, b->calls[i]);
        return MATCH_YES;
    }
    return part ? MATCH_PART : MATCH_NO;
}

static enum step step_between(struct reply *r) {
    const struct reply_block *b = r->block;
    bool is_whole = b->flags & BLOCK_WHOLE;
    reply_skip_space(r);
    if (r->at == r->in.length) return STEP_WAIT;
    enum match filling = take_filling(r);
    if (filling == MATCH_YES) return STEP_GO;
    enum match close = is_whole ? MATCH_NO : reply_match(r, r->at, b->close);
    if (close == MATCH_YES) {
        r->at += strlen(b->close);
        return end_block(r);
    }
    enum match again = is_whole ? MATCH_NO : reply_match(r, r->at, b->open);
    if (again == MATCH_YES) return reply_leave_block(r);
    enum match marked = begin_marked(r);
    if (marked == MATCH_YES) return STEP_GO;
    if (filling == MATCH_PART || close == MATCH_PART || again == MATCH_PART || marked == MATCH_PART) return STEP_WAIT;
    char c = r->in.data[r->at];
    if (c == '{' && b->flags & (BLOCK_JSON | BLOCK_NAME_IS_KEY)) {
        begin_item(r);
        r->call = NULL;
        begin_value(r, IN_JSON_CALL);
        return STEP_GO;
    }
    if (take_punctuation(r)) return STEP_GO;
    if (b->flags & BLOCK_PYTHON && is_identifier_start(c)) return begin_python_call(r);
    bool is_first = !r->n_block_calls && !r->has_bad;
    for (size_t i = 0; is_first && i < MAX_CALL_FORMS && b->calls[i]; i++) {
        if (*b->calls[i]->open || !reply_is_name_char(c)) continue;
        begin_head(r, b->calls[i]);
        return STEP_GO;
    }
    return reply_leave_block(r);
}

/* ---- heads ---- */

static void set_trimmed(struct reply *r, struct buffer *buffer, const char *text, size_t length) {
    while (length && reply_is_space(*text)) text++, length--;
    while (length && reply_is_space(text[length - 1])) length--;
    reply_set(r, buffer, text, length);
}

/* The name is known; what comes is the arguments. */
static enum step end_head(struct reply *r) {
    const struct reply_call *call = r->call;
    if (call->flags & CALL_HEAD_IS_ID) {
        reply_set(r, &r->id, r->name.data, r->name.length);
        size_t n = r->name.length;
        while (n && r->name.data[n - 1] >= '0' && r->name.data[n - 1] <= '9') n--;
        if (n > 1 && n < r->name.length && r->name.data[n - 1] == ':') r->name.length = n - 1;
    }
    if (call->flags & CALL_ALL_IS_TEXT && r->name.length == 3 && !memcmp(r->name.data, "all", 3)) {
        r->wants_break = r->has_content;
        reply_begin_content(r, true);
        return STEP_GO;
    }
    r->state = BEFORE_ARGUMENTS;
    if (call->flags & CALL_HEAD_ONLY)
        r->state = BETWEEN_CALLS;
    else if (call->second_head && r->name.length == strlen(call->second_head) &&
             !memcmp(r->name.data, call->second_head, r->name.length))
        r->state = IN_SECOND_HEAD;
    return STEP_GO;
}

/* What may stand behind a plain name. The longest way of writing comes first. */
static enum step end_plain_head(struct reply *r, size_t name_end, size_t at) {
    const struct reply_call *call = r->call;
    const char *const starts[] = {call->head_end ? NULL : call->param_open, call->head_end ? NULL : call->close,
                                  call->quote || call->flags & CALL_BRACE ? "{" : NULL};
    enum match end = reply_match(r, at, call->head_end), id = reply_match(r, at, call->id_from);
    bool part = end == MATCH_PART || id == MATCH_PART;
    reply_set(r, &r->name, r->in.data + r->at, name_end - r->at);
    if (end == MATCH_YES) {
        r->at = at + strlen(call->head_end);
        return end_head(r);
    }
    if (id == MATCH_YES) {
        size_t from = at + strlen(call->id_from), found;
        enum match match = reply_search(r, from, call->head_end, &found);
        if (found - from > MAX_HEAD_BYTES) return reply_leave_block(r);
        if (match != MATCH_YES) return STEP_WAIT;
        set_trimmed(r, &r->id, r->in.data + from, found - from);
        r->at = found + strlen(call->head_end);
        return end_head(r);
    }
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        enum match match = reply_match(r, at, starts[i]);
        part |= match == MATCH_PART;
        if (match != MATCH_YES) continue;
        r->at = at;
        return end_head(r);
    }
    return part ? STEP_WAIT : reply_leave_block(r);
}

static enum step step_plain_head(struct reply *r) {
    const struct reply_call *call = r->call;
    bool line = call->head_end && call->head_end[0] == '\n';
    if (!line) reply_skip_space(r);
    size_t i = r->at;
    while (i < r->in.length && reply_is_name_char(r->in.data[i]) && i - r->at < MAX_HEAD_BYTES) i++;
    if (i == r->in.length) return STEP_WAIT;
    size_t name_end = i;
    if (name_end == r->at) return reply_leave_block(r);
    while (i < r->in.length && reply_is_space(r->in.data[i]) && !(line && r->in.data[i] == '\n')) i++;
    if (i - r->at > MAX_HEAD_BYTES) return reply_leave_block(r);
    if (i == r->in.length) return STEP_WAIT;
    return end_plain_head(r, name_end, i);
}

/* A head in which the name must be looked for. */
static bool read_head(struct reply *r, const char *head, size_t length) {
    const struct reply_call *call = r->call;
    const char *name = head, *end = head + length;
    size_t n;
    if (call->name_attribute) {
        if (!length || !reply_is_space(*head) || !reply_attribute(head, length, call->name_attribute, &name, &n))
            return false;
        reply_set(r, &r->name, name, n);
        return n > 0;
    }
    const char *from = memmem(head, length, call->name_from, strlen(call->name_from));
    if (!from) return false;
    if (call->flags & CALL_ID_FIRST) set_trimmed(r, &r->id, head, (size_t)(from - head));
    name = from + strlen(call->name_from);
    if (call->name_to) end = memmem(name, (size_t)(end - name), call->name_to, strlen(call->name_to));
    if (!end) return false;
    set_trimmed(r, &r->name, name, (size_t)(end - name));
    return r->name.length > 0;
}

static enum step step_head(struct reply *r) {
    const struct reply_call *call = r->call;
    if (!call->name_attribute && !call->name_from) return step_plain_head(r);
    size_t found, from = r->at;
    enum match match = reply_search(r, r->scanned, call->head_end, &found);
    if (found - from > MAX_HEAD_BYTES) return reply_leave_block(r);
    if (call->name_attribute && memchr(r->in.data + from, '\n', found - from)) return reply_leave_block(r);
    r->scanned = found;
    if (match != MATCH_YES) return STEP_WAIT;
    if (!read_head(r, r->in.data + from, found - from)) return reply_leave_block(r);
    r->at = found + strlen(call->head_end);
    return end_head(r);
}

static enum step step_second_head(struct reply *r) {
    reply_skip_space(r);
    size_t i = r->at;
    while (i < r->in.length && reply_is_name_char(r->in.data[i]) && i - r->at < MAX_HEAD_BYTES) i++;
    if (i == r->in.length) return STEP_WAIT;
    if (i == r->at) return reply_leave_block(r);
    reply_set(r, &r->name, r->in.data + r->at, i - r->at);
    r->at = i;
    r->state = BEFORE_ARGUMENTS;
    return STEP_GO;
}

static enum step step_before_arguments(struct reply *r) {
    const struct reply_call *call = r->call;
    reply_skip_space(r);
    if (r->at == r->in.length) return STEP_WAIT;
    enum match fence = r->block->flags & BLOCK_FENCED ? take_fence(r) : MATCH_NO;
    if (fence == MATCH_YES) return STEP_GO;
    if (r->in.data[r->at] == '{' && (call->flags & CALL_JSON || call->quote)) {
        reply_begin_call(r);
        begin_value(r, call->quote ? IN_GEMMA_ARGUMENTS : IN_JSON_ARGUMENTS);
        return STEP_GO;
    }
    enum match open = reply_match(r, r->at, call->param_open), close = reply_match(r, r->at, call->close);
    enum match end = call->param_open ? reply_match(r, r->at, r->block->close) : MATCH_NO;
    if (open == MATCH_YES || close == MATCH_YES || end == MATCH_YES) { /* perhaps without any */
        reply_begin_call(r);
        reply_set(r, &r->arguments, "{", 1);
        r->state = BEFORE_PARAMETER;
        return STEP_GO;
    }
    if (fence == MATCH_PART || open == MATCH_PART || close == MATCH_PART || end == MATCH_PART) return STEP_WAIT;
    return reply_leave_block(r);
}

enum step reply_step_block(struct reply *r) {
    switch (r->state) {
    case BETWEEN_CALLS: return step_between(r);
    case IN_HEAD: return step_head(r);
    case IN_SECOND_HEAD: return step_second_head(r);
    case BEFORE_ARGUMENTS: return step_before_arguments(r);
    default: return reply_step_value(r);
    }
}

void reply_finish_block(struct reply *r) {
    if (r->state == IN_HEADER) {
        reply_finish_header(r);
        return;
    }
    bool is_complete = r->state == BETWEEN_CALLS;
    if (!r->is_cut_off && (r->state == BEFORE_PARAMETER || r->state == IN_CODE)) {
        /* only the call's own end is missing */
        buffer_puts(&r->arguments, r->state == IN_CODE ? "\"}" : "}");
        is_complete = reply_end_call(r);
    }
    if (!is_complete) reply_bad_call(r);
    if (r->n_queued) reply_send_queue(r);
    if (r->has_bad || !r->n_block_calls) {
        bool drops_open = r->block->flags & BLOCK_SILENT && is_complete && !r->has_bad;
        reply_put_content(r, r->raw_start + (drops_open ? strlen(r->block->open) : 0), r->in.length);
    }
}
