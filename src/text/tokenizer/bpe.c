/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/bpe.h"

#include "text/tokenizer/bytelevel.h"
#include "text/tokenizer/characters.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- building ---- */

static bool is_byte_token(const struct vocab_token *token) {
    return token->length == 6 && !memcmp(token->text, "<0x", 3) && token->text[5] == '>';
}

static void find_byte_ids(struct bpe *bpe) {
    bpe->has_all_bytes = true;
    for (unsigned i = 0; i < 256; i++) {
        char text[8];
        size_t n;
        if (!bpe->works_on_bytes)
            n = (size_t)snprintf(text, sizeof text, "<0x%02X>", i);
        else if (bpe->texts_are_bytes)
            text[0] = (char)i, n = 1;
        else
            n = utf8_encode(bytelevel_character((unsigned char)i), text);
        if (!vocab_find(bpe->vocab, text, n, &bpe->byte_ids[i])) {
            bpe->byte_ids[i] = VOCAB_NONE;
            bpe->has_all_bytes = false;
        }
    }
}

static bool find_characters(struct bpe *bpe, struct mx_error *err) {
    if (bpe->works_on_bytes) return true;
    bpe->characters = characters_create();
    if (!bpe->characters) return error_memory(err, "vocabulary");
    for (uint32_t id = 0; id < bpe->vocab->size; id++) {
        const struct vocab_token *token = vocab_token(bpe->vocab, id);
        uint32_t c, winner;
        if (!token || token->length > 4 || !token->length ||
            utf8_decode(token->text, token->length, &c) != token->length)
            continue;
        if (!vocab_find(bpe->vocab, token->text, token->length, &winner)) continue;
        if (!characters_set(bpe->characters, c, winner)) return error_memory(err, "vocabulary");
    }
    return true;
}

bool bpe_prepare(struct bpe *bpe, size_t n_merges, struct mx_error *err) {
    size_t n_bits = 1u << 16;
    bpe->can_cut = !bpe->prefix_length && !bpe->suffix_length;
    find_byte_ids(bpe);
    while (!bpe->works_on_bytes && n_bits < 8 * n_merges && n_bits < 1u << 22) n_bits *= 2;
    free(bpe->joints);
    bpe->joint_mask = (uint32_t)n_bits - 1;
    bpe->joints = calloc(n_bits / 64, sizeof *bpe->joints);
    return (bpe->joints || error_memory(err, "merges")) && merges_reserve(&bpe->merges, n_merges, err) &&
           find_characters(bpe, err);
}

/* Bit of a pair of characters (or bytes) in the set of joints. */
static uint32_t joint_of(const struct bpe *bpe, uint32_t left, uint32_t right) {
    if (bpe->works_on_bytes) return left << 8 | right;
    uint32_t h = left * 0x9e3779b1u ^ right * 0x85ebca77u;
    return (h ^ h >> 15) & bpe->joint_mask;
}

static bool is_joint(const struct bpe *bpe, uint32_t left, uint32_t right) {
    uint32_t bit = joint_of(bpe, left, right);
    return bpe->joints[bit >> 6] >> (bit & 63) & 1;
}

static bool first_symbol(const struct bpe *bpe, const struct vocab_token *token, uint32_t *symbol) {
    if (!token->length) return false;
    *symbol = (unsigned char)token->text[0];
    if (bpe->works_on_bytes && bpe->texts_are_bytes) return true;
    if (!utf8_decode(token->text, token->length, symbol)) return false;
    if (!bpe->works_on_bytes) return true;
    int byte = bytelevel_byte(*symbol);
    *symbol = (uint32_t)byte;
    return byte >= 0;
}

static bool last_symbol(const struct bpe *bpe, const struct vocab_token *token, uint32_t *symbol) {
    size_t at = token->length;
    if (!at) return false;
    do at--;
    while (at && !bpe->texts_are_bytes && ((unsigned char)token->text[at] & 0xc0) == 0x80);
    struct vocab_token last = {.text = token->text + at, .length = token->length - (uint32_t)at};
    return first_symbol(bpe, &last, symbol);
}

/* Notes the characters that a merge joins. Where its parts are not what they seem (byte tokens as text, symbols of no
 * text) pieces are not cut. */
static void note_joint(struct bpe *bpe, uint32_t left_id, uint32_t right_id, uint32_t result_id) {
    const struct vocab_token *left = vocab_token(bpe->vocab, left_id), *right = vocab_token(bpe->vocab, right_id);
    const struct vocab_token *result = vocab_token(bpe->vocab, result_id);
    uint32_t a, b;
    if (!left || !right || !result || !last_symbol(bpe, left, &a) || !first_symbol(bpe, right, &b) ||
        (bpe->byte_fallback && (is_byte_token(left) || is_byte_token(right) || is_byte_token(result)))) {
        bpe->can_cut = false;
        return;
    }
    uint32_t bit = joint_of(bpe, a, b);
    bpe->joints[bit >> 6] |= (uint64_t)1 << (bit & 63);
}

bool bpe_add_merge(struct bpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t result,
                   struct mx_error *err) {
    if (bpe->can_cut) note_joint(bpe, left, right, result);
    return merges_add(&bpe->merges, left, right, rank, result, err);
}

void bpe_free(struct bpe *bpe) {
    merges_free(&bpe->merges);
    characters_destroy(bpe->characters);
    free(bpe->joints);
    bpe->characters = NULL;
    bpe->joints = NULL;
}

void bpe_scratch_free(struct bpe_scratch *scratch) {
    free(scratch->symbols);
    merge_scratch_free(&scratch->merge);
    wordcache_free(&scratch->cache);
    buffer_free(&scratch->spelled);
    *scratch = (struct bpe_scratch){0};
}

/* ---- from text to symbols ---- */

static bool add_symbol(struct bpe_scratch *scratch, uint32_t id, size_t length) {
    if (!array_reserve(&scratch->symbols, &scratch->symbol_capacity, scratch->n_symbols + 1, sizeof *scratch->symbols))
        return false;
    scratch->symbols[scratch->n_symbols++] = (struct symbol){id, (uint32_t)length};
    return true;
}

static bool add_bytes(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t length) {
    if (!array_reserve(&scratch->symbols, &scratch->symbol_capacity, length, sizeof *scratch->symbols)) return false;
    for (size_t i = 0; i < length; i++) scratch->symbols[i] = (struct symbol){bpe->byte_ids[(unsigned char)text[i]], 1};
    scratch->n_symbols = length;
    return true;
}

/* The id of a character in its place in the word, where prefix and suffix count; `text` gets what was looked up. */
static uint32_t find_character(const struct bpe *bpe, const char *text, size_t n, bool is_first, bool is_last,
                               struct buffer *spelled) {
    uint32_t c, id;
    bool has_prefix = bpe->prefix_length && !is_first, has_suffix = bpe->suffix_length && is_last;
    if (!has_prefix && !has_suffix) {
        utf8_decode(text, n, &c);
        return characters_get(bpe->characters, c);
    }
    buffer_clear(spelled);
    if (has_prefix) buffer_append(spelled, bpe->prefix, bpe->prefix_length);
    buffer_append(spelled, text, n);
    if (has_suffix) buffer_append(spelled, bpe->suffix, bpe->suffix_length);
    return !spelled->failed && vocab_find(bpe->vocab, spelled->data, spelled->length, &id) ? id : CHARACTER_NONE;
}

/* An unknown character that waits: further ones may fuse with it. */
struct unknown {
    bool waits;
    size_t length;
};

static bool add_unknown(const struct bpe *bpe, struct bpe_scratch *scratch, struct unknown *unknown, size_t length,
                        struct mx_error *err) {
    if (!bpe->has_unk) return true;
    if (unknown->waits && bpe->fuse_unk) {
        unknown->length += length;
        return true;
    }
    if (bpe->unk_id == VOCAB_NONE) return error_set(err, ERROR_FORMAT, "the unknown token is not in the vocabulary");
    if (unknown->waits && !add_symbol(scratch, bpe->unk_id, unknown->length)) return error_memory(err, "tokens");
    *unknown = (struct unknown){true, length};
    return true;
}

/* Byte tokens for an unknown character, if all its bytes (as spelled) have one. */
static bool add_fallback(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t n, bool *ok) {
    for (size_t i = 0; i < n; i++)
        if (bpe->byte_ids[(unsigned char)text[i]] == VOCAB_NONE) return false;
    for (size_t i = 0; i < n && *ok; i++) *ok = add_symbol(scratch, bpe->byte_ids[(unsigned char)text[i]], 1);
    return true;
}

static bool add_characters(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t length,
                           struct mx_error *err) {
    struct unknown unknown = {0};
    struct buffer *spelled = &scratch->spelled;
    bool ok = true;
    for (size_t i = 0; i < length && ok;) {
        uint32_t c;
        size_t n = utf8_decode(text + i, length - i, &c);
        buffer_clear(spelled);
        uint32_t id = find_character(bpe, text + i, n, i == 0, i + n >= length, spelled);
        if (id != CHARACTER_NONE) {
            if (unknown.waits) ok = add_symbol(scratch, bpe->unk_id, unknown.length);
            unknown.waits = false;
            ok = (ok && add_symbol(scratch, id, n)) || error_memory(err, "tokens");
        } else {
            const char *bytes = spelled->length ? spelled->data : text + i;
            size_t n_bytes = spelled->length ? spelled->length : n;
            if (!(bpe->byte_fallback && add_fallback(bpe, scratch, bytes, n_bytes, &ok)))
                ok = add_unknown(bpe, scratch, &unknown, n, err);
            else if (!ok)
                error_memory(err, "tokens");
        }
        i += n;
    }
    if (ok && unknown.waits) ok = add_symbol(scratch, bpe->unk_id, unknown.length) || error_memory(err, "tokens");
    return ok;
}

/* ---- a part of a piece that is not cut further ---- */

static bool encode_whole(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t length,
                         size_t base, struct sink *sink, struct mx_error *err) {
    scratch->n_symbols = 0;
    if (bpe->works_on_bytes) {
        if (!add_bytes(bpe, scratch, text, length)) return error_memory(err, "tokens");
    } else if (!add_characters(bpe, scratch, text, length, err)) {
        return false;
    }
    size_t n = scratch->n_symbols;
    if (!merges_apply(&bpe->merges, &scratch->merge, scratch->symbols, &n) || !sink_reserve(sink, n))
        return error_memory(err, "tokens");
    for (size_t i = 0; i < n; i++) {
        sink_add(sink, scratch->symbols[i].id, base, base + scratch->symbols[i].length);
        base += scratch->symbols[i].length;
    }
    return true;
}

static bool encode_part(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t length,
                        size_t base, bool is_cached, struct sink *sink, struct mx_error *err) {
    if (length > WORDCACHE_MAX_BYTES || !is_cached) return encode_whole(bpe, scratch, text, length, base, sink, err);
    const struct word *word = wordcache_find(&scratch->cache, text, length);
    if (word) {
        if (!sink_reserve(sink, word->n_ids)) return error_memory(err, "tokens");
        for (size_t i = 0; i < word->n_ids; i++) sink->ids[sink->count + i] = word->ids[i];
        sink->count += word->n_ids;
        return true;
    }
    size_t before = sink->count;
    if (!encode_whole(bpe, scratch, text, length, base, sink, err)) return false;
    wordcache_add(&scratch->cache, text, length, sink->ids + before, sink->count - before);
    return true;
}

/* ---- pieces ---- */

/* A piece that is a token by itself, for ignore_merges. */
static bool find_whole(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t length,
                       uint32_t *id) {
    if (!bpe->works_on_bytes || bpe->texts_are_bytes)
        return length <= bpe->vocab->longest && vocab_find(bpe->vocab, text, length, id);
    struct buffer *spelled = &scratch->spelled;
    if (length > bpe->vocab->longest) return false;
    buffer_clear(spelled);
    if (!buffer_reserve(spelled, 2 * length)) return false;
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += utf8_encode(bytelevel_character((unsigned char)text[i]), spelled->data + n);
    return vocab_find(bpe->vocab, spelled->data, n, id);
}

/* The next place where the piece may be cut, or its end. */
static size_t next_cut(const struct bpe *bpe, const char *text, size_t length, size_t at) {
    uint32_t before, after;
    if (bpe->works_on_bytes) {
        for (at++; at < length; at++)
            if (!is_joint(bpe, (unsigned char)text[at - 1], (unsigned char)text[at])) return at;
        return length;
    }
    bool any_unknown = bpe->byte_fallback && bpe->has_all_bytes;
    at += utf8_decode(text + at, length - at, &before);
    for (; at < length; before = after) {
        size_t n = utf8_decode(text + at, length - at, &after);
        if (!is_joint(bpe, before, after) &&
            (any_unknown || (characters_get(bpe->characters, before) != CHARACTER_NONE &&
                             characters_get(bpe->characters, after) != CHARACTER_NONE)))
            return at;
        at += n;
    }
    return length;
}

bool bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *text, size_t length, struct sink *sink,
                struct mx_error *err) {
    uint32_t id;
    if (!length) return true;
    bool is_cached = length <= WORDCACHE_MAX_BYTES && !sink->is_tracked;
    if (bpe->ignore_merges && !(is_cached && wordcache_find(&scratch->cache, text, length)) &&
        find_whole(bpe, scratch, text, length, &id)) {
        sink_add(sink, id, 0, length);
        if (is_cached) wordcache_add(&scratch->cache, text, length, &id, 1);
        return !sink->failed || error_memory(err, "tokens");
    }
    /* Where unknown characters vanish, the reference counts the ranges of the rest from the start of the piece. */
    bool drops = !bpe->has_unk && !bpe->works_on_bytes && !(bpe->byte_fallback && bpe->has_all_bytes);
    bool cuts =
        bpe->can_cut && length > (bpe->works_on_bytes ? WORDCACHE_MAX_BYTES : 1) && !(drops && sink->is_tracked);
    for (size_t at = 0; at < length;) {
        size_t end = cuts ? next_cut(bpe, text, length, at) : length;
        /* With ignore_merges a word as a piece and the same word within a piece may differ: only pieces are cached. */
        is_cached = !sink->is_tracked && (!bpe->ignore_merges || end - at == length);
        if (!encode_part(bpe, scratch, text + at, end - at, at, is_cached, sink, err)) return false;
        at = end;
    }
    return true;
}
