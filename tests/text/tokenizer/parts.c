/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers and pre-tokenizers by themselves. */
#include "tests/text/tokenizer/vectors.h"
#include "tests/text/tokenizer/workbench.h"

#include "base/utf8.h"

#include <string.h>

void workbench_free(struct workbench *w) {
    aligned_free(&w->text);
    aligned_free(&w->spare);
    pieces_free(&w->pieces);
    pieces_free(&w->spare_pieces);
    regex_scratch_free(&w->scratch);
}

bool workbench_normalize(struct workbench *w, const struct tokenizer *t, const char *text, size_t length) {
    aligned_set(&w->text, text, length, 0, true);
    return regex_scratch_begin(&w->scratch, length, NULL) &&
           normalizer_apply(&t->normalizer, &w->scratch, &w->text, &w->spare, 0, NULL);
}

bool workbench_cut(struct workbench *w, const struct tokenizer *t, const char *text, size_t length) {
    struct pretokenizer whole = t->pretokenizer;
    whole.keeps_bytes = false;
    aligned_set(&w->text, text, length, 0, true);
    w->pieces.count = 0;
    pieces_add(&w->pieces, 0, length, 0);
    const struct cutting cutting = {&w->text, &w->spare, &w->pieces, &w->spare_pieces, &w->scratch, NULL};
    return regex_scratch_begin(&w->scratch, length, NULL) && pretokenizer_apply(&whole, &cutting);
}

void workbench_range(const struct workbench *w, struct piece piece, const char *text, size_t *start, size_t *end) {
    struct origin first = w->text.origin[piece.start], last = w->text.origin[piece.end - 1];
    *start = utf8_count(text, first.start);
    *end = utf8_count(text, last.end);
}

static const char *compare_line(struct workbench *w, const struct tokenizer *t, const struct json *line) {
    const struct json *text = json_get(line, "text"), *normalized = json_get(line, "normalized");
    const struct json *pre = json_get(line, "pre");
    if (normalized && (!workbench_normalize(w, t, text->string, text->count) || w->text.length != normalized->count ||
                       (normalized->count && memcmp(w->text.text, normalized->string, normalized->count) != 0)))
        return "normalized";
    if (!pre) return NULL;
    if (!normalized) normalized = text;
    if (!workbench_cut(w, t, normalized->string, normalized->count) || w->pieces.count != pre->count) return "pre";
    for (size_t i = 0; i < pre->count; i++) {
        const struct json *piece = json_at(&pre->items[i], 0), *range = json_at(&pre->items[i], 1);
        struct piece found = w->pieces.data[i];
        size_t start, end, length = found.end - found.start;
        workbench_range(w, found, normalized->string, &start, &end);
        if (length != piece->count || memcmp(w->text.text + found.start, piece->string, length) != 0 ||
            json_integer(json_at(range, 0), -1) != (int64_t)start ||
            json_integer(json_at(range, 1), -1) != (int64_t)end)
            return "pre";
    }
    return NULL;
}

void compare_parts(struct tally *tally, const struct tokenizer *t, const struct vector_file *file) {
    struct workbench w = {0};
    for (size_t i = 0; i < file->n_lines; i++)
        if (json_is_string(json_get(file->lines[i], "text")))
            tally_line(tally, file->lines[i], compare_line(&w, t, file->lines[i]));
    workbench_free(&w);
}
