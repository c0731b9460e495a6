/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/sentencepiece.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

#define ESCAPED_SPACE "\xe2\x96\x81"

void sentencepiece_free(struct sentencepiece *sp) {
    free(sp->types);
    charsmap_free(&sp->charsmap);
    trie_free(&sp->user_defined);
    *sp = (struct sentencepiece){0};
}

void sentencepiece_text_free(struct sentencepiece_text *text) {
    free(text->text);
    free(text->origin);
    *text = (struct sentencepiece_text){0};
}

size_t sentencepiece_next(const struct sentencepiece *sp, const char *text, size_t length, size_t at, uint32_t *id) {
    size_t used = 0;
    uint32_t c;
    *id = sp->user_defined.n_nodes ? trie_longest(&sp->user_defined, text + at, length - at, &used) : TRIE_NONE;
    if (*id != TRIE_NONE) return at + used;
    used = utf8_decode(text + at, length - at, &c);
    return at + (used ? used : 1);
}

/* ---- normalizing ---- */

static bool reserve(struct sentencepiece_text *out, size_t extra) {
    size_t want;
    return size_add(out->length, extra + 1, &want) && array_reserve(&out->text, &out->capacity, want, 1) &&
           (!out->is_tracked || array_reserve(&out->origin, &out->origin_capacity, want, sizeof *out->origin));
}

static bool put(struct sentencepiece_text *out, const char *bytes, size_t n, size_t origin) {
    if (!reserve(out, n)) return false;
    memcpy(out->text + out->length, bytes, n);
    for (size_t i = 0; out->is_tracked && i < n; i++) out->origin[out->length + i] = (uint32_t)origin;
    out->length += n;
    return true;
}

static bool put_space(const struct sentencepiece *sp, struct sentencepiece_text *out, size_t origin) {
    return sp->escapes_spaces ? put(out, ESCAPED_SPACE, 3, origin) : put(out, " ", 1, origin);
}

/* What the text at `at` becomes, with its length, and where the rest of the text begins. */
static const char *next_normal(const struct sentencepiece *sp, const char *text, size_t length, size_t at,
                               size_t *n_normal, size_t *end) {
    size_t used = 0;
    uint32_t id;
    *end = sentencepiece_next(sp, text, length, at, &id);
    const char *normal = id == TRIE_NONE && sp->charsmap.n_units
                             ? charsmap_find(&sp->charsmap, text + at, length - at, true, &used)
                             : NULL;
    if (!normal) {
        *n_normal = *end - at;
        return text + at;
    }
    *n_normal = strlen(normal);
    *end = at + used;
    return normal;
}

static bool ends_in_space(const struct sentencepiece *sp, const struct sentencepiece_text *out, size_t *n) {
    *n = sp->escapes_spaces ? 3 : 1;
    return out->length >= *n && !memcmp(out->text + out->length - *n, sp->escapes_spaces ? ESCAPED_SPACE : " ", *n);
}

/* Without a table and user-defined pieces most text is copied as it is. */
static bool copy_plain(const struct sentencepiece *sp, const char *text, size_t length, size_t *at,
                       struct sentencepiece_text *out) {
    if (sp->charsmap.n_units || sp->user_defined.n_nodes || out->is_tracked) return true;
    const char *space = memchr(text + *at, ' ', length - *at);
    size_t end = space ? (size_t)(space - text) : length;
    if (!put(out, text + *at, end - *at, 0)) return false;
    *at = end;
    return true;
}

static bool put_normal(const struct sentencepiece *sp, struct sentencepiece_text *out, const char *normal, size_t n,
                       size_t origin) {
    for (size_t i = 0; i < n;) {
        const char *space = memchr(normal + i, ' ', n - i);
        size_t end = space ? (size_t)(space - normal) : n;
        if (!put(out, normal + i, end - i, origin) || (space && !put_space(sp, out, origin))) return false;
        i = end + (space != NULL);
    }
    return true;
}

static bool normalize(const struct sentencepiece *sp, const char *text, size_t length, struct sentencepiece_text *out,
                      size_t *consumed) {
    size_t at = 0, end, n;
    bool after_space = sp->removes_extra_spaces;
    while (sp->removes_extra_spaces && at < length) {
        const char *normal = next_normal(sp, text, length, at, &n, &end);
        if (n != 1 || *normal != ' ') break;
        at = end;
    }
    *consumed = at;
    if (at == length) return true;
    if (sp->adds_prefix && !sp->spaces_end_words && !put_space(sp, out, at)) return false;
    while (at < length) {
        size_t before = at;
        if (!copy_plain(sp, text, length, &at, out)) return false;
        if (at > before) after_space = false;
        if (at == length) break;
        const char *normal = next_normal(sp, text, length, at, &n, &end);
        for (; after_space && n && *normal == ' '; n--) normal++;
        if (!put_normal(sp, out, normal, n, at)) return false;
        if (n) after_space = normal[n - 1] == ' ';
        if (!sp->removes_extra_spaces) after_space = false;
        at = end;
    }
    *consumed = length;
    while (sp->removes_extra_spaces && ends_in_space(sp, out, &n)) {
        out->length -= n;
        *consumed = out->is_tracked ? out->origin[out->length] : 0;
    }
    return !(sp->adds_prefix && sp->spaces_end_words) || put_space(sp, out, *consumed);
}

bool sentencepiece_normalize(const struct sentencepiece *sp, const char *text, size_t length,
                             struct sentencepiece_text *out, struct mx_error *err) {
    size_t consumed = 0;
    out->length = 0;
    if (!reserve(out, length + 8) || !normalize(sp, text, length, out, &consumed))
        return error_memory(err, "normalization");
    if (out->length > (size_t)1 << 30) return error_set(err, ERROR_LIMIT, "the text grows to more than 1 GiB");
    if (out->is_tracked) out->origin[out->length] = (uint32_t)consumed;
    return utf8_valid_prefix(out->text, out->length) == out->length ||
           error_set(err, ERROR_FORMAT, "the normalization table holds text that is no UTF-8");
}
