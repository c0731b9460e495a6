/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that single tokens stand for in the middle of a text: what the decoder makes of each by itself. */
#include "text/tokenizer/core.h"

#include "text/tokenizer/bytelevel.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

#define ESCAPED_SPACE "\xe2\x96\x81"

enum { MAX_TOKEN_BYTES = 65536 }; /* a token that a hostile decoder makes longer stays as it is spelled */

struct token_bytes {
    struct buffer pool;
    size_t *ends; /* of each id's bytes in the pool; n_ids + 1 of them, the first is 0 */
};

void token_bytes_destroy(struct token_bytes *bytes) {
    if (!bytes) return;
    buffer_free(&bytes->pool);
    free(bytes->ends);
    free(bytes);
}

static void replace(struct buffer *text, struct buffer *spare, const char *what, size_t n, const char *with,
                    size_t with_length) {
    size_t done = 0;
    buffer_clear(spare);
    while (n && done < text->length && spare->length < MAX_TOKEN_BYTES) {
        const char *found = memmem(text->data + done, text->length - done, what, n);
        if (!found) break;
        buffer_append(spare, text->data + done, (size_t)(found - text->data) - done);
        buffer_append(spare, with, with_length);
        done = (size_t)(found - text->data) + n;
    }
    if (!done || spare->length >= MAX_TOKEN_BYTES) return;
    buffer_append(spare, text->data + done, text->length - done);
    struct buffer swap = *text;
    *text = *spare;
    *spare = swap;
}

/* <0xXX> */
static void make_byte(struct buffer *text) {
    static const char digits[] = "0123456789ABCDEF";
    if (text->length != 6 || memcmp(text->data, "<0x", 3) != 0 || text->data[5] != '>') return;
    const char *high = memchr(digits, text->data[3], 16), *low = memchr(digits, text->data[4], 16);
    if (!high || !low) return;
    text->data[0] = (char)((high - digits) << 4 | (low - digits));
    text->length = 1;
}

static void put_in_front(struct buffer *text, struct buffer *spare, const char *what) {
    buffer_clear(spare);
    buffer_puts(spare, what);
    buffer_append(spare, text->data ? text->data : "", text->length);
    struct buffer swap = *text;
    *text = *spare;
    *spare = swap;
}

/* A word begins with a space, but for one that continues. */
static void begin_word(const struct decoder_step *step, struct buffer *text, struct buffer *spare) {
    if (text->length < step->length || memcmp(text->data, step->text, step->length) != 0) {
        put_in_front(text, spare, " ");
        return;
    }
    text->length -= step->length;
    memmove(text->data, text->data + step->length, text->length);
}

static void apply_bytelevel(struct buffer *text) {
    bool ok;
    size_t n = bytelevel_decode(text->data, text->length, text->data, &ok);
    if (ok) text->length = n;
}

static void apply_step(const struct decoder_step *step, struct buffer *text, struct buffer *spare) {
    char mark[4];
    if (!text->length) return;
    switch (step->kind) {
    case DECODE_BYTE_LEVEL: apply_bytelevel(text); break;
    case DECODE_BYTE_FALLBACK: make_byte(text); break;
    case DECODE_METASPACE: replace(text, spare, mark, utf8_encode(step->character, mark), " ", 1); break;
    case DECODE_REPLACE:
        if (step->text) replace(text, spare, step->text, step->length, step->content, step->content_length);
        break;
    case DECODE_WORDPIECE: begin_word(step, text, spare); break;
    case DECODE_BPE: replace(text, spare, step->text, step->length, " ", 1); break;
    case DECODE_JOIN: put_in_front(text, spare, " "); break;
    default: break; /* works on the ends of a text, or on neighbours */
    }
}

static void apply_sentencepiece(const struct tokenizer *t, uint32_t id, struct buffer *text, struct buffer *spare) {
    const struct decoder_step *step = &t->decoder.steps[0];
    switch (id < t->sentencepiece->n_pieces ? t->sentencepiece->types[id] : PIECE_NORMAL) {
    case PIECE_BYTE: make_byte(text); break;
    case PIECE_UNKNOWN:
        buffer_clear(text);
        buffer_append(text, step->content, step->content_length);
        break;
    default: replace(text, spare, ESCAPED_SPACE, 3, " ", 1); break;
    }
}

static void decode_alone(const struct tokenizer *t, uint32_t id, struct buffer *text, struct buffer *spare) {
    if (tokenizer_is_special(t, id)) return;
    if (t->sentencepiece && t->decoder.n_steps) {
        apply_sentencepiece(t, id, text, spare);
        return;
    }
    for (size_t i = 0; i < t->decoder.n_steps; i++) apply_step(&t->decoder.steps[i], text, spare);
}

static struct token_bytes *make_token_bytes(const struct tokenizer *t) {
    struct token_bytes *bytes = calloc(1, sizeof *bytes);
    struct buffer text = {0}, spare = {0};
    if (bytes) bytes->ends = array_calloc(t->n_ids + 1, sizeof *bytes->ends);
    bool ok = bytes && bytes->ends;
    for (uint32_t id = 0; id < t->n_ids && ok; id++) {
        const char *spelled;
        size_t length;
        buffer_clear(&text);
        if (tokenizer_token_text(t, id, &spelled, &length)) {
            buffer_append(&text, spelled, length);
            decode_alone(t, id, &text, &spare);
        }
        ok = (!text.length || buffer_append(&bytes->pool, text.data, text.length)) && !text.failed && !spare.failed;
        bytes->ends[id + 1] = bytes->pool.length;
    }
    buffer_free(&text);
    buffer_free(&spare);
    if (ok) return bytes;
    token_bytes_destroy(bytes);
    return NULL;
}

bool tokenizer_token_bytes(const struct tokenizer *t, uint32_t id, const char **out, size_t *length) {
    struct tokenizer *owner = (struct tokenizer *)(uintptr_t)t; /* the lock guards what changes */
    struct token_bytes *bytes = atomic_load_explicit(&owner->token_bytes, memory_order_acquire);
    if (!bytes) {
        pthread_mutex_lock(&owner->lock);
        bytes = atomic_load_explicit(&owner->token_bytes, memory_order_acquire);
        if (!bytes) bytes = make_token_bytes(t);
        atomic_store_explicit(&owner->token_bytes, bytes, memory_order_release);
        pthread_mutex_unlock(&owner->lock);
    }
    const char *text;
    if (!bytes || !tokenizer_token_text(t, id, &text, length)) return false;
    *out = bytes->pool.data + bytes->ends[id];
    *length = bytes->ends[id + 1] - bytes->ends[id];
    return true;
}
