/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a text through a tokenizer: added tokens are found in the raw text; each section between them is normalized,
 * searched for normalized added tokens, cut into pieces, and given to the model piece by piece. */
#include "text/tokenizer/core.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

#define MAX_TEXT_BYTES ((size_t)1 << 30)

/* The input and output of one encoding. */
struct encoding {
    const struct tokenizer *t;
    struct encoder *e;
    struct token_list *out;
    unsigned flags;
    bool has_spans;  /* the caller wants offsets */
    bool is_tracked; /* origins are kept: for the caller, or for a step that asks for them */
    size_t n_spans;
    struct mx_error *err;
};

/* Describes the token added last: origins in bytes of the input, and its text. */
static bool add_span(struct encoding *en, struct origin range, const char *text, size_t length) {
    struct token_list *out = en->out;
    if (!array_reserve(&out->spans, &out->span_capacity, en->n_spans + 1, sizeof *out->spans))
        return error_memory(en->err, "tokens");
    out->spans[en->n_spans++] = (struct token_span){.start = range.start,
                                                    .end = range.end,
                                                    .text_start = (uint32_t)out->texts.length,
                                                    .text_length = (uint32_t)length};
    return !length || buffer_append(&out->texts, text, length) || error_memory(en->err, "tokens");
}

static bool add_token(struct encoding *en, uint32_t id, struct origin range, const char *text, size_t length) {
    sink_add(&en->e->sink, id, 0, 0);
    if (en->e->sink.failed) return error_memory(en->err, "tokens");
    return !en->has_spans || add_span(en, range, text, length);
}

/* Tokens of a piece have ranges within it; says where in the input they come from. */
static bool describe_tokens(struct encoding *en, const struct aligned *text, struct piece piece, size_t first) {
    const struct sink *sink = &en->e->sink;
    size_t length = piece.end - piece.start;
    for (size_t i = first; i < sink->count; i++) {
        struct origin range = sink->ranges[i];
        size_t start = range.start, end = range.end;
        if (start == end)
            range = (struct origin){piece.shift + range.start, piece.shift + range.end};
        else if (end <= length)
            range = (struct origin){text->origin[piece.start + start].start, text->origin[piece.start + end - 1].end};
        const struct vocab_token *token = vocab_token(&en->t->vocab, sink->ids[i]);
        const char *spelled = token ? token->text : "";
        size_t spelled_length = token ? token->length : 0;
        if (en->t->kind == MODEL_UNIGRAM && sink->ids[i] == en->t->unigram.unk_id) {
            spelled = text->text + piece.start + start;
            spelled_length = end - start;
        }
        if (!add_span(en, range, spelled, spelled_length)) return false;
    }
    return true;
}

/* The longest token that begins the text, then the longest that begins the rest, and so on. */
static bool encode_greedily(struct encoding *en, const char *text, size_t length) {
    size_t used = 0;
    for (size_t at = 0; at < length; at += used) {
        uint32_t id = trie_longest(&en->t->greedy, text + at, length - at, &used);
        if (id == TRIE_NONE)
            return error_set(en->err, ERROR_FORMAT, "no token begins with byte 0x%02x", (unsigned char)text[at]);
        sink_add(&en->e->sink, id, at, at + used);
    }
    return !en->e->sink.failed || error_memory(en->err, "tokens");
}

static bool encode_piece(struct encoding *en, const char *text, size_t length) {
    const struct tokenizer *t = en->t;
    struct encoder *e = en->e;
    switch (t->kind) {
    case MODEL_BPE: return bpe_encode(&t->bpe, &e->bpe, text, length, &e->sink, en->err);
    case MODEL_UNIGRAM: return unigram_encode(&t->unigram, &e->unigram, &e->bpe.cache, text, length, &e->sink, en->err);
    case MODEL_WORDPIECE:
    case MODEL_WORDLEVEL:
        return wordpiece_encode(&t->wordpiece, &e->bpe.spelled, &e->bpe.cache, text, length, &e->sink, en->err);
    case MODEL_GREEDY: return encode_greedily(en, text, length);
    case MODEL_NONE: break;
    }
    return error_set(en->err, ERROR_FORMAT, "the tokenizer has no model");
}

/* A stretch of normalized text without added tokens. */
static bool encode_stretch(struct encoding *en, struct aligned *text, size_t start, size_t end, uint32_t shift) {
    struct encoder *e = en->e;
    if (text->is_tracked && start < end) shift = text->origin[start].start;
    e->pieces.count = 0;
    e->pieces.failed = false;
    pieces_add(&e->pieces, start, end, shift);
    if (e->pieces.failed) return error_memory(en->err, "pieces");
    const struct cutting cutting = {.text = text,
                                    .spare_text = &e->spare_text,
                                    .pieces = &e->pieces,
                                    .spare_pieces = &e->spare_pieces,
                                    .scratch = &e->regex,
                                    .err = en->err};
    if (!pretokenizer_apply(&en->t->pretokenizer, &cutting)) return false;
    for (size_t i = 0; i < e->pieces.count; i++) {
        struct piece piece = e->pieces.data[i];
        size_t first = e->sink.count;
        if (!encode_piece(en, text->text + piece.start, piece.end - piece.start)) return false;
        if (en->has_spans && !describe_tokens(en, text, piece, first)) return false;
    }
    return true;
}

/* The same for a SentencePiece model, whose ranges are of the normalized text. */
static bool describe_pieces(struct encoding *en, uint32_t shift, size_t first) {
    const struct sink *sink = &en->e->sink;
    const struct sentencepiece_text *normal = &en->e->normal;
    for (size_t i = first; i < sink->count; i++) {
        struct origin range = sink->ranges[i];
        struct origin origin = {shift + normal->origin[range.start], shift + normal->origin[range.end]};
        const struct vocab_token *token = vocab_token(&en->t->vocab, sink->ids[i]);
        bool is_unknown = sink->ids[i] == en->t->sentencepiece->unk_id;
        if (is_unknown ? !add_span(en, origin, normal->text + range.start, range.end - range.start)
                       : !add_span(en, origin, token->text, token->length))
            return false;
    }
    return true;
}

/* A section of the input between raw added tokens. */
static bool encode_section(struct encoding *en, const char *input, size_t start, size_t end) {
    struct encoder *e = en->e;
    const struct tokenizer *t = en->t;
    size_t first = e->sink.count;
    if (t->sentencepiece)
        return encoder_sentencepiece(t, e, input + start, end - start, en->has_spans, en->err) &&
               (!en->has_spans || describe_pieces(en, (uint32_t)start, first));
    aligned_set(&e->text, input + start, end - start, (uint32_t)start, en->is_tracked);
    if (e->text.failed) return error_memory(en->err, "text");
    if (!normalizer_apply(&t->normalizer, &e->regex, &e->text, &e->spare_text, (uint32_t)start, en->err)) return false;
    const struct added_set *set = &t->normalized_added;
    if (!set->count && !set->has_empty) return encode_stretch(en, &e->text, 0, e->text.length, (uint32_t)start);
    struct added_search search;
    struct added_match match;
    added_search_begin(&search, set, t->added, e->text.text, e->text.length, en->flags & TOKENIZE_PLAIN);
    while (added_search_next(&search, &match)) {
        if (match.start == match.end) continue;
        if (!match.token) {
            /* Pre-tokenizers rewrite the text that they are given. */
            aligned_begin(&e->part, match.end - match.start, en->is_tracked);
            aligned_copy(&e->part, &e->text, match.start, match.end);
            if (e->part.failed) return error_memory(en->err, "text");
            if (!encode_stretch(en, &e->part, 0, e->part.length, (uint32_t)(start + match.start))) return false;
            continue;
        }
        struct origin range = {0};
        if (en->is_tracked)
            range = (struct origin){e->text.origin[match.start].start, e->text.origin[match.end - 1].end};
        if (!add_token(en, match.token->id, range, e->text.text + match.start, match.end - match.start)) return false;
    }
    return true;
}

/* From bytes of the input to code points. A position within a character is that character's; one at the very end of the
 * input has no character, and only an end may lie there, but for SentencePiece. */
static bool count_characters(struct encoding *en, const char *text, size_t length) {
    struct encoder *e = en->e;
    if (!array_reserve(&e->characters, &e->character_capacity, length + 1, sizeof *e->characters))
        return error_memory(en->err, "offsets");
    uint32_t count = 0;
    for (size_t i = 0; i < length; i++)
        e->characters[i] = ((unsigned char)text[i] & 0xc0) == 0x80 ? count - 1 : count++;
    for (size_t i = 0; i < en->n_spans; i++) {
        struct token_span *span = &en->out->spans[i];
        if (en->t->sentencepiece && span->start == length) {
            span->start = span->end = count;
            continue;
        }
        if (span->start >= length || span->end > length) continue;
        uint32_t start = e->characters[span->start];
        uint32_t end = span->end < length ? e->characters[span->end] : e->characters[length - 1] + 1;
        span->start = start;
        span->end = end;
    }
    return true;
}

/* The input as valid UTF-8. */
static bool clean_input(struct encoder *e, const char **text, size_t *length, struct mx_error *err) {
    if (*length > MAX_TEXT_BYTES) return error_set(err, ERROR_LIMIT, "a text of %zu bytes (at most 1 GiB)", *length);
    size_t i = utf8_valid_prefix(*text, *length);
    if (i == *length) return true;
    buffer_clear(&e->clean);
    buffer_append(&e->clean, *text, i);
    while (i < *length) {
        bool valid;
        i += utf8_next_maximal(*text + i, *length - i, &valid);
        buffer_puts(&e->clean, "\xef\xbf\xbd");
        size_t n = utf8_valid_prefix(*text + i, *length - i);
        buffer_append(&e->clean, *text + i, n);
        i += n;
    }
    *text = e->clean.data;
    *length = e->clean.length;
    if (*length > MAX_TEXT_BYTES) return error_set(err, ERROR_LIMIT, "a text of more than 1 GiB");
    return !e->clean.failed || error_memory(err, "text");
}

/* Hands the ids over to the list. */
static void give_ids(struct sink *sink, struct token_list *out) {
    uint32_t *ids = out->ids;
    size_t capacity = out->capacity;
    out->ids = sink->ids;
    out->capacity = sink->capacity;
    out->count = sink->count;
    sink->ids = ids;
    sink->capacity = capacity;
}

bool encoder_run(const struct tokenizer *t, struct encoder *e, const char *text, size_t length, unsigned flags,
                 struct token_list *out, struct mx_error *err) {
    struct encoding en = {.t = t, .e = e, .out = out, .flags = flags, .err = err};
    en.has_spans = flags & TOKENIZE_OFFSETS;
    en.is_tracked = en.has_spans || pretokenizer_needs_origins(&t->pretokenizer, t->normalizer.n_steps > 0);
    out->count = 0;
    buffer_clear(&out->texts);
    if (!clean_input(e, &text, &length, err) || !regex_scratch_begin(&e->regex, length, err)) return false;
    wordcache_prepare(&e->bpe.cache, length);
    e->sink.count = 0;
    e->sink.failed = false;
    e->sink.is_tracked = en.has_spans;
    struct added_search search;
    struct added_match match;
    added_search_begin(&search, &t->raw_added, t->added, text, length, flags & TOKENIZE_PLAIN);
    while (added_search_next(&search, &match)) {
        if (match.start == match.end) continue;
        struct origin range = {(uint32_t)match.start, (uint32_t)match.end};
        bool ok = match.token ? add_token(&en, match.token->id, range, text + match.start, match.end - match.start)
                              : encode_section(&en, text, match.start, match.end);
        if (!ok) return false;
    }
    if (e->sink.failed) return error_memory(err, "tokens");
    if (en.has_spans && !count_characters(&en, text, length)) return false;
    give_ids(&e->sink, out);
    return true;
}

/* ---- encoders ---- */

struct encoder *encoder_take(const struct tokenizer *t, struct mx_error *err) {
    struct tokenizer *owner = (struct tokenizer *)(uintptr_t)t; /* the lock guards what changes */
    pthread_mutex_lock(&owner->lock);
    struct encoder *e = owner->idle;
    if (e) owner->idle = e->next;
    pthread_mutex_unlock(&owner->lock);
    if (!e) e = calloc(1, sizeof *e);
    if (!e) error_memory(err, "tokenizer");
    return e;
}

void encoder_give_back(const struct tokenizer *t, struct encoder *encoder) {
    struct tokenizer *owner = (struct tokenizer *)(uintptr_t)t;
    pthread_mutex_lock(&owner->lock);
    encoder->next = owner->idle;
    owner->idle = encoder;
    pthread_mutex_unlock(&owner->lock);
}

void encoder_free(struct encoder *e) {
    aligned_free(&e->text);
    aligned_free(&e->spare_text);
    aligned_free(&e->part);
    pieces_free(&e->pieces);
    pieces_free(&e->spare_pieces);
    regex_scratch_free(&e->regex);
    bpe_scratch_free(&e->bpe);
    unigram_scratch_free(&e->unigram);
    sentencepiece_text_free(&e->normal);
    free(e->sink.ids);
    free(e->sink.ranges);
    buffer_free(&e->clean);
    token_list_free(&e->texts[0]);
    token_list_free(&e->texts[1]);
    free(e->characters);
    free(e);
}
