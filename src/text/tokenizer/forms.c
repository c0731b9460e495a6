/* SPDX-License-Identifier: Apache-2.0 */
/* Three stages, each handing characters to the next: decomposition, canonical ordering of the marks after a starter,
 * and composition (only for NFC and NFKC). A character carries its `change` (see aligned.h): the first of a
 * decomposition replaces its source, further ones are new, and a composition swallows what it takes in. */
#include "text/tokenizer/forms.h"

#include "text/tokenizer/unicode.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define UNICODE_OF_FORMS 90
#define HANGUL_FIRST     0xac00u
#define HANGUL_LAST      0xd7a3u

struct item {
    uint32_t code_point;
    int32_t change;
    uint8_t combining_class;
};

struct items {
    struct item *data;
    size_t count, capacity;
};

struct former {
    struct rewrite rewrite;
    struct items pending; /* a starter and the marks after it, not ordered yet */
    struct items sorted;
    bool composes, is_compatible;
    bool has_composee, has_last_class;
    struct item composee;
    uint8_t last_class;
    struct items held; /* marks that did not compose with the composee */
    bool failed;
};

static bool is_known(uint32_t c) { return c < 0x300 || unicode_category_in(c, UNICODE_OF_FORMS) != UNICODE_CN; }

static uint8_t combining_class(uint32_t c) {
    if (c < 0x300) return 0;
    uint8_t class = (uint8_t)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
    return class && is_known(c) ? class : 0;
}

static bool is_mark(uint32_t c) {
    enum unicode_category category = unicode_category_in(c, UNICODE_OF_FORMS);
    return category >= UNICODE_MN && category <= UNICODE_ME;
}

/* The character that a and b make together; 0 = none. Only marks and Hangul vowels and finals come second. */
static uint32_t compose(uint32_t a, uint32_t b) {
    if (b < 0x300) return 0;
    if (b >= 0x1161 && b <= 0x11c2) {
        if (a >= 0x1100 && a <= 0x1112 && b <= 0x1175) return HANGUL_FIRST + ((a - 0x1100) * 21 + (b - 0x1161)) * 28;
        bool is_open = a >= HANGUL_FIRST && a <= HANGUL_LAST && (a - HANGUL_FIRST) % 28 == 0;
        return is_open && b >= 0x11a8 ? a + (b - 0x11a7) : 0;
    }
    if (!is_mark(b)) return 0;
    utf8proc_int32_t pair[4] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b, 0, 0};
    utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return n == 1 && is_known((uint32_t)pair[0]) ? (uint32_t)pair[0] : 0;
}

static void push(struct former *f, struct items *items, struct item item) {
    if (!array_reserve(&items->data, &items->capacity, items->count + 1, sizeof *items->data))
        f->failed = true;
    else
        items->data[items->count++] = item;
}

static void put(struct former *f, struct item item) { rewrite_put(&f->rewrite, item.code_point, item.change); }

static void put_held(struct former *f) {
    for (size_t i = 0; i < f->held.count; i++) put(f, f->held.data[i]);
    f->held.count = 0;
    f->has_last_class = false;
}

static void hold(struct former *f, struct item item) {
    push(f, &f->held, item);
    f->has_last_class = true;
    f->last_class = item.combining_class;
}

/* Takes the next character in canonical order. */
static void take(struct former *f, struct item item) {
    if (!f->composes) {
        put(f, item);
        return;
    }
    if (!f->has_composee) {
        if (item.combining_class) {
            put(f, item);
        } else {
            f->composee = item;
            f->has_composee = true;
        }
        return;
    }
    bool is_blocked = f->has_last_class && f->last_class >= item.combining_class;
    uint32_t together = is_blocked ? 0 : compose(f->composee.code_point, item.code_point);
    if (together) {
        f->composee.code_point = together;
        f->composee.change += item.change - 1;
    } else if (item.combining_class) {
        hold(f, item);
    } else {
        put(f, f->composee);
        put_held(f);
        f->composee = item;
    }
}

/* Orders the pending characters by combining class, equal ones staying in order: a counting sort, since a text may hold
 * a million marks in a row. */
static void flush_pending(struct former *f) {
    size_t n = f->pending.count, start[257] = {0};
    struct item *items = f->pending.data;
    bool is_ordered = true;
    for (size_t i = 1; i < n; i++) is_ordered = is_ordered && items[i - 1].combining_class <= items[i].combining_class;
    if (!is_ordered) {
        if (!array_reserve(&f->sorted.data, &f->sorted.capacity, n, sizeof *items)) {
            f->failed = true;
            return;
        }
        for (size_t i = 0; i < n; i++) start[items[i].combining_class + 1]++;
        for (size_t i = 1; i < 257; i++) start[i] += start[i - 1];
        for (size_t i = 0; i < n; i++) f->sorted.data[start[items[i].combining_class]++] = items[i];
        items = f->sorted.data;
    }
    for (size_t i = 0; i < n; i++) take(f, items[i]);
    f->pending.count = 0;
}

static void decompose(struct former *f, uint32_t c) {
    utf8proc_int32_t parts[32] = {(utf8proc_int32_t)c};
    utf8proc_ssize_t n = 1;
    if (c >= 0xa0 && is_known(c)) {
        int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (f->is_compatible ? UTF8PROC_COMPAT : 0);
        n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32, (utf8proc_option_t)options, NULL);
        if (n < 1 || n > 32) {
            parts[0] = (utf8proc_int32_t)c;
            n = 1;
        }
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        uint32_t part = (uint32_t)parts[i];
        uint8_t class = combining_class(part);
        if (!class) flush_pending(f);
        push(f, &f->pending, (struct item){.code_point = part, .change = i > 0, .combining_class = class});
    }
}

/* ASCII characters stay as they are, and nothing before them changes any more; only the last of a run may still compose
 * with what follows. Copies the run at `start` but for that, and returns where to go on. */
static size_t copy_ascii(struct former *f, size_t start) {
    const struct aligned *from = f->rewrite.from;
    size_t end = start;
    while (end < from->length && (unsigned char)from->text[end] < 0x80) end++;
    if (end < from->length) end--;
    if (end < start + 4) return start;
    flush_pending(f);
    if (f->has_composee) put(f, f->composee);
    f->has_composee = false;
    put_held(f);
    aligned_copy(f->rewrite.to, from, start, end);
    f->rewrite.at += end - start;
    return end;
}

bool form_apply(enum form form, struct aligned *to, const struct aligned *from, struct origin before) {
    struct former f = {.composes = form == FORM_NFC || form == FORM_NFKC,
                       .is_compatible = form == FORM_NFKC || form == FORM_NFKD};
    rewrite_begin(&f.rewrite, to, from, 0, from->length, before);
    for (size_t i = 0; i < from->length && !f.failed;) {
        uint32_t c;
        if ((unsigned char)from->text[i] < 0x80) i = copy_ascii(&f, i);
        if (i >= from->length) break;
        i += utf8_decode(from->text + i, from->length - i, &c);
        decompose(&f, c);
    }
    flush_pending(&f);
    if (f.has_composee) put(&f, f.composee);
    put_held(&f);
    free(f.pending.data);
    free(f.sorted.data);
    free(f.held.data);
    return !f.failed && !to->failed;
}

/* Letters of large alphabets that a form leaves alone: Han always; Vietnamese letters, kana and Hangul syllables in the
 * composed forms, since they compose again. */
static bool is_untouched(uint32_t c, bool composes) {
    if (c >= 0x3400 && c <= 0x9fff) return true;
    return composes && ((c >= 0x1ea0 && c <= 0x1eff) || (c >= 0x3041 && c <= 0x3096) || (c >= 0x30a1 && c <= 0x30fe) ||
                        (c >= HANGUL_FIRST && c <= HANGUL_LAST));
}

bool form_is_certain(enum form form, const char *text, size_t length) {
    bool composes = form == FORM_NFC || form == FORM_NFKC;
    bool is_compatible = form == FORM_NFKC || form == FORM_NFKD;
    uint32_t safe_below = form == FORM_NFC ? 0x300 : form == FORM_NFD ? 0xc0 : 0xa0;
    for (size_t i = 0; i < length;) {
        if ((unsigned char)text[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t c;
        size_t n = utf8_decode(text + i, length - i, &c);
        if (!n) return false;
        i += n;
        if (c < safe_below || is_untouched(c, composes)) continue;
        if ((c >= 0x1100 && c <= 0x11ff) || (c >= HANGUL_FIRST && c <= HANGUL_LAST)) return false;
        const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
        if (property->decomp_seqindex != UINT16_MAX && (is_compatible || !property->decomp_type)) return false;
        if (property->combining_class) return false;
        if (property->category >= UTF8PROC_CATEGORY_MN && property->category <= UTF8PROC_CATEGORY_ME) return false;
    }
    return true;
}
