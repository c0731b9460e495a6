/* SPDX-License-Identifier: Apache-2.0 */
/* The text between calls. Content and reasoning are searched for markers; what lies between them goes to `text` and
 * from there to the sink. White space at the end of a text waits, since it is layout if a call or a marker follows;
 * white space at the start is layout if a thought or a marker stood before it. */
#include "text/reply_parser.h"

#include "base/memory.h"
#include "base/utf8.h"

/* ---- matching ---- */

enum match reply_match(const struct reply *r, size_t at, const char *marker) {
    if (!marker) return MATCH_NO;
    size_t n = strlen(marker), have = r->in.length - at;
    if (!have) return r->is_finishing ? MATCH_NO : MATCH_PART;
    if (memcmp(r->in.data + at, marker, n < have ? n : have) != 0) return MATCH_NO;
    if (n <= have) return MATCH_YES;
    return r->is_finishing ? MATCH_NO : MATCH_PART;
}

enum match reply_search(const struct reply *r, size_t from, const char *marker, size_t *found) {
    for (size_t i = from; i < r->in.length; i++) {
        const char *next = memchr(r->in.data + i, marker[0], r->in.length - i);
        if (!next) break;
        i = (size_t)(next - r->in.data);
        enum match m = reply_match(r, i, marker);
        if (m == MATCH_NO) continue;
        *found = i;
        return m;
    }
    *found = r->in.length;
    return MATCH_PART;
}

bool reply_is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

void reply_skip_space(struct reply *r) {
    while (r->at < r->in.length && reply_is_space(r->in.data[r->at])) r->at++;
}

/* ---- text on its way out ---- */

bool reply_send(struct reply *r, const struct reply_event *event) {
    if (!r->is_stopped && !r->sink(r->sink_context, event)) r->is_stopped = true;
    return !r->is_stopped;
}

void reply_flush_text(struct reply *r, bool all) {
    struct buffer *text = &r->text;
    size_t n = all ? text->length : r->text_solid;
    if (!all && n == text->length) n -= utf8_incomplete_tail(text->data, n);
    if (!n) return;
    reply_send(r, &(struct reply_event){.kind = r->text_kind, .text = text->data, .length = n});
    memmove(text->data, text->data + n, text->length - n);
    text->length -= n;
    text->data[text->length] = '\0';
    r->text_solid = r->text_solid > n ? r->text_solid - n : 0;
}

static void clear_text(struct reply *r) {
    reply_clear(r, &r->text);
    r->text_solid = 0;
}

/* Sends everything; without keeps_space, all but white space at the end. */
static void end_text(struct reply *r, bool keeps_space) {
    reply_flush_text(r, false);
    if (r->text.length && (keeps_space || !reply_is_space(r->text.data[0]))) reply_flush_text(r, true);
    clear_text(r);
}

/* White space at the end of reasoning, and before the first content, is dropped. */
static void select_text(struct reply *r, enum reply_event_kind kind) {
    if (r->text_kind == kind) return;
    end_text(r, r->text_kind == REPLY_CONTENT && r->has_content);
    r->text_kind = kind;
}

/* Follows the lines of the content: a line that begins with three backticks opens or closes a fence, unless it holds
 * further backticks after the opening ones. */
static void follow_line(struct reply *r, char c) {
    if (c == '\n') {
        r->line = LINE_START;
        r->line_spaces = r->line_ticks = 0;
        return;
    }
    switch (r->line) {
    case LINE_START:
        if (reply_is_space(c))
            r->line_spaces++;
        else
            r->line = c == '`' && r->line_spaces <= 3 ? LINE_TICKS : LINE_TEXT;
        r->line_ticks = r->line == LINE_TICKS;
        return;
    case LINE_TICKS:
        if (c == '`' && ++r->line_ticks == 3) r->in_fence = !r->in_fence;
        if (c != '`') r->line = r->line_ticks >= 3 && r->in_fence ? LINE_INFO : LINE_TEXT;
        return;
    case LINE_INFO:
        if (c == '`') r->in_fence = false;
        return;
    case LINE_TEXT: return;
    }
}

/* The start of a text: white space that is layout is skipped, and a line break is set between this and what was there
 * before (thoughts, messages). Returns how many bytes are skipped. */
static size_t start_text(struct reply *r, enum reply_event_kind kind, const char *text, size_t n) {
    bool is_reasoning = kind == REPLY_REASONING;
    size_t spaces = 0;
    while (spaces < n && reply_is_space(text[spaces])) spaces++;
    bool skips = is_reasoning || r->trims || r->wants_break;
    if (spaces == n) return skips ? n : 0;
    if (is_reasoning ? r->has_reasoning : r->has_content) {
        r->text.length = r->text_solid;
        buffer_putc(&r->text, '\n');
    }
    if (is_reasoning)
        r->has_reasoning = r->thought_has_text = true;
    else
        r->has_content = true;
    if (!is_reasoning) r->wants_break = false;
    return skips ? spaces : 0;
}

static void put_text(struct reply *r, enum reply_event_kind kind, const char *text, size_t n) {
    bool is_content = kind == REPLY_CONTENT;
    select_text(r, kind);
    if (is_content ? !r->has_content || r->wants_break : !r->thought_has_text) {
        size_t skipped = start_text(r, kind, text, n);
        text += skipped;
        n -= skipped;
    }
    for (size_t i = 0; is_content && i < n; i++) {
        follow_line(r, text[i]);
        if (!reply_is_space(text[i])) r->had_call_since_text = false;
    }
    size_t solid = n, before = r->text.length;
    while (solid && reply_is_space(text[solid - 1])) solid--;
    if (buffer_append(&r->text, text, n) && solid) r->text_solid = before + solid;
}

void reply_put_content(struct reply *r, size_t from, size_t to) {
    if (from < r->n_primed) from = r->n_primed;
    if (to > from) put_text(r, REPLY_CONTENT, r->in.data + from, to - from);
}

void reply_text_before_call(struct reply *r) {
    select_text(r, REPLY_CONTENT);
    if (r->has_content) reply_flush_text(r, false);
}

void reply_text_after_call(struct reply *r) {
    if (!r->has_content) clear_text(r);
    r->trims = r->had_call_since_text = true;
    r->line = LINE_START;
}

void reply_begin_content(struct reply *r, bool trims) {
    select_text(r, REPLY_CONTENT);
    if (!r->has_content) clear_text(r);
    r->trims |= trims;
    r->state = IN_CONTENT;
}

void reply_begin_reasoning(struct reply *r, const struct reply_thought *thought) {
    select_text(r, REPLY_REASONING);
    r->trims = true;
    r->thought = thought;
    r->thought_has_text = false;
    r->state = IN_REASONING;
}

/* ---- markers ---- */

static bool at_answer_start(const struct reply *r) { return !r->has_content && !r->n_calls; }

/* Whether the marker means anything where the text stands now. */
static bool is_active(const struct reply *r, const struct marker *m) {
    switch (m->kind) {
    case MARKER_BLOCK:
    case MARKER_CALL:
        if (m->block->flags & BLOCK_AT_START && !at_answer_start(r)) return false;
        if (m->block->flags & BLOCK_AT_LINE && r->line != LINE_START) return false;
        return !(m->block->flags & BLOCK_TEXT && r->in_fence);
    case MARKER_THOUGHT: return m->thought->is_token || at_answer_start(r);
    case MARKER_THOUGHT_END: return at_answer_start(r);
    case MARKER_WRAP_OPEN: return at_answer_start(r) && !r->is_wrapped;
    case MARKER_WRAP_CLOSE: return r->is_wrapped;
    case MARKER_DROP:
    case MARKER_HEADER:
    case MARKER_CLOSE: break;
    }
    return true;
}

/* The longest active marker at `at`. MATCH_PART: a longer one may still come. */
static enum match find_marker(const struct reply *r, size_t at, const struct marker **found) {
    size_t longest_part = 0;
    *found = NULL;
    for (size_t i = 0; i < r->n_markers; i++) {
        const struct marker *m = &r->markers[i];
        if (m->text[0] != r->in.data[at] || (*found && m->length <= (*found)->length) || !is_active(r, m)) continue;
        enum match match = reply_match(r, at, m->text);
        if (match == MATCH_YES) *found = m;
        if (match == MATCH_PART && m->length > longest_part) longest_part = m->length;
    }
    if (longest_part > (*found ? (*found)->length : 0)) return MATCH_PART;
    return *found ? MATCH_YES : MATCH_NO;
}

/* <NAME ...> or </NAME ...> with a short inside, at `at`. */
static enum match match_tag(const struct reply *r, size_t at, size_t *length) {
    enum { MAX_TAG = 64 };
    const char *name = r->format->drop_tag;
    if (!name || r->in.data[at] != '<') return MATCH_NO;
    size_t i = at + 1, n = strlen(name);
    if (i < r->in.length && r->in.data[i] == '/') i++;
    enum match match = reply_match(r, i, name);
    if (match != MATCH_YES) return match;
    i += n;
    if (i < r->in.length && !strchr(">: ", r->in.data[i])) return MATCH_NO;
    for (; i < r->in.length && i < at + MAX_TAG && r->in.data[i] != '\n' && r->in.data[i] != '<'; i++) {
        if (r->in.data[i] != '>') continue;
        *length = i + 1 - at;
        return MATCH_YES;
    }
    return i < r->in.length || r->is_finishing ? MATCH_NO : MATCH_PART;
}

static void add_marker(struct reply *r, struct marker m) {
    if (!m.text || !*m.text || r->n_markers == MAX_MARKERS) return;
    m.length = strlen(m.text);
    r->markers[r->n_markers++] = m;
    r->is_marker_start[(unsigned char)m.text[0]] = true;
}

static void collect_markers(struct reply *r) {
    const struct reply_format *f = r->format;
    for (size_t i = 0; i < MAX_BLOCKS && f->blocks[i] && reply_tools_any(&r->tools); i++) {
        const struct reply_block *b = f->blocks[i];
        add_marker(r, (struct marker){.text = b->open, .kind = MARKER_BLOCK, .block = b});
        for (size_t j = 0; j < MAX_CALL_FORMS && b->calls[j] && b->flags & BLOCK_CALLS_START; j++)
            add_marker(r, (struct marker){.text = b->calls[j]->open, .kind = MARKER_CALL, .block = b});
    }
    for (size_t i = 0; i < MAX_THOUGHTS && f->thoughts[i]; i++) {
        const struct reply_thought *t = f->thoughts[i];
        add_marker(r, (struct marker){.text = t->open, .kind = MARKER_THOUGHT, .thought = t});
        add_marker(r, (struct marker){.text = t->close, .kind = MARKER_THOUGHT_END, .thought = t});
    }
    for (size_t i = 0; i < MAX_DROPS && f->drops[i]; i++)
        add_marker(r, (struct marker){.text = f->drops[i], .kind = MARKER_DROP});
    add_marker(r, (struct marker){.text = f->wrap_open, .kind = MARKER_WRAP_OPEN});
    add_marker(r, (struct marker){.text = f->wrap_close, .kind = MARKER_WRAP_CLOSE});
    if (f->drop_tag) r->is_marker_start['<'] = true;
    if (!f->messages) return;
    add_marker(r, (struct marker){.text = f->messages->start, .kind = MARKER_HEADER});
    add_marker(r, (struct marker){.text = f->messages->channel, .kind = MARKER_HEADER});
    for (size_t i = 0; i < MAX_ENDS && f->messages->ends[i]; i++)
        add_marker(r, (struct marker){.text = f->messages->ends[i], .kind = MARKER_DROP});
}

static void take_marker(struct reply *r, const struct marker *m) {
    size_t pos = r->at;
    switch (m->kind) {
    case MARKER_BLOCK: reply_enter_block(r, m->block, m->block->flags & BLOCK_WHOLE ? 0 : m->length); return;
    case MARKER_CALL: reply_enter_block(r, m->block, 0); return;
    case MARKER_HEADER:
        r->raw_start = r->scanned = pos;
        r->state = IN_HEADER;
        return;
    case MARKER_THOUGHT: reply_begin_reasoning(r, m->thought); break;
    case MARKER_WRAP_OPEN:
    case MARKER_WRAP_CLOSE: r->is_wrapped = m->kind == MARKER_WRAP_OPEN; break;
    case MARKER_CLOSE: /* the last one, see reply_leave_block */ r->n_markers--; break;
    case MARKER_THOUGHT_END:
    case MARKER_DROP: break;
    }
    if (!r->has_content && r->text_kind == REPLY_CONTENT) clear_text(r);
    r->trims = true;
    r->at = pos + m->length;
}

/* ---- steps ---- */

static enum step step_content(struct reply *r) {
    while (r->at < r->in.length) {
        size_t from = r->at, i = from, tag_length = 0;
        while (i < r->in.length && !r->is_marker_start[(unsigned char)r->in.data[i]]) i++;
        reply_put_content(r, from, i);
        r->at = i;
        if (i == r->in.length) break;
        const struct marker *m;
        enum match match = find_marker(r, i, &m);
        if (match == MATCH_NO) match = match_tag(r, i, &tag_length);
        if (match == MATCH_PART) return STEP_WAIT;
        if (match == MATCH_YES && m) {
            take_marker(r, m);
            return STEP_GO;
        }
        if (match == MATCH_NO) reply_put_content(r, i, i + 1);
        r->at = i + (match == MATCH_YES ? tag_length : 1);
    }
    return STEP_WAIT;
}

/* Where the thought that is open ends: its close, or in messages an end marker or the next header. */
static enum match match_thought_end(const struct reply *r, size_t at, size_t *length) {
    if (r->thought) {
        *length = strlen(r->thought->close);
        return reply_match(r, at, r->thought->close);
    }
    const struct reply_messages *m = r->format->messages;
    bool part = false;
    *length = 0;
    const char *const ends[] = {m->start, m->channel, m->ends[0], m->ends[1], m->ends[2], m->ends[3]};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        enum match match = reply_match(r, at, ends[i]);
        if (match == MATCH_YES) return match; /* content takes the marker */
        part |= match == MATCH_PART;
    }
    return part ? MATCH_PART : MATCH_NO;
}

static enum step step_reasoning(struct reply *r) {
    char first = r->thought ? r->thought->close[0] : '<';
    if (!r->thought_has_text && r->thought) { /* the opening marker again, though the prompt has it */
        while (r->at < r->in.length && reply_is_space(r->in.data[r->at])) r->at++;
        enum match match = reply_match(r, r->at, r->thought->open);
        if (match == MATCH_PART && r->at < r->in.length) return STEP_WAIT;
        if (match == MATCH_YES) r->at += strlen(r->thought->open);
    }
    for (size_t i = r->at; i < r->in.length; i++) {
        const char *next = memchr(r->in.data + i, first, r->in.length - i);
        i = next ? (size_t)(next - r->in.data) : r->in.length;
        put_text(r, REPLY_REASONING, r->in.data + r->at, i - r->at);
        r->at = i;
        if (!next) break;
        size_t length;
        enum match match = match_thought_end(r, i, &length);
        if (match == MATCH_PART) return STEP_WAIT;
        if (match == MATCH_YES) {
            r->at = i + length;
            reply_begin_content(r, true);
            return STEP_GO;
        }
        put_text(r, REPLY_REASONING, next, 1);
        r->at = i + 1;
    }
    return STEP_WAIT;
}

static void run(struct reply *r) {
    enum step step = STEP_GO;
    while (step == STEP_GO && !r->is_stopped && !r->is_out_of_memory) {
        switch (r->state) {
        case IN_CONTENT: step = step_content(r); break;
        case IN_REASONING: step = step_reasoning(r); break;
        case IN_HEADER: step = reply_step_header(r); break;
        case BEFORE_PARAMETER:
        case IN_KEY:
        case BEFORE_VALUE:
        case IN_VALUE: step = reply_step_parameters(r); break;
        case IN_CODE: step = reply_step_code(r); break;
        case FINISHED: return;
        default: step = reply_step_block(r); break;
        }
    }
}

static bool is_text_state(const struct reply *r) { return r->state == IN_CONTENT || r->state == IN_REASONING; }

/* Drops input that is decided. Offsets into it exist only outside of text. */
static void forget_decided(struct reply *r) {
    if (!is_text_state(r) || !r->at) return;
    memmove(r->in.data, r->in.data + r->at, r->in.length - r->at);
    r->in.length -= r->at;
    r->n_primed = r->n_primed > r->at ? r->n_primed - r->at : 0;
    r->at = 0;
}

enum { N_BUFFERS = 7 };

static struct buffer *buffer_at(struct reply *r, size_t i) {
    struct buffer *const all[N_BUFFERS] = {&r->in, &r->text, &r->name, &r->id, &r->key, &r->arguments, &r->begun_name};
    return all[i];
}

static bool check(struct reply *r, struct mx_error *err) {
    for (size_t i = 0; i < N_BUFFERS; i++) r->is_out_of_memory |= buffer_at(r, i)->failed;
    if (r->is_out_of_memory) return error_memory(err, "model reply");
    return !r->is_stopped || error_set(err, ERROR_CANCELLED, "the reply's reader stopped");
}

/* ---- the public functions ---- */

/* True when the text, but for white space at its end, ends with the marker, but for the same. */
static bool ends_with(const char *text, size_t length, const char *marker) {
    size_t n = strlen(marker);
    while (n && reply_is_space(marker[n - 1])) n--;
    while (length && reply_is_space(text[length - 1])) length--;
    return n && length >= n && !memcmp(text + length - n, marker, n);
}

static const struct reply_thought *opened_by(const struct reply_format *f, const struct reply_options *o) {
    if (o->start == REPLY_START_IN_REASONING) return f->thoughts[0];
    if (o->start == REPLY_START_IN_CONTENT || !o->prompt) return NULL;
    for (size_t i = 0; i < MAX_THOUGHTS && f->thoughts[i]; i++)
        if (ends_with(o->prompt, o->prompt_length, f->thoughts[i]->open)) return f->thoughts[i];
    return NULL;
}

struct reply *reply_create(const struct reply_options *o, reply_sink sink, void *context, struct mx_error *err) {
    struct reply *r = calloc(1, sizeof *r);
    if (!r) {
        error_memory(err, "model reply");
        return NULL;
    }
    r->format = o->format;
    r->tools.list = json_is_array(o->tools) ? o->tools : NULL;
    r->streams_arguments = o->streams_arguments;
    r->sink = sink;
    r->sink_context = context;
    for (size_t i = 0; i < N_BUFFERS; i++) buffer_reserve(buffer_at(r, i), 64); /* data is never NULL */
    collect_markers(r);
    const struct reply_thought *thought = opened_by(o->format, o);
    const char *primer = o->format->primer;
    if (thought) {
        reply_begin_reasoning(r, thought);
    } else if (o->format->messages && o->start == REPLY_START_BY_PROMPT) {
        reply_begin_message(r, o->prompt, o->prompt_length);
    } else if (o->format->messages && o->start == REPLY_START_IN_REASONING) {
        reply_begin_reasoning(r, NULL);
    } else if (primer && o->start != REPLY_START_IN_CONTENT &&
               (!o->prompt || ends_with(o->prompt, o->prompt_length, primer))) {
        buffer_puts(&r->in, primer);
        r->n_primed = r->in.length;
    }
    if (!check(r, err)) {
        reply_destroy(r);
        return NULL;
    }
    return r;
}

bool reply_push(struct reply *r, const char *text, size_t length, struct mx_error *err) {
    buffer_append(&r->in, text, length);
    if (!check(r, err)) return false;
    run(r);
    if (!is_text_state(r) && r->state != IN_HEADER && r->in.length - r->raw_start > MAX_UNDECIDED_BYTES) {
        reply_bad_call(r);
        r->at = r->in.length;
        reply_leave_block(r);
    }
    forget_decided(r);
    reply_flush_text(r, false);
    return check(r, err);
}

bool reply_finish(struct reply *r, enum reply_finish reason, struct mx_error *err) {
    r->is_finishing = true;
    r->is_cut_off = reason == REPLY_FINISH_LENGTH;
    run(r);
    if (!is_text_state(r) && r->state != FINISHED) reply_finish_block(r);
    r->state = FINISHED;
    end_text(r, r->text_kind == REPLY_CONTENT && !r->had_call_since_text);
    return check(r, err);
}

void reply_destroy(struct reply *r) {
    if (!r) return;
    for (size_t i = 0; i < N_BUFFERS; i++) buffer_free(buffer_at(r, i));
    arena_free(&r->queue_arena);
    free(r->queue);
    free(r);
}
