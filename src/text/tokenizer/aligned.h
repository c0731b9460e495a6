/* SPDX-License-Identifier: Apache-2.0 */
/* Text that remembers where it came from.
 *
 * Normalizers and pre-tokenizers rewrite a text step by step. For each byte of the current form, `origin` holds the
 * range of bytes of the input that it stands for; without offsets wanted, origin stays NULL and nothing is tracked. A
 * step reads one struct aligned and writes another.
 *
 * The rules are those of the reference library's NormalizedString: a step says for each character it writes whether it
 * replaces one (change 0), replaces one and swallows n more (change -n), or is new (change 1, it shares the origin of
 * the byte before). */
#ifndef MLXCEL_TEXT_ALIGNED_H
#define MLXCEL_TEXT_ALIGNED_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct origin {
    uint32_t start, end; /* bytes of the input */
};

struct aligned {
    char *text;
    struct origin *origin; /* for each byte of text; NULL when not tracked */
    size_t length;
    size_t capacity, origin_capacity;
    bool is_tracked;
    bool failed; /* an allocation failed; appending does nothing from then on */
};

/* Makes `aligned` hold a copy of text, each character standing for itself, at `shift` bytes into the input. */
void aligned_set(struct aligned *aligned, const char *text, size_t length, uint32_t shift, bool is_tracked);
/* Empties it, to be written by a step that reads a text of `expected` bytes. */
void aligned_begin(struct aligned *aligned, size_t expected, bool is_tracked);
/* Appends bytes from .. to of another text with their origins. */
void aligned_copy(struct aligned *aligned, const struct aligned *from, size_t start, size_t end);
/* Appends bytes that all come from one origin. */
void aligned_put(struct aligned *aligned, const char *bytes, size_t length, struct origin origin);
void aligned_free(struct aligned *aligned);

/* A rewriting of from[start .. end) into `to`, character by character. */
struct rewrite {
    struct aligned *to;
    const struct aligned *from;
    size_t start, end;
    size_t at;            /* the next byte of `from` that is not used up */
    struct origin before; /* origin of a character that is new at the very start */
};

void rewrite_begin(struct rewrite *rewrite, struct aligned *to, const struct aligned *from, size_t start, size_t end,
                   struct origin before);
/* Drops n characters of the source. */
void rewrite_skip(struct rewrite *rewrite, size_t n);
void rewrite_put(struct rewrite *rewrite, uint32_t code_point, long change);
/* The next character of the source unchanged. */
void rewrite_keep(struct rewrite *rewrite);

#endif
