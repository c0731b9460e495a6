/* SPDX-License-Identifier: Apache-2.0 */
/* Most steps find segments that match something, in order and without gaps, and a behavior says how matching and other
 * segments become pieces (the five behaviors of the reference). Each kind of step is a row of `kinds`. */
#include "text/tokenizer/pretokenizer.h"

#include "text/tokenizer/bytelevel.h"
#include "text/tokenizer/unicode.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

#define MAX_STEPS   256
#define MAX_NESTING 16

enum behavior { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };
enum prepend { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct pretokenizer_step {
    const struct step_kind *kind;
    enum behavior behavior;
    bool is_inverted;
    struct regex *regex;
    bool (*matches)(uint32_t code_point); /* for steps that look at single characters */
    uint32_t character;                   /* CharDelimiterSplit, Metaspace */
    enum prepend prepend;
    bool splits;           /* Metaspace: also cuts */
    bool adds_space;       /* ByteLevel */
    uint32_t n_characters; /* FixedLength */
};

struct step_kind {
    const char *name;
    bool (*load)(struct pretokenizer_step *step, const struct json *json, struct mx_error *err);
    bool (*apply)(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece);
    bool rewrites;
};

void pieces_add(struct pieces *pieces, size_t start, size_t end, uint32_t shift) {
    if (start == end) return;
    if (pieces->count == pieces->capacity &&
        (pieces->failed || !array_reserve(&pieces->data, &pieces->capacity, pieces->count + 1, sizeof *pieces->data))) {
        pieces->failed = true;
        return;
    }
    pieces->data[pieces->count++] = (struct piece){.start = (uint32_t)start, .end = (uint32_t)end, .shift = shift};
}

void pieces_free(struct pieces *pieces) {
    free(pieces->data);
    *pieces = (struct pieces){0};
}

/* ---- from segments to pieces ---- */

/* Collects the segments of one piece. `held` is the piece that the next segment may still extend. */
struct splitter {
    const struct aligned *text;
    struct pieces *out;
    struct piece piece;
    enum behavior behavior;
    bool is_inverted;
    bool has_held, was_match;
    size_t held_start, held_end;
};

static void add_piece(const struct splitter *s, size_t start, size_t end) {
    uint32_t shift = s->piece.shift + (uint32_t)(start - s->piece.start);
    if (s->text->is_tracked && start < end) shift = s->text->origin[start].start;
    pieces_add(s->out, start, end, shift);
}

static void hold(struct splitter *s, size_t start, size_t end) {
    if (s->has_held) add_piece(s, s->held_start, s->held_end);
    s->has_held = true;
    s->held_start = start;
    s->held_end = end;
}

/* Positions are those of the whole text. */
static void add_segment(struct splitter *s, size_t start, size_t end, bool is_match) {
    is_match ^= s->is_inverted;
    bool extends = false;
    switch (s->behavior) {
    case ISOLATED: add_piece(s, start, end); return;
    case REMOVED:
        if (!is_match) add_piece(s, start, end);
        return;
    case CONTIGUOUS: extends = s->has_held && is_match == s->was_match; break;
    case MERGED_WITH_PREVIOUS: extends = s->has_held && is_match && !s->was_match; break;
    case MERGED_WITH_NEXT: extends = s->has_held && !is_match && s->was_match; break;
    }
    if (extends)
        s->held_end = end;
    else
        hold(s, start, end);
    s->was_match = is_match;
}

static void finish_segments(struct splitter *s) {
    if (s->has_held) add_piece(s, s->held_start, s->held_end);
}

static struct splitter splitter_for(const struct pretokenizer_step *step, const struct cutting *cutting,
                                    struct piece piece) {
    return (struct splitter){.text = cutting->text,
                             .out = cutting->spare_pieces,
                             .piece = piece,
                             .behavior = step->behavior,
                             .is_inverted = step->is_inverted};
}

static bool split_by_regex(const struct regex *regex, struct splitter *s, const struct cutting *cutting) {
    const char *text = s->text->text + s->piece.start;
    size_t base = s->piece.start, length = s->piece.end - base, at = 0, done = 0, last_end = SIZE_MAX;
    while (at <= length) {
        size_t start, end;
        enum regex_result result = regex_find(regex, cutting->scratch, text, length, at, &start, &end, cutting->err);
        if (result == REGEX_ERROR) return false;
        if (result == REGEX_NONE) break;
        if (start == end && end == last_end) { /* no empty match right after a match */
            if (at >= length) break;
            uint32_t c;
            at += utf8_decode(text + at, length - at, &c);
            continue;
        }
        if (done < start) add_segment(s, base + done, base + start, false);
        add_segment(s, base + start, base + end, true);
        done = at = last_end = end;
    }
    if (done < length) add_segment(s, base + done, base + length, false);
    finish_segments(s);
    return true;
}

/* Each matching character is a segment of its own; the others form runs. */
static void split_by_character(struct splitter *s, bool (*matches)(uint32_t), uint32_t character) {
    const char *text = s->text->text;
    size_t run = s->piece.start, i = run;
    while (i < s->piece.end) {
        uint32_t c;
        size_t n = utf8_decode(text + i, s->piece.end - i, &c);
        if (matches ? matches(c) : c == character) {
            if (run < i) add_segment(s, run, i, false);
            add_segment(s, i, i + n, true);
            run = i + n;
        }
        i += n;
    }
    if (run < i) add_segment(s, run, i, false);
    finish_segments(s);
}

/* ---- steps ---- */

static bool load_behavior(enum behavior *behavior, const struct json *json, struct mx_error *err) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_string_is(json, names[i])) return *behavior = (enum behavior)i, true;
    return error_set(err, ERROR_FORMAT, "unknown 'behavior' of a pre-tokenizer");
}

static bool load_character(uint32_t *character, const struct json *json, const char *key, struct mx_error *err) {
    const struct json *text = json_get(json, key);
    if (json_is_string(text) && utf8_decode(text->string, text->count, character) == text->count && text->count)
        return true;
    return error_set(err, ERROR_FORMAT, "'%s' of a pre-tokenizer is not one character", key);
}

static bool load_split(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    const struct json *pattern = json_get(json, "pattern");
    const struct json *literal = json_is_string(pattern) ? pattern : json_get(pattern, "String");
    const struct json *regex = json_get(pattern, "Regex");
    if (!load_behavior(&step->behavior, json_get(json, "behavior"), err)) return false;
    step->is_inverted = json_bool(json_get(json, "invert"), false);
    if (json_is_string(regex)) {
        step->regex = regex_compile(regex->string, regex->count, REGEX_ONIGURUMA, err);
        return step->regex != NULL;
    }
    if (!json_is_string(literal)) return error_set(err, ERROR_FORMAT, "Split needs a 'pattern' (String or Regex)");
    struct buffer escaped = {0};
    for (size_t i = 0; i < literal->count; i++) {
        char c = literal->string[i];
        if ((unsigned char)c < 0x80)
            buffer_printf(&escaped, "\\x{%x}", (unsigned)c);
        else
            buffer_putc(&escaped, c);
    }
    if (escaped.failed)
        error_memory(err, "pre-tokenizer");
    else
        step->regex = regex_compile(escaped.data ? escaped.data : "", escaped.length, REGEX_ONIGURUMA, err);
    buffer_free(&escaped);
    return step->regex != NULL;
}

static bool apply_split(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece) {
    struct splitter s = splitter_for(step, cutting, piece);
    return split_by_regex(step->regex, &s, cutting);
}

static bool apply_characters(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece) {
    struct splitter s = splitter_for(step, cutting, piece);
    split_by_character(&s, step->matches, step->character);
    return true;
}

static bool load_punctuation(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    step->matches = unicode_is_punctuation;
    step->behavior = ISOLATED;
    const struct json *behavior = json_get(json, "behavior");
    return json_is_null(behavior) || load_behavior(&step->behavior, behavior, err);
}

static bool load_digits(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    (void)err;
    step->matches = unicode_is_numeric;
    step->behavior = json_bool(json_get(json, "individual_digits"), false) ? ISOLATED : CONTIGUOUS;
    return true;
}

static bool load_delimiter(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    step->behavior = REMOVED;
    return load_character(&step->character, json, "delimiter", err);
}

static bool load_whitespace_split(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    (void)json, (void)err;
    step->matches = unicode_is_space;
    step->behavior = REMOVED;
    return true;
}

/* \w+|[^\w\s]+ */
static bool apply_whitespace(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece) {
    struct splitter s = splitter_for(step, cutting, piece);
    size_t run = piece.start, i = run;
    int run_kind = 0;
    while (i < piece.end) {
        uint32_t c;
        size_t n = utf8_decode(s.text->text + i, piece.end - i, &c);
        int kind = unicode_is_word(c) ? 1 : unicode_is_space(c) ? 0 : 2;
        if (kind != run_kind) {
            if (run_kind) add_piece(&s, run, i);
            run = i;
            run_kind = kind;
        }
        i += n;
    }
    if (run_kind) add_piece(&s, run, i);
    return true;
}

/* White space is dropped, each punctuation character is a piece. */
static bool apply_bert(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece) {
    struct splitter s = splitter_for(step, cutting, piece);
    size_t run = piece.start, i = run;
    while (i < piece.end) {
        uint32_t c;
        size_t n = utf8_decode(s.text->text + i, piece.end - i, &c);
        bool is_space = unicode_is_space(c);
        if (is_space || unicode_is_punctuation(c)) {
            add_piece(&s, run, i);
            if (!is_space) add_piece(&s, i, i + n);
            run = i + n;
        }
        i += n;
    }
    add_piece(&s, run, i);
    return true;
}

/* Cuts where the script changes. Kana count as Han; spaces and code points without a script belong to any, but those in
 * front are dropped. */
static bool apply_scripts(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece) {
    struct splitter s = splitter_for(step, cutting, piece);
    size_t run = SIZE_MAX, i = piece.start;
    int last = -1;
    while (i < piece.end) {
        uint32_t c;
        size_t n = utf8_decode(s.text->text + i, piece.end - i, &c);
        int script = c == 0x30fc ? unicode_script_han : unicode_script_of(c);
        if (script == unicode_script_hiragana || script == unicode_script_katakana) script = unicode_script_han;
        if (c != ' ' && script && script != last) {
            if (run != SIZE_MAX) add_piece(&s, run, i);
            run = i;
            last = script;
        }
        i += n;
    }
    if (run != SIZE_MAX) add_piece(&s, run, i);
    return true;
}

static bool load_fixed_length(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    int64_t n = json_integer(json_get(json, "length"), 5);
    if (n < 1 || n > UINT32_MAX) return error_set(err, ERROR_FORMAT, "FixedLength: 'length' must be above 0");
    step->n_characters = (uint32_t)n;
    return true;
}

static bool apply_fixed_length(const struct pretokenizer_step *step, const struct cutting *cutting,
                               struct piece piece) {
    struct splitter s = splitter_for(step, cutting, piece);
    size_t run = piece.start, i = run;
    for (uint32_t count = 0; i < piece.end;) {
        uint32_t c;
        i += utf8_decode(s.text->text + i, piece.end - i, &c);
        if (++count < step->n_characters && i < piece.end) continue;
        add_piece(&s, run, i);
        run = i;
        count = 0;
    }
    return true;
}

/* ---- steps that rewrite ---- */

static bool load_metaspace(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    const struct json *scheme = json_get(json, "prepend_scheme");
    step->behavior = MERGED_WITH_NEXT;
    step->splits = json_bool(json_get(json, "split"), true);
    if (json_is_null(scheme) || json_string_is(scheme, "always"))
        step->prepend = PREPEND_ALWAYS;
    else if (json_string_is(scheme, "first"))
        step->prepend = PREPEND_FIRST;
    else if (json_string_is(scheme, "never"))
        step->prepend = PREPEND_NEVER;
    else
        return error_set(err, ERROR_FORMAT, "unknown 'prepend_scheme' of Metaspace");
    if (!json_bool(json_get(json, "add_prefix_space"), true)) step->prepend = PREPEND_NEVER;
    step->character = 0x2581;
    return json_is_null(json_get(json, "replacement")) || load_character(&step->character, json, "replacement", err);
}

static bool apply_metaspace(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece) {
    const struct aligned *from = cutting->text;
    struct aligned *to = cutting->spare_text;
    char replacement[4];
    size_t n = utf8_encode(step->character, replacement), start = to->length, copied = piece.start;
    const char *text = from->text + piece.start;
    bool is_marked = *text == ' ' || (piece.end - piece.start >= n && !memcmp(text, replacement, n));
    if (!is_marked && (step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && piece.shift == 0)))
        aligned_put(to, replacement, n, from->is_tracked ? from->origin[piece.start] : (struct origin){0});
    while (copied < piece.end) {
        const char *space = memchr(from->text + copied, ' ', piece.end - copied);
        size_t at = space ? (size_t)(space - from->text) : piece.end;
        aligned_copy(to, from, copied, at);
        if (space) aligned_put(to, replacement, n, from->is_tracked ? from->origin[at] : (struct origin){0});
        copied = at + (space != NULL);
    }
    if (to->failed) return error_memory(cutting->err, "pre-tokenizer");
    piece.start = (uint32_t)start;
    piece.end = (uint32_t)to->length;
    if (!step->splits) {
        pieces_add(cutting->spare_pieces, piece.start, piece.end, piece.shift);
        return true;
    }
    struct splitter s = splitter_for(step, cutting, piece);
    s.text = to;
    split_by_character(&s, NULL, step->character);
    return true;
}

static bool load_bytelevel(struct pretokenizer_step *step, const struct json *json, struct mx_error *err) {
    step->behavior = ISOLATED;
    step->adds_space = json_bool(json_get(json, "add_prefix_space"), true);
    if (!json_bool(json_get(json, "use_regex"), true)) return true;
    step->regex = regex_compile(BYTELEVEL_PATTERN, strlen(BYTELEVEL_PATTERN), REGEX_ONIGURUMA, err);
    return step->regex != NULL;
}

/* The first half of ByteLevel: the leading space, and the cuts. */
static bool apply_bytelevel_cuts(const struct pretokenizer_step *step, const struct cutting *cutting,
                                 struct piece piece) {
    const struct aligned *from = cutting->text;
    struct aligned *to = cutting->spare_text;
    size_t start = to->length;
    if (step->adds_space && from->text[piece.start] != ' ')
        aligned_put(to, " ", 1, from->is_tracked ? from->origin[piece.start] : (struct origin){0});
    aligned_copy(to, from, piece.start, piece.end);
    if (to->failed) return error_memory(cutting->err, "pre-tokenizer");
    piece.start = (uint32_t)start;
    piece.end = (uint32_t)to->length;
    if (!step->regex) {
        pieces_add(cutting->spare_pieces, piece.start, piece.end, piece.shift);
        return true;
    }
    struct splitter s = splitter_for(step, cutting, piece);
    s.text = to;
    return split_by_regex(step->regex, &s, cutting);
}

/* The second half: one character for each byte. */
static bool map_bytes(const struct cutting *cutting, struct piece piece) {
    const struct aligned *from = cutting->text;
    struct aligned *to = cutting->spare_text;
    size_t start = to->length;
    for (size_t i = piece.start; i < piece.end; i++) {
        char bytes[4];
        size_t n = utf8_encode(bytelevel_character((unsigned char)from->text[i]), bytes);
        aligned_put(to, bytes, n, from->is_tracked ? from->origin[i] : (struct origin){0});
    }
    pieces_add(cutting->spare_pieces, start, to->length, piece.shift);
    return !to->failed || error_memory(cutting->err, "pre-tokenizer");
}

/* ---- the list of steps ---- */

static const struct step_kind kinds[] = {
    {"BertPreTokenizer", NULL, apply_bert, false},
    {"ByteLevel", load_bytelevel, NULL, true},
    {"CharDelimiterSplit", load_delimiter, apply_characters, false},
    {"Digits", load_digits, apply_characters, false},
    {"FixedLength", load_fixed_length, apply_fixed_length, false},
    {"Metaspace", load_metaspace, apply_metaspace, true},
    {"Punctuation", load_punctuation, apply_characters, false},
    {"Split", load_split, apply_split, false},
    {"UnicodeScripts", NULL, apply_scripts, false},
    {"Whitespace", NULL, apply_whitespace, false},
    {"WhitespaceSplit", load_whitespace_split, apply_characters, false},
};

static bool load_step(struct pretokenizer *pre, const struct json *json, struct mx_error *err) {
    const struct json *type = json_get(json, "type");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!json_string_is(type, kinds[i].name)) continue;
        if (pre->n_steps >= MAX_STEPS) return error_set(err, ERROR_LIMIT, "more than %d pre-tokenizers", MAX_STEPS);
        if (!array_reserve(&pre->steps, &pre->capacity, pre->n_steps + 1, sizeof *pre->steps))
            return error_memory(err, "pre-tokenizer");
        struct pretokenizer_step *step = &pre->steps[pre->n_steps++];
        *step = (struct pretokenizer_step){.kind = &kinds[i]};
        return !kinds[i].load || kinds[i].load(step, json, err);
    }
    if (!json_is_string(type)) return error_set(err, ERROR_FORMAT, "a pre-tokenizer without 'type'");
    return error_set(err, ERROR_UNSUPPORTED, "pre-tokenizer '%.*s' is not known", (int)(type->count & 0xff),
                     type->string);
}

/* A recursion, bounded by MAX_NESTING. */
static bool load_nested(struct pretokenizer *pre, const struct json *json, int depth, struct mx_error *err) {
    if (json_is_null(json)) return true;
    if (depth > MAX_NESTING) return error_set(err, ERROR_LIMIT, "pre-tokenizers are nested too deeply");
    if (!json_string_is(json_get(json, "type"), "Sequence")) return load_step(pre, json, err);
    const struct json *list = json_get(json, "pretokenizers");
    if (!json_is_array(list)) return error_set(err, ERROR_FORMAT, "a Sequence without 'pretokenizers'");
    for (size_t i = 0; i < list->count; i++)
        if (!load_nested(pre, &list->items[i], depth + 1, err)) return false;
    return true;
}

bool pretokenizer_add_pattern(struct pretokenizer *pre, const char *pattern, size_t length, struct mx_error *err) {
    static const struct step_kind split = {"Split", load_split, apply_split, false};
    struct pretokenizer_step step = {.kind = &split, .behavior = REMOVED, .is_inverted = true};
    if (!array_reserve(&pre->steps, &pre->capacity, pre->n_steps + 1, sizeof *pre->steps))
        return error_memory(err, "pre-tokenizer");
    step.regex = regex_compile(pattern, length, REGEX_RUST, err);
    if (!step.regex) return false;
    pre->steps[pre->n_steps++] = step;
    return true;
}

bool pretokenizer_load(struct pretokenizer *pre, const struct json *json, struct mx_error *err) {
    return load_nested(pre, json, 0, err);
}

void pretokenizer_free(struct pretokenizer *pre) {
    for (size_t i = 0; i < pre->n_steps; i++) regex_destroy(pre->steps[i].regex);
    free(pre->steps);
    *pre = (struct pretokenizer){0};
}

static bool is_bytelevel(const struct pretokenizer_step *step) { return step->kind->apply == NULL; }

bool pretokenizer_ends_in_bytelevel(const struct pretokenizer *pre) {
    return pre->n_steps && is_bytelevel(&pre->steps[pre->n_steps - 1]);
}

bool pretokenizer_needs_origins(const struct pretokenizer *pre, bool is_rewritten) {
    for (size_t i = 0; i < pre->n_steps; i++) {
        if (pre->steps[i].kind->apply == apply_metaspace && pre->steps[i].prepend == PREPEND_FIRST && is_rewritten)
            return true;
        is_rewritten = is_rewritten || pre->steps[i].kind->rewrites;
    }
    return false;
}

static void swap_pieces(const struct cutting *cutting) {
    struct pieces pieces = *cutting->pieces;
    *cutting->pieces = *cutting->spare_pieces;
    *cutting->spare_pieces = pieces;
}

static void swap_text(const struct cutting *cutting) {
    struct aligned text = *cutting->text;
    *cutting->text = *cutting->spare_text;
    *cutting->spare_text = text;
}

typedef bool (*piece_step)(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece);

static bool run_over_pieces(const struct pretokenizer_step *step, piece_step apply, bool rewrites,
                            const struct cutting *cutting) {
    cutting->spare_pieces->count = 0;
    cutting->spare_pieces->failed = false;
    if (rewrites) aligned_begin(cutting->spare_text, cutting->text->length, cutting->text->is_tracked);
    for (size_t i = 0; i < cutting->pieces->count; i++)
        if (!apply(step, cutting, cutting->pieces->data[i])) return false;
    if (cutting->spare_pieces->failed) return error_memory(cutting->err, "pre-tokenizer");
    if (rewrites) swap_text(cutting);
    swap_pieces(cutting);
    return true;
}

static bool apply_byte_map(const struct pretokenizer_step *step, const struct cutting *cutting, struct piece piece) {
    (void)step;
    return map_bytes(cutting, piece);
}

bool pretokenizer_apply(const struct pretokenizer *pre, const struct cutting *cutting) {
    for (size_t i = 0; i < pre->n_steps; i++) {
        const struct pretokenizer_step *step = &pre->steps[i];
        if (!is_bytelevel(step)) {
            if (!run_over_pieces(step, step->kind->apply, step->kind->rewrites, cutting)) return false;
            continue;
        }
        if (step->adds_space) {
            if (!run_over_pieces(step, apply_bytelevel_cuts, true, cutting)) return false;
        } else if (step->regex && !run_over_pieces(step, apply_split, false, cutting)) {
            return false;
        }
        bool keeps_bytes = pre->keeps_bytes && i + 1 == pre->n_steps;
        if (!keeps_bytes && !run_over_pieces(step, apply_byte_map, true, cutting)) return false;
    }
    return true;
}
