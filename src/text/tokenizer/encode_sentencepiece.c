/* SPDX-License-Identifier: Apache-2.0 */
/* From text to pieces, with a SentencePiece model: the text is normalized as a whole, then cut. */
#include "text/tokenizer/core.h"

#include "base/utf8.h"

#include <string.h>

/* One text on its way. */
struct cut {
    const struct tokenizer *t;
    struct encoder *e;
    const char *text; /* normalized */
    size_t length;
    struct mx_error *err;
};

static bool is_unknown(const struct cut *cut, const struct sink *sink, size_t i) {
    return sink->ids[i] == cut->t->sentencepiece->unk_id;
}

/* A piece of the text that is a token or unknown; neighbouring unknown ones are one token, or bytes. */
static bool add_piece(const struct cut *cut, size_t start, size_t end) {
    const struct sentencepiece *sp = cut->t->sentencepiece;
    struct sink *sink = &cut->e->sink;
    uint32_t id;
    if (vocab_find(&cut->t->vocab, cut->text + start, end - start, &id)) {
        sink_add(sink, id, start, end);
    } else if (sp->byte_fallback) {
        for (size_t i = start; i < end; i++)
            sink_add(sink, cut->t->bpe.byte_ids[(unsigned char)cut->text[i]], i, i + 1);
    } else if (sink->count && start && is_unknown(cut, sink, sink->count - 1) && !cut->e->sink_ends_known) {
        if (sink->is_tracked) sink->ranges[sink->count - 1].end = (uint32_t)end;
    } else {
        sink_add(sink, (uint32_t)sp->unk_id, start, end);
    }
    cut->e->sink_ends_known = false;
    return !sink->failed || error_memory(cut->err, "tokens");
}

static bool cut_characters(const struct cut *cut) {
    uint32_t id;
    for (size_t at = 0, end; at < cut->length; at = end) {
        end = sentencepiece_next(cut->t->sentencepiece, cut->text, cut->length, at, &id);
        if (!add_piece(cut, at, end)) return false;
    }
    return true;
}

/* A word begins at each escaped space. */
static bool cut_words(const struct cut *cut) {
    for (size_t at = 0, end; at < cut->length; at = end) {
        const char *next =
            at + 1 < cut->length ? memmem(cut->text + at + 1, cut->length - at - 1, "\xe2\x96\x81", 3) : NULL;
        end = next ? (size_t)(next - cut->text) : cut->length;
        if (!add_piece(cut, at, end)) return false;
    }
    return true;
}

/* Ranges of a stretch are made those of the text. */
static bool merge_stretch(const struct cut *cut, size_t start, size_t end) {
    struct sink *sink = &cut->e->sink;
    size_t first = sink->count;
    if (!bpe_encode(&cut->t->bpe, &cut->e->bpe, cut->text + start, end - start, sink, cut->err)) return false;
    for (size_t i = first; i < sink->count && sink->is_tracked; i++) {
        sink->ranges[i].start += (uint32_t)start;
        sink->ranges[i].end += (uint32_t)start;
    }
    return true;
}

/* User-defined pieces take no part in merges. */
static bool cut_by_merges(const struct cut *cut) {
    const struct sentencepiece *sp = cut->t->sentencepiece;
    size_t stretch = 0;
    uint32_t id;
    for (size_t at = 0, end; sp->user_defined.n_nodes && at < cut->length; at = end) {
        end = sentencepiece_next(sp, cut->text, cut->length, at, &id);
        if (id == TRIE_NONE) continue;
        if (!merge_stretch(cut, stretch, at)) return false;
        sink_add(&cut->e->sink, id, at, end);
        stretch = end;
    }
    if (cut->e->sink.failed) return error_memory(cut->err, "tokens");
    return merge_stretch(cut, stretch, cut->length);
}

static bool cut_text(const struct cut *cut) {
    const struct tokenizer *t = cut->t;
    switch (t->sentencepiece->kind) {
    case SENTENCEPIECE_UNIGRAM:
        return unigram_encode(&t->unigram, &cut->e->unigram, NULL, cut->text, cut->length, &cut->e->sink, cut->err);
    case SENTENCEPIECE_BPE: return cut_by_merges(cut);
    case SENTENCEPIECE_WORD: return cut_words(cut);
    case SENTENCEPIECE_CHAR: break;
    }
    return cut_characters(cut);
}

/* The last byte of an unknown character stands for the character, the others for nothing. */
static void narrow_byte(const struct cut *cut, struct origin *range) {
    size_t start = range->start, end = range->end;
    while (start && ((unsigned char)cut->text[start] & 0xc0) == 0x80) start--;
    bool is_last = end >= cut->length || ((unsigned char)cut->text[end] & 0xc0) != 0x80;
    *range = (struct origin){(uint32_t)start, is_last ? (uint32_t)end : (uint32_t)start};
}

bool encoder_sentencepiece(const struct tokenizer *t, struct encoder *e, const char *text, size_t length,
                           bool is_tracked, struct mx_error *err) {
    struct sentencepiece_text *normal = &e->normal;
    size_t first = e->sink.count;
    normal->is_tracked = is_tracked;
    if (!sentencepiece_normalize(t->sentencepiece, text, length, normal, err)) return false;
    const struct cut cut = {.t = t, .e = e, .text = normal->text, .length = normal->length, .err = err};
    e->sink_ends_known = true;
    if (!cut_text(&cut)) return false;
    for (size_t i = first; i < e->sink.count && is_tracked; i++)
        if (t->sentencepiece->types[e->sink.ids[i]] == PIECE_BYTE) narrow_byte(&cut, &e->sink.ranges[i]);
    return true;
}
