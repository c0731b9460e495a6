/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/wordpiece.h"

#include "base/utf8.h"

#include <string.h>

static bool add_unknown(const struct wordpiece *w, size_t length, struct sink *sink, struct mx_error *err) {
    if (w->unk_id == VOCAB_NONE)
        return error_set(err, ERROR_FORMAT, "an unknown word, and the unknown token is not in the vocabulary");
    sink_add(sink, w->unk_id, 0, length);
    return !sink->failed || error_memory(err, "tokens");
}

/* The longest token text[start .. end) with end at most `limit`; sets *id and returns end, or start when there is none.
 * `spelled` begins with the prefix where one counts. */
static size_t longest_token(const struct wordpiece *w, struct buffer *spelled, const char *text, size_t start,
                            size_t limit, uint32_t *id) {
    size_t prefix = start ? w->prefix_length : 0;
    if (w->vocab->longest < prefix) return start;
    if (limit - start > w->vocab->longest - prefix) {
        limit = start + w->vocab->longest - prefix;
        while (limit > start && ((unsigned char)text[limit] & 0xc0) == 0x80) limit--;
    }
    const char *candidate = text + start;
    if (prefix) {
        buffer_clear(spelled);
        buffer_append(spelled, w->prefix, prefix);
        if (!buffer_append(spelled, text + start, limit - start)) return start;
        candidate = spelled->data;
    }
    for (size_t end = limit; end > start;) {
        if (vocab_find(w->vocab, candidate, prefix + end - start, id)) return end;
        do end--;
        while (end > start && ((unsigned char)text[end] & 0xc0) == 0x80);
    }
    return start;
}

static bool encode(const struct wordpiece *w, struct buffer *spelled, const char *text, size_t length,
                   struct sink *sink, struct mx_error *err) {
    size_t before = sink->count;
    uint32_t id;
    if (w->whole_words) {
        if (!vocab_find(w->vocab, text, length, &id)) return add_unknown(w, length, sink, err);
        sink_add(sink, id, 0, length);
        return !sink->failed || error_memory(err, "tokens");
    }
    if (length > w->max_characters && utf8_count(text, length) > w->max_characters)
        return add_unknown(w, length, sink, err);
    for (size_t start = 0; start < length;) {
        size_t end = longest_token(w, spelled, text, start, length, &id);
        if (spelled->failed) return error_memory(err, "tokens");
        if (end == start) {
            sink->count = before;
            return add_unknown(w, length, sink, err);
        }
        sink_add(sink, id, start, end);
        start = end;
    }
    return !sink->failed || error_memory(err, "tokens");
}

bool wordpiece_encode(const struct wordpiece *w, struct buffer *spelled, struct wordcache *cache, const char *text,
                      size_t length, struct sink *sink, struct mx_error *err) {
    size_t before = sink->count;
    if (!length) return true;
    if (length > WORDCACHE_MAX_BYTES || sink->is_tracked || w->whole_words)
        return encode(w, spelled, text, length, sink, err);
    const struct word *word = wordcache_find(cache, text, length);
    if (!word) {
        if (!encode(w, spelled, text, length, sink, err)) return false;
        wordcache_add(cache, text, length, sink->ids + before, sink->count - before);
        return true;
    }
    if (!sink_reserve(sink, word->n_ids)) return error_memory(err, "tokens");
    memcpy(sink->ids + before, word->ids, word->n_ids * sizeof *word->ids);
    sink->count += word->n_ids;
    return true;
}
