/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sampler_dry.h"

#include "base/memory.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- breakers ---- */

bool dry_breakers_add(struct dry_breakers *b, struct breaker_ids sequence, struct mx_error *err) {
    if (!sequence.n) return true;
    size_t n_tail = sequence.n - 1 < DRY_BREAKER_TAIL ? sequence.n - 1 : DRY_BREAKER_TAIL;
    if (!array_reserve(&b->breakers, &b->capacity, b->n + 1, sizeof *b->breakers) ||
        !array_reserve(&b->tails, &b->tails_capacity, b->n_tails + n_tail, sizeof *b->tails))
        return error_memory(err, "sequence breakers");
    if (n_tail) memcpy(b->tails + b->n_tails, sequence.tokens + 1, n_tail * sizeof *b->tails);
    b->breakers[b->n++] = (struct dry_breaker){sequence.tokens[0], (uint32_t)b->n_tails, (uint32_t)n_tail};
    b->n_tails += n_tail;
    return true;
}

static int compare_breakers(const void *left, const void *right) {
    const struct dry_breaker *a = left, *b = right;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    if (a->n_tail != b->n_tail) return a->n_tail > b->n_tail ? -1 : 1;
    return a->tail < b->tail ? -1 : a->tail > b->tail;
}

void dry_breakers_finish(struct dry_breakers *b) {
    if (b->n) qsort(b->breakers, b->n, sizeof *b->breakers, compare_breakers);
}

void dry_breakers_free(struct dry_breakers *b) {
    free(b->breakers);
    free(b->tails);
    memset(b, 0, sizeof *b);
}

static bool contains(struct byte_span text, struct byte_span part) {
    return part.n <= text.n && memmem(text.bytes, text.n, part.bytes, part.n) != NULL;
}

/* The sequences of one string that begin in one piece. */
static bool add_piece(struct dry_breakers *b, struct byte_span string, uint32_t token, struct byte_span piece,
                      dry_encode encode, void *context, struct mx_error *err) {
    uint32_t ids[1 + DRY_BREAKER_TAIL] = {token};
    if (contains(piece, string)) return dry_breakers_add(b, (struct breaker_ids){ids, 1}, err);
    size_t longest = piece.n < string.n ? piece.n : string.n - 1;
    for (size_t n = longest; n > 0; n--) {
        if (memcmp(piece.bytes + piece.n - n, string.bytes, n)) continue;
        size_t n_tail = encode(context, string.bytes + n, string.n - n, ids + 1, DRY_BREAKER_TAIL);
        if (n_tail && !dry_breakers_add(b, (struct breaker_ids){ids, 1 + n_tail}, err)) return false;
    }
    return true;
}

bool dry_breakers_from_strings(struct dry_breakers *b, const struct byte_span *strings, size_t n_strings,
                               const struct byte_span *pieces, uint32_t n_pieces, dry_encode encode, void *context,
                               struct mx_error *err) {
    for (size_t s = 0; s < n_strings; s++) {
        struct byte_span string = strings[s];
        if (string.n > DRY_BREAKER_BYTES) string.n = DRY_BREAKER_BYTES;
        for (uint32_t i = 0; string.n && i < n_pieces; i++)
            if (pieces[i].n && !add_piece(b, string, i, pieces[i], encode, context, err)) return false;
    }
    dry_breakers_finish(b);
    return true;
}

/* The first breaker with that head, or the end of the list. */
static size_t find_head(const struct dry_breakers *b, uint32_t head) {
    size_t low = 0, high = b->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->breakers[middle].head < head)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->n && b->breakers[low].head == head ? low : b->n;
}

bool dry_is_breaker(const struct dry_breakers *b, uint32_t token) {
    if (!b) return false;
    for (size_t i = find_head(b, token); i < b->n && b->breakers[i].head == token; i++)
        if (!b->breakers[i].n_tail) return true;
    return false;
}

/* How many tokens follow the last breaker. */
static size_t since_breaker(const struct dry_breakers *b, const uint32_t *tokens, size_t n) {
    if (!b || !b->n) return n;
    for (size_t after = 0; after < n; after++) { /* tokens after the one looked at */
        const uint32_t *rest = tokens + n - after;
        for (size_t i = find_head(b, rest[-1]); i < b->n && b->breakers[i].head == rest[-1]; i++) {
            size_t n_tail = b->breakers[i].n_tail;
            if (n_tail <= after && (!n_tail || !memcmp(b->tails + b->breakers[i].tail, rest, n_tail * sizeof *rest)))
                return after - n_tail;
        }
    }
    return n;
}

/* ---- repetitions ---- */

/* repeats[k], 0 < k < n: how many tokens before the place k from the end equal those at the end, i.e. the longest
 * common prefix of the reversed text and the reversed text from k on. The Z algorithm (Gusfield 1997), linear in n. */
static void find_repeats(const uint32_t *tokens, size_t n, uint32_t *repeats) {
    const uint32_t *last = tokens + n - 1;
    size_t left = 0, right = 0; /* the match [left, right) that reaches farthest */
    for (size_t k = 1; k < n; k++) {
        size_t length = 0;
        if (k < right) {
            length = repeats[k - left];
            if (length > right - k) length = right - k;
        }
        while (k + length < n && last[-(ptrdiff_t)length] == last[-(ptrdiff_t)(k + length)]) length++;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
        repeats[k] = (uint32_t)length;
    }
}

static float penalty_for(const struct dry_settings *s, uint32_t length) {
    double penalty = s->multiplier * pow(s->base, (double)length - (double)s->allowed_length);
    return penalty < (double)FLT_MAX ? (float)penalty : FLT_MAX;
}

void dry_apply(const struct dry_settings *s, const uint32_t *tokens, size_t n, uint32_t *repeats, uint32_t *longest,
               float *x) {
    uint32_t allowed = s->allowed_length > 1 ? (uint32_t)s->allowed_length : 1;
    if (n <= allowed) return;
    size_t limit = since_breaker(s->breakers, tokens, n);
    if (limit < allowed) return;
    find_repeats(tokens, n, repeats);
    for (size_t k = 1; k < n; k++) {
        uint32_t next = tokens[n - k], length = repeats[k] < limit ? repeats[k] : (uint32_t)limit;
        if (length >= allowed && length > longest[next]) longest[next] = length;
    }
    for (size_t k = 1; k < n; k++) {
        uint32_t next = tokens[n - k];
        if (!longest[next]) continue;
        if (x[next] > -INFINITY && !dry_is_breaker(s->breakers, next)) {
            float lowered = x[next] - penalty_for(s, longest[next]);
            x[next] = lowered > -FLT_MAX ? lowered : -FLT_MAX;
        }
        longest[next] = 0;
    }
}
