/* SPDX-License-Identifier: Apache-2.0 */
/* DRY against a plain search, its breakers from strings, and its cost on a text that does nothing but repeat. */
#include "base/clock.h"
#include "base/rng.h"
#include "engine/sampler_dry.h"
#include "tests/support/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 12, LONGEST_TEXT = 60 };

/* ---- a plain search ---- */

struct sequence {
    uint32_t ids[3];
    size_t n;
};

/* Whether one of the sequences ends right before text[end]. */
static size_t tokens_since(const struct sequence *sequences, size_t n_sequences, const uint32_t *text, size_t n) {
    /* Heads are looked for from the end; of those with one head, the longest counts. */
    for (size_t head = n; head-- > 0;) {
        size_t longest = 0;
        for (size_t s = 0; s < n_sequences; s++)
            if (head + sequences[s].n <= n && sequences[s].n > longest &&
                !memcmp(sequences[s].ids, text + head, sequences[s].n * sizeof *text))
                longest = sequences[s].n;
        if (longest) return n - head - longest;
    }
    return n;
}

static bool is_single(const struct sequence *sequences, size_t n_sequences, uint32_t token) {
    for (size_t s = 0; s < n_sequences; s++)
        if (sequences[s].n == 1 && sequences[s].ids[0] == token) return true;
    return false;
}

static void plain_dry(const struct sequence *sequences, size_t n_sequences, const uint32_t *text, size_t n,
                      size_t allowed, double *x) {
    size_t limit = tokens_since(sequences, n_sequences, text, n), best[VOCAB] = {0};
    for (size_t next = 1; next < n; next++) { /* text[next] would go on with what ends before it */
        size_t length = 0;
        while (length < limit && length < next && text[next - 1 - length] == text[n - 1 - length]) length++;
        if (length > best[text[next]]) best[text[next]] = length;
    }
    for (uint32_t t = 0; t < VOCAB; t++)
        if (best[t] && best[t] >= allowed && !is_single(sequences, n_sequences, t))
            x[t] -= 0.7 * pow(1.3, (double)best[t] - (double)allowed);
}

static void equals_plain_search(void) {
    uint64_t state = 11;
    int n_bad = 0, n_lowered = 0;
    uint32_t repeats[LONGEST_TEXT], longest[VOCAB] = {0};
    for (int round = 0; round < 20000; round++) {
        uint32_t text[LONGEST_TEXT], n_letters = 2 + (uint32_t)(rng_next(&state) % 4);
        size_t n = rng_next(&state) % LONGEST_TEXT, n_sequences = rng_next(&state) % 4;
        size_t allowed = rng_next(&state) % 5;
        struct sequence sequences[3];
        struct dry_breakers breakers = {0};
        for (size_t i = 0; i < n; i++) text[i] = (uint32_t)(rng_next(&state) % n_letters);
        for (size_t s = 0; s < n_sequences; s++) {
            sequences[s].n = 1 + rng_next(&state) % 3;
            for (size_t i = 0; i < 3; i++) sequences[s].ids[i] = (uint32_t)(rng_next(&state) % 8);
            if (!dry_breakers_add(&breakers, (struct breaker_ids){sequences[s].ids, sequences[s].n}, NULL)) return;
        }
        dry_breakers_finish(&breakers);
        struct dry_settings settings = {0.7, 1.3, (int64_t)allowed, &breakers};
        float x[VOCAB];
        double want[VOCAB];
        for (int t = 0; t < VOCAB; t++) want[t] = x[t] = (float)t * 0.25f;
        if (n) dry_apply(&settings, text, n, repeats, longest, x);
        plain_dry(sequences, n_sequences, text, n, allowed, want);
        for (int t = 0; t < VOCAB; t++) {
            n_bad += fabs((double)x[t] - want[t]) > 1e-5 * fabs(want[t]) + 1e-5 || longest[t] != 0;
            n_lowered += x[t] < (float)t * 0.25f;
        }
        dry_breakers_free(&breakers);
    }
    tap_ok(n_bad == 0 && n_lowered > 10000, "20,000 random texts with breakers: as a plain search (%d tokens lowered)",
           n_lowered);
}

static void repetition_is_linear(void) {
    enum { N = 200000 };
    uint32_t *text = calloc(N, sizeof *text), *repeats = malloc(N * sizeof *repeats), longest[2] = {0};
    if (!text || !repeats) return;
    struct dry_settings settings = {1, 1.75, 2, NULL};
    float x[2] = {0, 0};
    uint64_t start = clock_now_ns();
    dry_apply(&settings, text, N, repeats, longest, x);
    double seconds = clock_seconds_since(start);
    tap_ok(seconds < 1 && x[0] < -1e30f && isfinite(x[0]) && x[1] == 0,
           "200,000 times the same token: finite penalty in %.4f s", seconds);
    free(text);
    free(repeats);
}

/* Each byte of the text is one id. */
static size_t encode_bytes(void *context, const char *text, size_t length, uint32_t *ids, size_t room) {
    (void)context;
    size_t n = 0;
    for (; n < length && n < room; n++) ids[n] = (unsigned char)text[n];
    return n;
}

static bool has_sequence(const struct dry_breakers *b, uint32_t head, const char *tail) {
    size_t n = strlen(tail);
    for (size_t i = 0; i < b->n; i++) {
        if (b->breakers[i].head != head || b->breakers[i].n_tail != n) continue;
        size_t k = 0;
        while (k < n && b->tails[b->breakers[i].tail + k] == (unsigned char)tail[k]) k++;
        if (k == n) return true;
    }
    return false;
}

static void strings_become_sequences(void) {
    static const char *const texts[] = {"", "a", "\n", "x\n", "say \"", "end###", "##", "#", "a##b", "####"};
    struct byte_span pieces[10], strings[2] = {{"\n", 1}, {"###", 3}};
    for (int i = 0; i < 10; i++) pieces[i] = (struct byte_span){texts[i], strlen(texts[i])};
    struct dry_breakers b = {0};
    bool ok = dry_breakers_from_strings(&b, strings, 2, pieces, 10, encode_bytes, NULL, NULL);
    tap_ok(ok && dry_is_breaker(&b, 2) && dry_is_breaker(&b, 3) && dry_is_breaker(&b, 5) && dry_is_breaker(&b, 9) &&
               !dry_is_breaker(&b, 1) && !dry_is_breaker(&b, 4) && !dry_is_breaker(&b, 6) && !dry_is_breaker(&b, 0),
           "tokens that contain a breaker string are breakers");
    tap_ok(has_sequence(&b, 6, "#") && has_sequence(&b, 6, "##") && has_sequence(&b, 7, "##") && b.n == 4 + 3,
           "tokens whose end begins a breaker string begin a sequence with its rest");
    dry_breakers_free(&b);
    char longer[100];
    memset(longer, 'z', sizeof longer);
    strings[0] = (struct byte_span){longer, sizeof longer};
    pieces[0] = (struct byte_span){longer, 1};
    ok = dry_breakers_from_strings(&b, strings, 1, pieces, 1, encode_bytes, NULL, NULL);
    tap_ok(ok && b.n == 1 && b.n_tails == DRY_BREAKER_TAIL, "a long string is cut");
    dry_breakers_free(&b);
}

int main(void) {
    equals_plain_search();
    repetition_is_linear();
    strings_become_sequences();
    return tap_done();
}
