/* SPDX-License-Identifier: Apache-2.0 */
/* Formats in which a reply is a row of messages, each with a header that says who it is for:
 *
 *   gpt-oss     <|start|>assistant[ to=R]<|channel|>C[ to=R][ <|constrain|>json]<|message|>BODY<|end|>
 *   ATEM        <|start|>assistant to=R<|message|>BODY<|eom|>
 *
 * The first header began in the prompt. A body for a tool holds the call's arguments; one for the model itself
 * (channel analysis, recipient self) is reasoning; everything else is content. */
#include "text/reply_parser.h"

struct header {
    const char *recipient, *channel; /* NULL = none */
    size_t recipient_length, channel_length;
};

/* The end of a word at text[from ..): white space or a marker. */
static size_t word_end(const char *text, size_t from, size_t end) {
    while (from < end && !reply_is_space(text[from]) && text[from] != '<') from++;
    return from;
}

/* The last recipient and the last channel count: models write a stray channel first. */
static struct header read_header(const struct reply_messages *m, const char *text, size_t length) {
    struct header h = {0};
    size_t channel_length = m->channel ? strlen(m->channel) : 0;
    for (size_t i = 0; i < length; i++) {
        size_t from, to;
        if (channel_length && length - i >= channel_length && !memcmp(text + i, m->channel, channel_length)) {
            from = i + channel_length;
            to = word_end(text, from, length);
            h.channel = text + from;
            h.channel_length = to - from;
        } else if (length - i > 3 && !memcmp(text + i, "to=", 3) && i > 0 &&
                   (reply_is_space(text[i - 1]) || text[i - 1] == '>')) {
            from = i + 3;
            to = word_end(text, from, length);
            if (to - from == 9 && !memcmp(text + from, "assistant", 9)) continue;
            h.recipient = text + from;
            h.recipient_length = to - from;
        }
    }
    return h;
}

static bool is_word(const char *text, size_t length, const char *word) {
    return text && strlen(word) == length && !memcmp(text, word, length);
}

/* Recipients in other namespaces than functions are tools of the model's own. */
static bool names_a_tool(const struct reply *r, const struct header *h, const char **name, size_t *length) {
    static const char prefix[] = "functions.";
    if (!reply_tools_any(&r->tools) || !reply_tools_resolve(&r->tools, h->recipient, h->recipient_length, name, length))
        return false;
    size_t skipped = (size_t)(*name - h->recipient);
    return !skipped || (skipped == sizeof prefix - 1 && !memcmp(h->recipient, prefix, skipped));
}

/* Goes on with the body of the message whose header is text[0 .. length). */
static void begin_body(struct reply *r, const char *text, size_t length) {
    const struct reply_messages *m = r->format->messages;
    struct header h = read_header(m, text, length);
    const char *name;
    size_t name_length;
    if (is_word(h.recipient, h.recipient_length, "self")) {
        reply_begin_reasoning(r, NULL);
        return;
    }
    if (m->block && h.recipient && names_a_tool(r, &h, &name, &name_length)) {
        reply_set(r, &r->name, name, name_length);
        reply_clear(r, &r->id);
        reply_enter_arguments(r, m->block, m->block->calls[0]);
        return;
    }
    if (is_word(h.channel, h.channel_length, "analysis")) {
        reply_begin_reasoning(r, NULL);
        return;
    }
    r->wants_break = r->has_content;
    reply_begin_content(r, true);
}

/* Text without any markup where the first header should go on: MATCH_NO. */
static enum match goes_on_as_header(const struct reply *r) {
    const struct reply_messages *m = r->format->messages;
    size_t at = r->at;
    while (at < r->in.length && reply_is_space(r->in.data[at])) at++;
    const char *const starts[] = {"to=", m->start, m->channel, m->message, "<|constrain|>"};
    bool part = false;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        enum match match = reply_match(r, at, starts[i]);
        if (match == MATCH_YES) return match;
        part |= match == MATCH_PART;
    }
    return part ? MATCH_PART : MATCH_NO;
}

/* No header after all. The first one's text is content; of a later one the marker's first byte is, so that the rest is
 * looked at afresh. */
static enum step give_up(struct reply *r) {
    if (r->at == r->raw_start) reply_put_content(r, r->at, r->at + 1), r->at++;
    r->state = IN_CONTENT;
    return STEP_GO;
}

enum step reply_step_header(struct reply *r) {
    const struct reply_messages *m = r->format->messages;
    size_t end;
    if (r->n_primed && !r->header_is_sure) {
        enum match match = goes_on_as_header(r);
        if (match == MATCH_PART) return STEP_WAIT;
        if (match == MATCH_NO) return give_up(r);
        r->header_is_sure = true;
    }
    enum match match = reply_search(r, r->scanned, m->message, &end);
    r->scanned = end;
    if (end - r->raw_start > MAX_HEAD_BYTES) return give_up(r);
    if (match != MATCH_YES) return STEP_WAIT;
    r->at = end + strlen(m->message);
    begin_body(r, r->in.data + r->raw_start, end - r->raw_start);
    return STEP_GO;
}

void reply_finish_header(struct reply *r) {
    struct header h = read_header(r->format->messages, r->in.data + r->raw_start, r->in.length - r->raw_start);
    if (h.recipient) reply_put_content(r, r->raw_start, r->in.length); /* a call that was cut off */
}

static const char *last_of(const char *text, size_t length, const char *marker) {
    size_t n = strlen(marker);
    for (size_t i = length; i-- > 0;)
        if (length - i >= n && !memcmp(text + i, marker, n)) return text + i;
    return NULL;
}

void reply_begin_message(struct reply *r, const char *prompt, size_t length) {
    const struct reply_messages *m = r->format->messages;
    const char *start = prompt ? last_of(prompt, length, m->start) : NULL;
    size_t n = start ? length - (size_t)(start - prompt) : 0;
    const char *body = n ? last_of(start, n, m->message) : NULL;
    if (body) {
        size_t body_length = n - (size_t)(body - start);
        for (size_t i = 0; i < MAX_ENDS && m->ends[i]; i++)
            if (last_of(body, body_length, m->ends[i])) n = 0; /* that message is over */
    }
    if (body && n) {
        begin_body(r, start, (size_t)(body - start));
        return;
    }
    if (n)
        buffer_append(&r->in, start, n);
    else
        buffer_puts(&r->in, m->start), buffer_puts(&r->in, "assistant");
    r->at = r->n_primed = r->in.length;
    r->raw_start = r->scanned = 0;
    r->header_is_sure = n && m->channel && last_of(start, n, m->channel);
    r->state = IN_HEADER;
}
