/* SPDX-License-Identifier: Apache-2.0 */
/* From ids to text: all at once, or one at a time. */
#include "text/tokenizer/core.h"

#include "base/memory.h"

#include <string.h>

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
