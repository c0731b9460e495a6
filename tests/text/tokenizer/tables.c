/* SPDX-License-Identifier: Apache-2.0 */
/* Single code points: what a normalizer makes of each, where a pre-tokenizer cuts around it, and whether it bounds an
 * added token. */
#include "tests/text/tokenizer/vectors.h"

#include "tests/support/tap.h"
#include "tests/text/tokenizer/workbench.h"

#include "base/file.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NOTES = 5 };

/* Code points that a table covers without gaps. */
static bool is_covered(uint32_t c) {
    return (c < 0x32000 && (c < 0xd800 || c > 0xdfff)) || (c >= 0xe0000 && c <= 0xe01ff);
}

/* The lines of a table; each call gives the next, cut at its tab. */
static bool next_row(char **at, char **first, char **second) {
    if (!*at || !**at) return false;
    char *end = strchr(*at, '\n'), *tab;
    if (end) *end = '\0';
    *first = *at;
    tab = strchr(*at, '\t');
    *second = tab ? tab + 1 : *at + strlen(*at);
    if (tab) *tab = '\0';
    *at = end ? end + 1 : NULL;
    return true;
}

static char *read_table(const char *vectors, const char *name) {
    char path[4600];
    struct vector_file file;
    snprintf(path, sizeof path, "%s/unicode/%s.tsv.xz", vectors, name);
    return text_read(&file, path) ? file.text : NULL;
}

/* ---- normalizers ---- */

/* The normal form as code points in hexadecimal. */
static void spell(const struct workbench *w, struct buffer *out) {
    buffer_clear(out);
    for (size_t i = 0; i < w->text.length;) {
        uint32_t c;
        i += utf8_decode(w->text.text + i, w->text.length - i, &c);
        buffer_printf(out, "%s%04X", out->length ? " " : "", c);
    }
    if (!out->data) buffer_puts(out, "");
}

static bool normalizes_to(struct workbench *w, const struct tokenizer *t, uint32_t c, const char *expected,
                          struct buffer *spelled) {
    char text[4];
    if (!workbench_normalize(w, t, text, utf8_encode(c, text))) return false;
    spell(w, spelled);
    return !strcmp(spelled->data, expected);
}

static void check_normalizer(const char *vectors, const char *name, const char *folder) {
    struct workbench w = {0};
    struct buffer spelled = {0};
    struct mx_error err = {0};
    struct tokenizer *t = tokenizer_open(folder, &err);
    char *table = read_table(vectors, name), *at = table, *first, *second, expected[32];
    size_t n = 0, n_wrong = 0;
    uint32_t next = 0;
    for (bool more = t && table; more;) {
        more = next_row(&at, &first, &second);
        uint32_t c = more ? (uint32_t)strtoul(first, NULL, 16) : 0xe0200;
        for (; next < c; next++) {
            if (!is_covered(next)) continue;
            snprintf(expected, sizeof expected, "%04X", next);
            n++;
            if (!normalizes_to(&w, t, next, expected, &spelled) && n_wrong++ < MAX_NOTES)
                tap_note("%s: U+%04X gives %s", name, next, spelled.data);
        }
        if (!more) break;
        n++;
        if (!normalizes_to(&w, t, c, second, &spelled) && n_wrong++ < MAX_NOTES)
            tap_note("%s: U+%04X gives %s, expected %s", name, c, spelled.data, second);
        next = c + 1;
    }
    tap_ok(n > 200000 && !n_wrong, "code_points_%s (%zu of %zu)", name, n - n_wrong, n);
    if (!t) tap_note("%s", err.message);
    free(table);
    buffer_free(&spelled);
    tokenizer_close(t);
    workbench_free(&w);
}

/* ---- pre-tokenizers ---- */

/* Appends the cuts of one probe, as "0:1,1:2". */
static bool add_cuts(struct workbench *w, const struct tokenizer *t, const char *text, struct buffer *out) {
    if (!workbench_cut(w, t, text, strlen(text))) return false;
    for (size_t i = 0; i < w->pieces.count; i++) {
        size_t start, end;
        workbench_range(w, w->pieces.data[i], text, &start, &end);
        buffer_printf(out, "%s%zu:%zu", i ? "," : "", start, end);
    }
    return true;
}

static bool cuts_as(struct workbench *w, const struct tokenizer *t, uint32_t c, const char *expected,
                    struct buffer *cuts) {
    char character[5] = "", text[16];
    size_t n = utf8_encode(c, character);
    static const char *const formats[] = {"a%sb", " %s%s", "%s1", "A%s!"};
    character[n] = '\0';
    buffer_clear(cuts);
    for (size_t i = 0; i < 4; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
        snprintf(text, sizeof text, formats[i], character, character);
#pragma GCC diagnostic pop
        if (i) buffer_puts(cuts, " | ");
        if (!add_cuts(w, t, text, cuts)) return false;
    }
    return cuts->data && !strcmp(cuts->data, expected);
}

static void check_pretokenizer(const char *vectors, const char *name, const char *folder) {
    struct workbench w = {0};
    struct buffer cuts = {0};
    struct mx_error err = {0};
    struct tokenizer *t = tokenizer_open(folder, &err);
    char *table = read_table(vectors, name), *at = table, *first, *second;
    size_t n = 0, n_wrong = 0;
    while (t && next_row(&at, &first, &second)) {
        uint32_t c = (uint32_t)strtoul(first, &first, 16);
        uint32_t last = *first == '-' ? (uint32_t)strtoul(first + 1, NULL, 16) : c;
        for (uint32_t start = c; c <= last; c++) {
            if (!c || (c >= 0xd800 && c <= 0xdfff)) continue;          /* NUL ends a probe */
            if (c > start + 256 && c + 256 < last && c % 16) continue; /* of long ranges a part */
            n++;
            if (!cuts_as(&w, t, c, second, &cuts) && n_wrong++ < MAX_NOTES)
                tap_note("%s: U+%04X gives %s, expected %s", name, c, cuts.data, second);
        }
    }
    tap_ok(n > 10000 && !n_wrong, "code_points_%s (%zu of %zu)", name, n - n_wrong, n);
    if (!t) tap_note("%s", err.message);
    free(table);
    buffer_free(&cuts);
    tokenizer_close(t);
    workbench_free(&w);
}

/* ---- added tokens ---- */

static const char bounded_tokenizer[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},\"added_tokens\":["
    "{\"id\":0,\"content\":\"QQ\",\"special\":true,\"normalized\":false,\"single_word\":true},"
    "{\"id\":1,\"content\":\"LL\",\"special\":true,\"normalized\":false,\"lstrip\":true},"
    "{\"id\":2,\"content\":\"RR\",\"special\":true,\"normalized\":false,\"rstrip\":true}]}";

/* Whether a text of a character and a token (in either order) has a token, of `size` code points. */
static bool has_token(const struct tokenizer *t, const char *before, const char *after, uint32_t size,
                      struct token_list *list) {
    char text[16];
    int n = snprintf(text, sizeof text, "%s%s", before, after);
    return tokenizer_encode(t, text, (size_t)n, TOKENIZE_OFFSETS, list, NULL) && list->count == 1 &&
           list->spans[0].end - list->spans[0].start == size;
}

static void check_boundaries(const char *vectors) {
    char folder[4000], path[4200];
    struct token_list list = {0};
    char *table = read_table(vectors, "added-boundaries"), *at = table, *first, *second;
    size_t n = 0, n_wrong = 0;
    if (!folder_make_temporary(folder, sizeof folder)) return;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    file_write_atomic(path, bounded_tokenizer, sizeof bounded_tokenizer - 1, NULL);
    struct tokenizer *t = tokenizer_open(folder, NULL);
    while (t && next_row(&at, &first, &second)) {
        uint32_t c = (uint32_t)strtoul(first, &first, 16);
        uint32_t last = *first == '-' ? (uint32_t)strtoul(first + 1, NULL, 16) : c;
        for (; c <= last; c++) {
            char character[5] = "", flags[5];
            if (!c || (c >= 0xd800 && c <= 0xdfff)) continue;
            character[utf8_encode(c, character)] = '\0';
            flags[0] = has_token(t, character, "QQ", 2, &list) ? 'W' : '-';
            flags[1] = has_token(t, "QQ", character, 2, &list) ? 'w' : '-';
            flags[2] = has_token(t, character, "LL", 3, &list) ? 'L' : '-';
            flags[3] = has_token(t, "RR", character, 3, &list) ? 'R' : '-';
            flags[4] = '\0';
            n++;
            if (strcmp(flags, second) != 0 && n_wrong++ < MAX_NOTES)
                tap_note("U+%04X gives %s, expected %s", c, flags, second);
        }
    }
    tap_ok(n > 200000 && !n_wrong, "code_points_around_added_tokens (%zu of %zu)", n - n_wrong, n);
    tokenizer_close(t);
    token_list_free(&list);
    folder_remove(folder);
    free(table);
}

/* ---- all tables ---- */

/* Tables named otherwise than the tokenizer that has their part. */
static const struct {
    const char *table, *tokenizer;
} others[] = {
    {"norm-bert-cased", "wordpiece-cased"},   {"norm-bert-noclean", "wordpiece-noclean"},
    {"pre-split-cl100k", "bpe-split-cl100k"}, {"pre-split-deepseek", "bpe-split-deepseek"},
    {"pre-split-o200k", "bpe-split-o200k"},   {"pre-split-qwen", "bpe-split-qwen"},
};

void compare_unicode_tables(const char *vectors, const char *synthetic, const char *real) {
    struct arena arena = {0};
    char **names = NULL;
    size_t n = 0;
    folder_list(&arena, path_join(&arena, vectors, "unicode"), ".tsv.xz", &names, &n, NULL);
    for (size_t i = 0; i < n; i++) {
        char *name = names[i];
        name[strlen(name) - 7] = '\0';
        const char *folder = path_join(&arena, synthetic, name);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (!strcmp(name, others[k].table)) folder = path_join(&arena, synthetic, others[k].tokenizer);
        if (!strcmp(name, "norm-precompiled-t5")) folder = path_join(&arena, real, "t5-small");
        if (!strcmp(name, "added-boundaries"))
            check_boundaries(vectors);
        else if (!strncmp(name, "norm-", 5))
            check_normalizer(vectors, name, folder);
        else
            check_pretokenizer(vectors, name, folder);
    }
    tap_ok(n >= 29, "the_code_point_tables_are_there (%zu)", n);
    arena_free(&arena);
}
