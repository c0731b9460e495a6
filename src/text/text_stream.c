/* SPDX-License-Identifier: Apache-2.0 */
#include "text/text_stream.h"

#include <string.h>

bool text_stream_init(struct text_stream *s, const struct tokenizer *tokenizer, const struct reply_format *format,
                      const struct stop_string *stops, size_t n_stops, struct mx_error *err) {
    *s = (struct text_stream){.tokenizer = tokenizer, .format = format, .stops = stops, .n_stops = n_stops};
    s->detokenizer = detokenizer_create(tokenizer, false, err);
    return s->detokenizer != NULL;
}

void text_stream_free(struct text_stream *s) {
    if (s->detokenizer) detokenizer_destroy(s->detokenizer);
    buffer_free(&s->pending);
    buffer_free(&s->out);
    *s = (struct text_stream){0};
}

/* The earliest stop string in pending; of several at one place the first of the list. */
static bool find_stop(const struct text_stream *s, size_t *at, size_t *index) {
    bool found = false;
    for (size_t i = 0; i < s->n_stops; i++) {
        if (!s->stops[i].length || s->stops[i].length > s->pending.length) continue;
        const char *hit = memmem(s->pending.data, s->pending.length, s->stops[i].text, s->stops[i].length);
        if (!hit || (found && (size_t)(hit - s->pending.data) >= *at)) continue;
        found = true;
        *at = (size_t)(hit - s->pending.data);
        *index = i;
    }
    return found;
}

/* Bytes at the end of pending that could be the beginning of a stop string. */
static size_t held_back(const struct text_stream *s) {
    size_t most = 0;
    for (size_t i = 0; i < s->n_stops; i++) {
        size_t n = s->stops[i].length ? s->stops[i].length - 1 : 0;
        if (n > s->pending.length) n = s->pending.length;
        for (; n > most; n--)
            if (!memcmp(s->pending.data + s->pending.length - n, s->stops[i].text, n)) most = n;
    }
    return most;
}

/* Moves the first n bytes of pending to out. */
static bool give_out(struct text_stream *s, size_t n) {
    if (!n) return true;
    if (!buffer_append(&s->out, s->pending.data, n)) return false;
    memmove(s->pending.data, s->pending.data + n, s->pending.length - n + 1);
    s->pending.length -= n;
    return true;
}

static bool look(struct text_stream *s, bool is_end, struct mx_error *err) {
    size_t at = 0;
    if (s->pending.failed) return error_memory(err, "generated text");
    if (find_stop(s, &at, &s->stop_index)) {
        s->is_stopped = true;
        bool ok = give_out(s, at);
        buffer_clear(&s->pending);
        return ok || error_memory(err, "generated text");
    }
    return give_out(s, s->pending.length - (is_end ? 0 : held_back(s))) || error_memory(err, "generated text");
}

static bool is_hidden(const struct text_stream *s, uint32_t token) {
    const char *text;
    size_t length;
    if (!tokenizer_is_special(s->tokenizer, token)) return false;
    return !s->format || !tokenizer_token_text(s->tokenizer, token, &text, &length) ||
           !reply_format_has_marker(s->format, text, length);
}

bool text_stream_push(struct text_stream *s, uint32_t token, struct mx_error *err) {
    buffer_clear(&s->out);
    if (s->is_stopped || is_hidden(s, token)) return true;
    return detokenizer_push(s->detokenizer, token, &s->pending, err) && look(s, false, err);
}

bool text_stream_finish(struct text_stream *s, struct mx_error *err) {
    buffer_clear(&s->out);
    if (s->is_stopped) return true;
    return detokenizer_finish(s->detokenizer, &s->pending, err) && look(s, true, err);
}
