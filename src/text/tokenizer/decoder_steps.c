/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/decoder_steps.h"

#include "text/tokenizer/bytelevel.h"

#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

static const struct decoder_step *step_at(const struct decoding *d, size_t at) { return &d->decoder->steps[at]; }

static bool out_of_memory(struct decoding *d) { return error_memory(d->err, "decoded text"); }

/* Counts tokens as they begin. */
static void enter(struct decode_state *state, bool ends) {
    if (!state->in_token) state->n_tokens++;
    state->in_token = !ends;
}

/* For steps that need whole tokens: true when *text holds one. */
static bool collect(struct decode_state *state, const char **text, size_t *length, bool ends) {
    bool is_whole = !state->in_token && ends;
    if (!state->in_token) buffer_clear(&state->held);
    enter(state, ends);
    if (is_whole) return true;
    buffer_append(&state->held, *text, *length);
    *text = state->held.data ? state->held.data : "";
    *length = state->held.length;
    return ends;
}

static bool pass(struct decoding *d, size_t at, const struct buffer *work, bool ends) {
    if (work->failed) return out_of_memory(d);
    return decoding_feed(d, at + 1, work->data ? work->data : "", work->length, ends);
}

/* Puts `with` in the place of every `what`; an empty `what` lies between all characters, and at both ends. */
static void replace_all(struct buffer *out, const char *text, size_t length, const char *what, size_t n,
                        const char *with, size_t with_length) {
    size_t done = 0;
    while (n && done < length) {
        const char *found = memmem(text + done, length - done, what, n);
        if (!found) break;
        buffer_append(out, text + done, (size_t)(found - text) - done);
        buffer_append(out, with, with_length);
        done = (size_t)(found - text) + n;
    }
    while (!n && done < length) {
        uint32_t c;
        size_t used = utf8_decode(text + done, length - done, &c);
        buffer_append(out, with, with_length);
        buffer_append(out, text + done, used ? used : 1);
        done += used ? used : 1;
    }
    buffer_append(out, text + done, length - done);
    if (!n) buffer_append(out, with, with_length);
}

/* ---- bytes ---- */

/* Moves what is settled from bytes to text: characters, and U+FFFD for what can no longer become one. */
static void settle_bytes(struct buffer *bytes, struct buffer *text, bool is_last) {
    size_t tail = is_last ? 0 : utf8_incomplete_tail(bytes->data, bytes->length), end = bytes->length - tail;
    for (size_t i = 0; i < end;) {
        size_t n = utf8_valid_prefix(bytes->data + i, end - i);
        buffer_append(text, bytes->data + i, n);
        i += n;
        if (i >= end) break;
        bool valid;
        i += utf8_next_maximal(bytes->data + i, end - i, &valid);
        buffer_puts(text, REPLACEMENT);
    }
    memmove(bytes->data, bytes->data + end, tail);
    bytes->length = tail;
}

static bool feed_bytes(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    struct decode_state *state = &d->states[at];
    if (!collect(state, &text, &length, ends)) return true;
    if (!buffer_reserve(&state->bytes, length)) return out_of_memory(d);
    bool ok = false;
    if (step_at(d, at)->kind == DECODE_BYTE_LEVEL)
        state->bytes.length += bytelevel_decode(text, length, state->bytes.data + state->bytes.length, &ok);
    if (!ok) buffer_append(&state->bytes, text, length);
    buffer_clear(&state->work);
    if (state->bytes.length) settle_bytes(&state->bytes, &state->work, false);
    return pass(d, at, &state->work, false);
}

static bool finish_bytes(struct decoding *d, size_t at) {
    struct decode_state *state = &d->states[at];
    buffer_clear(&state->work);
    if (state->bytes.length) settle_bytes(&state->bytes, &state->work, true);
    return pass(d, at, &state->work, true);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The byte that <0xXX> names; -1 = another token. */
static int byte_of_token(const char *text, size_t length) {
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = text[3] == '+' ? 0 : hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* A run of byte tokens ends: text when all of it is, else one U+FFFD for each byte, as tokens of their own. */
static bool end_run(struct decoding *d, size_t at) {
    struct decode_state *state = &d->states[at];
    size_t n = state->bytes.length, passed = state->n_passed;
    if (!n) return true;
    bool is_valid = utf8_valid_prefix(state->bytes.data, n) == n;
    state->n_passed = 0;
    state->is_doubtful = false;
    if (is_valid && !decoding_feed(d, at + 1, state->bytes.data + passed, n - passed, true)) return false;
    if (!is_valid && passed && !decoding_feed(d, at + 1, "", 0, true)) return false;
    for (size_t i = passed; i < n && !is_valid; i++)
        if (!decoding_feed(d, at + 1, REPLACEMENT, 3, true)) return false;
    buffer_clear(&state->bytes);
    return true;
}

static bool feed_byte_fallback(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    struct decode_state *state = &d->states[at];
    if (!collect(state, &text, &length, ends)) return true;
    int byte = byte_of_token(text, length);
    if (byte < 0) return end_run(d, at) && decoding_feed(d, at + 1, text, length, true);
    if (!buffer_putc(&state->bytes, (char)byte)) return out_of_memory(d);
    if (!d->eager_for || state->is_doubtful) return true;
    const char *character = state->bytes.data + state->n_passed;
    size_t n = state->bytes.length - state->n_passed;
    uint32_t id;
    if (utf8_valid_prefix(character, n) < n) return true;
    bool is_likely = n > 1 || *character == '\n' || *character == '\t' || *character == '\r';
    state->is_doubtful = !is_likely || vocab_find(d->eager_for, character, n, &id);
    if (state->is_doubtful) return true;
    state->n_passed += n;
    return decoding_feed(d, at + 1, character, n, false);
}

/* ---- steps on whole tokens ---- */

static void clean_up(struct buffer *text, struct buffer *spare) {
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!text->length || !memmem(text->data, text->length, pairs[i][0], strlen(pairs[i][0]))) continue;
        buffer_clear(spare);
        replace_all(spare, text->data, text->length, pairs[i][0], strlen(pairs[i][0]), pairs[i][1],
                    strlen(pairs[i][1]));
        struct buffer swap = *text;
        *text = *spare;
        *spare = swap;
    }
}

static bool feed_wordpiece(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    if (!collect(state, &text, &length, ends)) return true;
    buffer_clear(&state->work);
    if (state->n_tokens > 1) {
        bool continues = length >= step->length && !memcmp(text, step->text, step->length);
        if (!continues)
            buffer_putc(&state->work, ' ');
        else
            text += step->length, length -= step->length;
    }
    buffer_append(&state->work, text, length);
    if (step->cleans_up) clean_up(&state->work, &state->bytes);
    return pass(d, at, &state->work, true);
}

static bool feed_ctc(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    struct buffer *before = &state->bytes; /* the token before */
    bool was_token = state->n_tokens > 0;
    if (!collect(state, &text, &length, ends)) return true;
    if (was_token && before->length == length && (!length || !memcmp(before->data, text, length))) return true;
    buffer_clear(before);
    buffer_append(before, text, length);
    struct buffer spare = {0};
    buffer_clear(&state->work);
    replace_all(&state->work, text, length, step->text, step->length, "", 0);
    if (step->cleans_up) {
        clean_up(&state->work, &spare);
        buffer_clear(&spare);
        replace_all(&spare, state->work.data ? state->work.data : "", state->work.length, step->content,
                    step->content_length, " ", 1);
        struct buffer swap = state->work;
        state->work = spare;
        spare = swap;
    }
    bool failed = before->failed || spare.failed;
    buffer_free(&spare);
    if (failed) return out_of_memory(d);
    return !state->work.length || pass(d, at, &state->work, true);
}

static bool feed_regex(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    if (!collect(state, &text, &length, ends)) return true;
    size_t from = 0, done = 0, last_end = SIZE_MAX;
    buffer_clear(&state->work);
    if (!regex_scratch_begin(&d->scratch, length, d->err)) return false;
    while (length && from <= length) {
        size_t start, end;
        enum regex_result result = regex_find(step->regex, &d->scratch, text, length, from, &start, &end, d->err);
        if (result == REGEX_ERROR) return false;
        if (result == REGEX_NONE) break;
        if (start == end && end == last_end) { /* no empty match right after a match */
            if (from >= length) break;
            uint32_t c;
            from += utf8_decode(text + from, length - from, &c);
            continue;
        }
        buffer_append(&state->work, text + done, start - done);
        buffer_append(&state->work, step->content, step->content_length);
        done = from = last_end = end;
    }
    buffer_append(&state->work, text + done, length - done);
    return pass(d, at, &state->work, true);
}

/* ---- steps that keep back little ---- */

/* The suffix of a word becomes a space, but none at the end of the text: a token with a suffix waits for the next. */
static bool release_word(struct decoding *d, size_t at, const char *space) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    if (!state->bytes.length) return true;
    buffer_clear(&state->work);
    replace_all(&state->work, state->bytes.data, state->bytes.length, step->text, step->length, space, strlen(space));
    buffer_clear(&state->bytes);
    return pass(d, at, &state->work, true);
}

static bool feed_bpe(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    if (!collect(state, &text, &length, ends)) return true;
    if (!release_word(d, at, " ")) return false;
    const char *found = length ? memmem(text, length, step->text, step->length) : NULL;
    if (!found) return decoding_feed(d, at + 1, text, length, true);
    size_t head = at + 1 == d->decoder->n_steps && step->length ? (size_t)(found - text) : 0;
    if (head && !decoding_feed(d, at + 1, text, head, false)) return false;
    return buffer_append(&state->bytes, text + head, length - head) || out_of_memory(d);
}

static bool feed_metaspace(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    char mark[4];
    size_t n = utf8_encode(step->character, mark);
    enter(state, ends);
    buffer_clear(&state->work);
    bool drops = step->drops_first && state->n_tokens == 1;
    replace_all(&state->work, text, length, mark, n, " ", drops ? 0 : 1);
    return pass(d, at, &state->work, ends);
}

static bool feed_strip(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    char content[4];
    size_t n_content = utf8_encode(step->character, content);
    if (!state->in_token) {
        state->at_edge = true;
        state->n_stripped = state->n_waiting = 0;
    }
    enter(state, ends);
    buffer_clear(&state->work);
    for (size_t i = 0; i < length;) {
        uint32_t c;
        size_t n = utf8_decode(text + i, length - i, &c);
        if (!n) break;
        const char *character = text + i;
        i += n;
        if (c == step->character && state->at_edge && state->n_stripped < step->start) {
            state->n_stripped++;
            continue;
        }
        state->at_edge = false;
        if (c == step->character && state->n_waiting < step->stop) {
            state->n_waiting++;
            continue;
        }
        for (; c != step->character && state->n_waiting; state->n_waiting--)
            buffer_append(&state->work, content, n_content);
        buffer_append(&state->work, character, n);
    }
    if (ends) state->n_waiting = 0;
    return pass(d, at, &state->work, ends);
}

/* How many bytes at the end of text could begin `what`. */
static size_t beginning_at_end(const char *text, size_t length, const char *what, size_t n) {
    for (size_t k = length < n - 1 ? length : n - 1; k; k--)
        if (!memcmp(text + length - k, what, k)) return k;
    return 0;
}

static bool feed_replace(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    if (step->regex) return feed_regex(d, at, text, length, ends);
    if (!state->in_token) buffer_clear(&state->held);
    bool is_whole = !state->in_token && ends;
    enter(state, ends);
    if (!is_whole) {
        buffer_append(&state->held, text, length);
        text = state->held.data ? state->held.data : "";
        length = state->held.length;
    }
    buffer_clear(&state->work);
    size_t done = 0;
    for (const char *found; done < length && (found = memmem(text + done, length - done, step->text, step->length));) {
        buffer_append(&state->work, text + done, (size_t)(found - text) - done);
        buffer_append(&state->work, step->content, step->content_length);
        done = (size_t)(found - text) + step->length;
    }
    size_t kept = ends ? 0 : beginning_at_end(text + done, length - done, step->text, step->length);
    buffer_append(&state->work, text + done, length - done - kept);
    if (state->held.failed) return out_of_memory(d);
    if (!is_whole) {
        memmove(state->held.data, state->held.data + length - kept, kept);
        state->held.length = kept;
    }
    return pass(d, at, &state->work, ends);
}

/* ---- SentencePiece ---- */

/* Passes on the characters of a run of bytes. What is none is U+FFFD, byte by byte. */
static bool pass_bytes(struct decoding *d, size_t at, bool is_last) {
    struct decode_state *state = &d->states[at];
    struct buffer *bytes = &state->bytes;
    if (!bytes->length) return true;
    size_t end = bytes->length - (is_last ? 0 : utf8_incomplete_tail(bytes->data, bytes->length));
    buffer_clear(&state->work);
    for (size_t i = 0; i < end;) {
        uint32_t c;
        size_t n = utf8_decode(bytes->data + i, end - i, &c);
        if (n)
            buffer_append(&state->work, bytes->data + i, n);
        else
            buffer_puts(&state->work, REPLACEMENT);
        i += n ? n : 1;
    }
    memmove(bytes->data, bytes->data + end, bytes->length - end);
    bytes->length -= end;
    state->has_text = state->has_text || state->work.length;
    return pass(d, at, &state->work, false);
}

/* Spaces in front of the text are dropped: all of them, or one. */
static bool feed_sentencepiece(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    static const char space[] = "\xe2\x96\x81";
    const struct decoder_step *step = step_at(d, at);
    struct decode_state *state = &d->states[at];
    if (!collect(state, &text, &length, ends)) return true;
    if (d->nature == NATURE_BYTE) {
        int byte = byte_of_token(text, length);
        return (buffer_putc(&state->bytes, (char)byte) || out_of_memory(d)) && pass_bytes(d, at, false);
    }
    if (!pass_bytes(d, at, true)) return false;
    if (state->at_edge || state->has_text) state->is_begun = true;
    state->at_edge = false;
    if (d->nature == NATURE_SILENT) return true;
    buffer_clear(&state->work);
    if (d->nature == NATURE_UNKNOWN) {
        buffer_append(&state->work, step->content, step->content_length);
    } else {
        if (step->drops_first && !state->is_begun && length >= 3 && !memcmp(text, space, 3)) {
            text += 3, length -= 3;
            state->at_edge = !step->drops_all;
        }
        replace_all(&state->work, text, length, space, 3, " ", 1);
    }
    state->has_text = state->has_text || state->work.length;
    return pass(d, at, &state->work, false);
}

static bool feed_join(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    struct decode_state *state = &d->states[at];
    bool is_new = !state->in_token;
    enter(state, ends);
    if (is_new && state->n_tokens > 1 && !decoding_feed(d, at + 1, " ", 1, false)) return false;
    return decoding_feed(d, at + 1, text, length, ends);
}

static bool feed_fuse(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    (void)ends;
    return decoding_feed(d, at + 1, text, length, false);
}

/* ---- the driver ---- */

/* A recursion over the steps, of which there are few. */
bool decoding_feed(struct decoding *d, size_t at, const char *text, size_t length, bool ends) {
    static bool (*const feeds[])(struct decoding *, size_t, const char *, size_t, bool) = {
        [DECODE_BYTE_FALLBACK] = feed_byte_fallback,
        [DECODE_BYTE_LEVEL] = feed_bytes,
        [DECODE_BYTES] = feed_bytes,
        [DECODE_WORDPIECE] = feed_wordpiece,
        [DECODE_METASPACE] = feed_metaspace,
        [DECODE_BPE] = feed_bpe,
        [DECODE_CTC] = feed_ctc,
        [DECODE_FUSE] = feed_fuse,
        [DECODE_STRIP] = feed_strip,
        [DECODE_REPLACE] = feed_replace,
        [DECODE_JOIN] = feed_join,
        [DECODE_SENTENCEPIECE] = feed_sentencepiece,
    };
    if (at == d->decoder->n_steps) return !length || buffer_append(d->out, text, length) || out_of_memory(d);
    return feeds[step_at(d, at)->kind](d, at, text, length, ends);
}

bool decoding_finish_step(struct decoding *d, size_t at) {
    switch (step_at(d, at)->kind) {
    case DECODE_BYTE_FALLBACK: return end_run(d, at);
    case DECODE_BYTE_LEVEL:
    case DECODE_BYTES: return finish_bytes(d, at);
    case DECODE_BPE: return release_word(d, at, "");
    case DECODE_SENTENCEPIECE: return pass_bytes(d, at, true);
    case DECODE_FUSE: return decoding_feed(d, at + 1, "", 0, true);
    default: return true;
    }
}
