/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of step is a row of `kinds`: how it is read from the file and how it rewrites a text. A step that finds
 * nothing to change returns without writing, and the text stays where it is. */
#include "text/tokenizer/normalizer.h"

#include "text/tokenizer/bytelevel.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/forms.h"
#include "text/tokenizer/unicode.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define MAX_STEPS      256
#define MAX_NESTING    16
#define MAX_TEXT_BYTES (1u << 30)

struct normalizer_step {
    const struct step_kind *kind;
    const char *text; /* Prepend: what; Replace: what to look for (NULL = regex) */
    size_t length;
    const char *content; /* Replace: what to put there */
    size_t content_length;
    struct regex *regex;
    struct charsmap charsmap;
    enum form form;
    bool strips_left, strips_right;
    bool cleans, spaces_han, strips_accents, lowers; /* BertNormalizer */
};

/* One step at work. */
struct job {
    const struct normalizer_step *step;
    struct regex_scratch *scratch;
    const struct aligned *from;
    struct aligned *to;
    struct origin before;
    bool is_changed; /* `to` holds the result */
    struct mx_error *err;
};

struct step_kind {
    const char *name;
    bool (*load)(struct normalizer_step *step, const struct json *json, struct arena *arena, struct mx_error *err);
    bool (*apply)(struct job *job);
    enum form form;
};

static void begin(struct job *job, struct rewrite *rewrite) {
    aligned_begin(job->to, job->from->length, job->from->is_tracked);
    rewrite_begin(rewrite, job->to, job->from, 0, job->from->length, job->before);
    job->is_changed = true;
}

static bool is_ascii(const struct aligned *text) {
    size_t i = 0;
    for (; i + 8 <= text->length; i += 8) {
        uint64_t word;
        memcpy(&word, text->text + i, 8);
        if (word & 0x8080808080808080u) return false;
    }
    for (; i < text->length; i++)
        if ((unsigned char)text->text[i] >= 0x80) return false;
    return true;
}

/* ---- steps on single characters ---- */

enum fate { FATE_KEEP, FATE_DROP, FATE_SPACE };

/* Drops or blanks characters. */
static void sift(struct job *job, enum fate (*judge)(uint32_t code_point)) {
    struct rewrite rewrite;
    begin(job, &rewrite);
    for (size_t i = 0; i < job->from->length;) {
        uint32_t c;
        i += utf8_decode(job->from->text + i, job->from->length - i, &c);
        switch (judge(c)) {
        case FATE_KEEP: rewrite_keep(&rewrite); break;
        case FATE_DROP: rewrite_skip(&rewrite, 1); break;
        case FATE_SPACE: rewrite_put(&rewrite, ' ', 0); break;
        }
    }
}

static enum fate judge_mark(uint32_t c) { return unicode_is_mark(c) ? FATE_DROP : FATE_KEEP; }

static bool apply_strip_accents(struct job *job) {
    if (!is_ascii(job->from)) sift(job, judge_mark);
    return true;
}

static enum fate judge_nmt(uint32_t c) {
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
        return FATE_DROP;
    bool is_blank = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                    c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    return is_blank ? FATE_SPACE : FATE_KEEP;
}

static bool apply_nmt(struct job *job) { return sift(job, judge_nmt), true; }

/* Copies the run of ASCII at `at` in lower case, and returns its end. */
static size_t lower_ascii(struct rewrite *rewrite, size_t at) {
    const struct aligned *from = rewrite->from;
    struct aligned *to = rewrite->to;
    size_t end = at, first = to->length;
    while (end < from->length && (unsigned char)from->text[end] < 0x80) end++;
    aligned_copy(to, from, at, end);
    for (size_t i = first; i < to->length; i++)
        if (to->text[i] >= 'A' && to->text[i] <= 'Z') to->text[i] = (char)(to->text[i] + 32);
    rewrite->at += end - at;
    return end;
}

static bool apply_lowercase(struct job *job) {
    struct rewrite rewrite;
    begin(job, &rewrite);
    for (size_t i = 0; i < job->from->length;) {
        uint32_t c, lower[2];
        if ((unsigned char)job->from->text[i] < 0x80) {
            i = lower_ascii(&rewrite, i);
            continue;
        }
        i += utf8_decode(job->from->text + i, job->from->length - i, &c);
        size_t n = unicode_lower(c, lower);
        for (size_t k = 0; k < n; k++) rewrite_put(&rewrite, lower[k], k > 0);
    }
    return true;
}

static bool apply_form(struct job *job) {
    if (form_is_certain(job->step->form, job->from->text, job->from->length)) return true;
    aligned_begin(job->to, job->from->length, job->from->is_tracked);
    job->is_changed = true;
    return form_apply(job->step->form, job->to, job->from, job->before) || error_memory(job->err, "normalization");
}

/* ---- BertNormalizer ---- */

static enum fate judge_bert(uint32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return FATE_SPACE;
    if (c == 0 || c == 0xfffd || unicode_is_control(c)) return FATE_DROP;
    return unicode_is_space(c) ? FATE_SPACE : FATE_KEEP;
}

static enum fate judge_accent(uint32_t c) { return unicode_is_nonspacing_mark(c) ? FATE_DROP : FATE_KEEP; }

static bool is_han(uint32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void space_han(struct job *job) {
    struct rewrite rewrite;
    begin(job, &rewrite);
    for (size_t i = 0; i < job->from->length;) {
        uint32_t c;
        i += utf8_decode(job->from->text + i, job->from->length - i, &c);
        if (!is_han(c)) {
            rewrite_keep(&rewrite);
            continue;
        }
        rewrite_put(&rewrite, ' ', 0);
        rewrite_put(&rewrite, c, 1);
        rewrite_put(&rewrite, ' ', 1);
    }
}

/* Makes the result of the part before the input of the next; the first input is borrowed from the caller. */
static void next_part(struct job *job, struct aligned own[2], int *at) {
    if (!job->is_changed) return;
    job->from = job->to;
    *at = !*at;
    job->to = &own[*at];
    job->is_changed = false;
}

static bool apply_bert(struct job *job) {
    const struct normalizer_step *step = job->step;
    struct aligned own[2] = {{0}}, *result = job->to;
    const struct aligned *input = job->from;
    int at = 0;
    bool ok = true;
    job->to = &own[0];
    if (step->cleans) sift(job, judge_bert);
    next_part(job, own, &at);
    if (step->spaces_han && !is_ascii(job->from)) space_han(job);
    next_part(job, own, &at);
    if (step->strips_accents && !form_is_certain(FORM_NFD, job->from->text, job->from->length)) {
        aligned_begin(job->to, job->from->length, job->from->is_tracked);
        job->is_changed = true;
        ok = form_apply(FORM_NFD, job->to, job->from, job->before) || error_memory(job->err, "normalization");
    }
    next_part(job, own, &at);
    if (step->strips_accents && !is_ascii(job->from)) sift(job, judge_accent);
    next_part(job, own, &at);
    if (step->lowers) apply_lowercase(job);
    next_part(job, own, &at);
    if (job->from != input) {
        aligned_begin(result, job->from->length, job->from->is_tracked);
        aligned_copy(result, job->from, 0, job->from->length);
        if (job->from->failed) result->failed = true;
        job->is_changed = true;
    }
    job->to = result;
    aligned_free(&own[0]);
    aligned_free(&own[1]);
    return ok;
}

static bool load_bert(struct normalizer_step *step, const struct json *json, struct arena *arena,
                      struct mx_error *err) {
    (void)arena, (void)err;
    step->cleans = json_bool(json_get(json, "clean_text"), true);
    step->spaces_han = json_bool(json_get(json, "handle_chinese_chars"), true);
    step->lowers = json_bool(json_get(json, "lowercase"), true);
    step->strips_accents = json_bool(json_get(json, "strip_accents"), step->lowers);
    return true;
}

/* ---- Strip, Prepend, ByteLevel ---- */

static bool load_strip(struct normalizer_step *step, const struct json *json, struct arena *arena,
                       struct mx_error *err) {
    (void)arena, (void)err;
    step->strips_left = json_bool(json_get(json, "strip_left"), true);
    step->strips_right = json_bool(json_get(json, "strip_right"), true);
    return true;
}

static bool apply_strip(struct job *job) {
    const char *text = job->from->text;
    size_t start = 0, end = job->from->length;
    uint32_t c;
    while (job->step->strips_left && start < end) {
        size_t n = utf8_decode(text + start, end - start, &c);
        if (!unicode_is_space(c)) break;
        start += n;
    }
    while (job->step->strips_right && end > start) {
        size_t at = end - 1;
        while (at > start && ((unsigned char)text[at] & 0xc0) == 0x80) at--;
        utf8_decode(text + at, end - at, &c);
        if (!unicode_is_space(c)) break;
        end = at;
    }
    if (start == 0 && end == job->from->length) return true;
    aligned_begin(job->to, end - start, job->from->is_tracked);
    aligned_copy(job->to, job->from, start, end);
    job->is_changed = true;
    return true;
}

static bool load_prepend(struct normalizer_step *step, const struct json *json, struct arena *arena,
                         struct mx_error *err) {
    const struct json *text = json_get(json, "prepend");
    if (!json_is_string(text))
        return error_set(err, ERROR_FORMAT, "'prepend' is %s, not a string", json_type_name(text));
    step->text = arena_copy(arena, text->string, text->count);
    step->length = text->count;
    return step->text || error_memory(err, "normalizer");
}

static bool apply_prepend(struct job *job) {
    if (!job->from->length) return true;
    aligned_begin(job->to, job->from->length + job->step->length, job->from->is_tracked);
    aligned_put(job->to, job->step->text, job->step->length,
                job->from->is_tracked ? job->from->origin[0] : job->before);
    aligned_copy(job->to, job->from, 0, job->from->length);
    job->is_changed = true;
    return true;
}

static bool apply_bytelevel(struct job *job) {
    aligned_begin(job->to, job->from->length * 2, job->from->is_tracked);
    for (size_t i = 0; i < job->from->length; i++) {
        char bytes[4];
        size_t n = utf8_encode(bytelevel_character((unsigned char)job->from->text[i]), bytes);
        aligned_put(job->to, bytes, n, job->from->is_tracked ? job->from->origin[i] : job->before);
    }
    job->is_changed = true;
    return true;
}

/* ---- Replace ---- */

static bool load_replace(struct normalizer_step *step, const struct json *json, struct arena *arena,
                         struct mx_error *err) {
    const struct json *pattern = json_get(json, "pattern"), *content = json_get(json, "content");
    const struct json *literal = json_is_string(pattern) ? pattern : json_get(pattern, "String");
    const struct json *regex = json_get(pattern, "Regex");
    if (!json_is_string(content) || !(json_is_string(literal) || json_is_string(regex)))
        return error_set(err, ERROR_FORMAT, "Replace needs a 'pattern' (String or Regex) and a 'content'");
    step->content = arena_copy(arena, content->string, content->count);
    step->content_length = content->count;
    if (!step->content) return error_memory(err, "normalizer");
    if (literal && literal->count) {
        step->text = arena_copy(arena, literal->string, literal->count);
        step->length = literal->count;
        return step->text || error_memory(err, "normalizer");
    }
    step->regex = literal ? regex_compile("", 0, REGEX_ONIGURUMA, err)
                          : regex_compile(regex->string, regex->count, REGEX_ONIGURUMA, err);
    return step->regex != NULL;
}

/* All of what is put in the place of a match comes from its last character. */
static void replace_match(struct job *job, size_t start, size_t end, size_t *copied) {
    if (!job->is_changed) aligned_begin(job->to, job->from->length, job->from->is_tracked);
    job->is_changed = true;
    aligned_copy(job->to, job->from, *copied, start);
    aligned_put(job->to, job->step->content, job->step->content_length,
                job->from->is_tracked && end > 0 ? job->from->origin[end - 1] : job->before);
    *copied = end;
}

static bool apply_replace(struct job *job) {
    const struct normalizer_step *step = job->step;
    const char *text = job->from->text;
    size_t length = job->from->length, at = 0, copied = 0, last_end = SIZE_MAX;
    while (step->text && at < length) {
        const char *found = memmem(text + at, length - at, step->text, step->length);
        if (!found) break;
        at = (size_t)(found - text) + step->length;
        replace_match(job, at - step->length, at, &copied);
    }
    while (step->regex && length && at <= length) {
        size_t start, end;
        enum regex_result result = regex_find(step->regex, job->scratch, text, length, at, &start, &end, job->err);
        if (result == REGEX_ERROR) return false;
        if (result == REGEX_NONE) break;
        if (start == end && end == last_end) { /* no empty match right after a match */
            if (at >= length) break;
            uint32_t c;
            at += utf8_decode(text + at, length - at, &c);
            continue;
        }
        replace_match(job, start, end, &copied);
        at = last_end = end;
        if (job->to->length > MAX_TEXT_BYTES) break;
    }
    if (job->is_changed) aligned_copy(job->to, job->from, copied, length);
    return true;
}

/* ---- Precompiled ---- */

static bool load_precompiled(struct normalizer_step *step, const struct json *json, struct arena *arena,
                             struct mx_error *err) {
    (void)arena;
    const struct json *map = json_get(json, "precompiled_charsmap");
    if (!json_is_string(map)) return error_set(err, ERROR_FORMAT, "Precompiled needs a 'precompiled_charsmap'");
    return charsmap_load_base64(&step->charsmap, map->string, map->count, err);
}

/* The character written last waits, since characters dropped after it count as swallowed by it. */
struct precompiled {
    struct rewrite rewrite;
    bool has_last;
    bool is_shifted; /* characters dropped at the very start count for nothing: what follows takes their places */
    uint32_t last;
    long change;
};

static void flush_last(struct precompiled *p) {
    if (p->has_last) rewrite_put(&p->rewrite, p->last, p->change);
}

static void put_next(struct precompiled *p, uint32_t c, long change) {
    flush_last(p);
    p->has_last = true;
    p->last = c;
    p->change = change;
}

/* Puts `with` in the place of n characters. */
static void exchange(struct precompiled *p, const char *with, size_t n) {
    size_t length = strlen(with), count = 0, valid = utf8_valid_prefix(with, length);
    for (size_t i = 0; i < valid; count++) {
        uint32_t c;
        i += utf8_decode(with + i, valid - i, &c);
        put_next(p, c, count >= n);
    }
    if (count >= n) return;
    if (p->has_last)
        p->change -= (long)(n - count);
    else
        p->is_shifted = true;
}

/* The end of the grapheme that begins at `at`. */
static size_t grapheme_end(const struct aligned *text, size_t at) {
    uint32_t before, after;
    utf8proc_int32_t state = 0;
    at += utf8_decode(text->text + at, text->length - at, &before);
    while (at < text->length) {
        size_t n = utf8_decode(text->text + at, text->length - at, &after);
        if (before < 0x300 && after < 0x300 && !(before == '\r' && after == '\n')) break;
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)after, &state)) break;
        before = after;
        at += n;
    }
    return at;
}

/* Copies the run of ASCII at `at` that the table leaves alone, but for its last character, which may belong together
 * with what follows. Returns where to go on. */
static size_t copy_unmapped(struct precompiled *p, const struct charsmap *map, size_t at) {
    const struct aligned *from = p->rewrite.from;
    size_t end = at;
    while (end < from->length && (unsigned char)from->text[end] < 0x80 && from->text[end] != '\r' &&
           !map->maps_byte[(unsigned char)from->text[end]])
        end++;
    if (end < at + 4 || p->is_shifted) return at;
    flush_last(p);
    p->has_last = false;
    aligned_copy(p->rewrite.to, from, at, end - 2);
    p->rewrite.at += end - 2 - at;
    put_next(p, (unsigned char)from->text[end - 2], 0);
    return end - 1;
}

static bool apply_precompiled(struct job *job) {
    const struct aligned *from = job->from;
    struct precompiled p = {0};
    begin(job, &p.rewrite);
    for (size_t i = 0; i < from->length;) {
        i = copy_unmapped(&p, &job->step->charsmap, i);
        size_t end = grapheme_end(from, i), used;
        const char *with =
            end - i < 6 ? charsmap_find(&job->step->charsmap, from->text + i, end - i, false, &used) : NULL;
        if (with) {
            exchange(&p, with, utf8_count(from->text + i, end - i));
            i = end;
        }
        while (i < end) {
            uint32_t c;
            size_t n = utf8_decode(from->text + i, end - i, &c);
            with = charsmap_find(&job->step->charsmap, from->text + i, n, false, &used);
            if (with)
                exchange(&p, with, 1);
            else
                put_next(&p, c, 0);
            i += n;
        }
    }
    flush_last(&p);
    return true;
}

/* ---- the list of steps ---- */

static const struct step_kind kinds[] = {
    {"BertNormalizer", load_bert, apply_bert, 0},
    {"ByteLevel", NULL, apply_bytelevel, 0},
    {"Lowercase", NULL, apply_lowercase, 0},
    {"NFC", NULL, apply_form, FORM_NFC},
    {"NFD", NULL, apply_form, FORM_NFD},
    {"NFKC", NULL, apply_form, FORM_NFKC},
    {"NFKD", NULL, apply_form, FORM_NFKD},
    {"Nmt", NULL, apply_nmt, 0},
    {"Precompiled", load_precompiled, apply_precompiled, 0},
    {"Prepend", load_prepend, apply_prepend, 0},
    {"Replace", load_replace, apply_replace, 0},
    {"Strip", load_strip, apply_strip, 0},
    {"StripAccents", NULL, apply_strip_accents, 0},
};

static bool load_step(struct normalizer *normalizer, const struct json *json, struct arena *arena,
                      struct mx_error *err) {
    const struct json *type = json_get(json, "type");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!json_string_is(type, kinds[i].name)) continue;
        if (normalizer->n_steps >= MAX_STEPS) return error_set(err, ERROR_LIMIT, "more than %d normalizers", MAX_STEPS);
        if (!array_reserve(&normalizer->steps, &normalizer->capacity, normalizer->n_steps + 1,
                           sizeof *normalizer->steps))
            return error_memory(err, "normalizer");
        struct normalizer_step *step = &normalizer->steps[normalizer->n_steps++];
        *step = (struct normalizer_step){.kind = &kinds[i], .form = kinds[i].form};
        return !kinds[i].load || kinds[i].load(step, json, arena, err);
    }
    if (!json_is_string(type)) return error_set(err, ERROR_FORMAT, "a normalizer without 'type'");
    return error_set(err, ERROR_UNSUPPORTED, "normalizer '%.*s' is not known", (int)(type->count & 0xff), type->string);
}

/* A recursion, bounded by MAX_NESTING. */
static bool load_nested(struct normalizer *normalizer, const struct json *json, struct arena *arena, int depth,
                        struct mx_error *err) {
    if (json_is_null(json)) return true;
    if (depth > MAX_NESTING) return error_set(err, ERROR_LIMIT, "normalizers are nested too deeply");
    if (!json_string_is(json_get(json, "type"), "Sequence")) return load_step(normalizer, json, arena, err);
    const struct json *list = json_get(json, "normalizers");
    if (!json_is_array(list)) return error_set(err, ERROR_FORMAT, "a Sequence without 'normalizers'");
    for (size_t i = 0; i < list->count; i++)
        if (!load_nested(normalizer, &list->items[i], arena, depth + 1, err)) return false;
    return true;
}

bool normalizer_load(struct normalizer *normalizer, const struct json *json, struct arena *arena,
                     struct mx_error *err) {
    return load_nested(normalizer, json, arena, 0, err);
}

void normalizer_free(struct normalizer *normalizer) {
    for (size_t i = 0; i < normalizer->n_steps; i++) {
        regex_destroy(normalizer->steps[i].regex);
        charsmap_free(&normalizer->steps[i].charsmap);
    }
    free(normalizer->steps);
    *normalizer = (struct normalizer){0};
}

bool normalizer_apply(const struct normalizer *normalizer, struct regex_scratch *scratch, struct aligned *text,
                      struct aligned *spare, uint32_t start, struct mx_error *err) {
    for (size_t i = 0; i < normalizer->n_steps; i++) {
        struct job job = {.step = &normalizer->steps[i],
                          .scratch = scratch,
                          .from = text,
                          .to = spare,
                          .before = {start, start},
                          .err = err};
        if (!job.step->kind->apply(&job)) return false;
        if (!job.is_changed) continue;
        struct aligned swap = *text;
        *text = *spare;
        *spare = swap;
        if (text->failed) return error_memory(err, "normalization");
        if (text->length > MAX_TEXT_BYTES) return error_set(err, ERROR_LIMIT, "the text grows to more than 1 GiB");
    }
    return true;
}
