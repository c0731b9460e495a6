/* SPDX-License-Identifier: Apache-2.0 */
/* From ids to text: all at once, one at a time, and the bytes of single tokens. */
#include "text/tokenizer/core.h"

#include "text/tokenizer/bytelevel.h"

#include "base/memory.h"

#include <string.h>

/* ---- streams ---- */

struct detokenizer {
    const struct tokenizer *tokenizer;
    bool skips_special;
    struct decoding decoding;
};

/* Only SentencePiece's step asks. */
static enum token_nature nature_of(const struct tokenizer *t, uint32_t id) {
    const struct sentencepiece *sp = t->sentencepiece;
    if (!sp || id >= sp->n_pieces || tokenizer_is_added(t, id)) return NATURE_NORMAL;
    switch (sp->types[id]) {
    case PIECE_BYTE: return NATURE_BYTE;
    case PIECE_CONTROL: return NATURE_SILENT;
    case PIECE_UNKNOWN: return NATURE_UNKNOWN;
    default: return NATURE_NORMAL;
    }
}

static bool push_id(const struct tokenizer *t, struct decoding *decoding, uint32_t id, bool skips_special,
                    struct buffer *out, struct mx_error *err) {
    const char *text;
    size_t length;
    if (!tokenizer_token_text(t, id, &text, &length) || (skips_special && tokenizer_is_special(t, id))) return true;
    return decoding_push(decoding, text, length, nature_of(t, id), out, err);
}

struct detokenizer *detokenizer_create(const struct tokenizer *tokenizer, bool skip_special, struct mx_error *err) {
    struct detokenizer *d = calloc(1, sizeof *d);
    if (!d) {
        error_memory(err, "detokenizer");
        return NULL;
    }
    d->tokenizer = tokenizer;
    d->skips_special = skip_special;
    if (decoding_begin(&d->decoding, &tokenizer->decoder, &tokenizer->vocab, err)) return d;
    detokenizer_destroy(d);
    return NULL;
}

bool detokenizer_push(struct detokenizer *d, uint32_t id, struct buffer *out, struct mx_error *err) {
    return push_id(d->tokenizer, &d->decoding, id, d->skips_special, out, err);
}

bool detokenizer_finish(struct detokenizer *d, struct buffer *out, struct mx_error *err) {
    return decoding_finish(&d->decoding, out, err);
}

void detokenizer_destroy(struct detokenizer *d) {
    if (!d) return;
    decoding_free(&d->decoding);
    free(d);
}

bool tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t n, bool skip_special, struct buffer *out,
                      struct mx_error *err) {
    struct decoding decoding;
    bool ok = decoding_begin(&decoding, &t->decoder, NULL, err);
    for (size_t i = 0; i < n && ok; i++) ok = push_id(t, &decoding, ids[i], skip_special, out, err);
    ok = ok && decoding_finish(&decoding, out, err);
    decoding_free(&decoding);
    return ok;
}

/* ---- bytes of tokens ---- */

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

/* What a step makes of a token in the middle of a text. */
static void apply_step(const struct decoder_step *step, struct buffer *text, struct buffer *spare) {
    (void)spare;
    bool ok;
    switch (step->kind) {
    case DECODE_BYTE_LEVEL:
        if (text->length) {
            size_t n = bytelevel_decode(text->data, text->length, text->data, &ok);
            if (ok) text->length = n;
        }
        break;
    default: break;
    }
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
            for (size_t i = 0; i < t->decoder.n_steps && !tokenizer_is_added(t, id); i++)
                apply_step(&t->decoder.steps[i], &text, &spare);
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
