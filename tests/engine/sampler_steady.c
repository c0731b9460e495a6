/* SPDX-License-Identifier: Apache-2.0 */
/* After a reserve, sampling allocates nothing. Calls are counted by this program's own malloc, in front of the C
 * library's; sanitizers bring theirs, so the test is skipped there. */
#include "tests/support/sampling.h"
#include "tests/support/tap.h"

#include <math.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

static unsigned long n_calls;

#ifndef HAS_SANITIZER
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size) { return n_calls++, __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return n_calls++, __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { return n_calls++, __libc_realloc(old, size); }
#endif

enum { N = 20000, TOKENS = 300 };

static float row[N];

static unsigned long calls_of(const struct sampling_params *params, bool reserves) {
    struct sampling_scratch scratch = make_scratch(N);
    struct sampler s = make_sampler(params, N, NULL);
    uint32_t prompt[50];
    for (uint32_t i = 0; i < 50; i++) prompt[i] = i % 9;
    bool ok = sampler_accept_prompt(&s, prompt, 50, NULL) && (!reserves || sampler_reserve(&s, TOKENS, NULL));
    unsigned long before = n_calls;
    for (uint32_t i = 0; i < TOKENS; i++) {
        struct sample_result result;
        uint32_t token = sampler_sample(&s, &scratch, row, NULL, &result);
        if (!ok || !sampler_accept(&s, i % 3 ? token : i * 11)) abort();
    }
    unsigned long calls = n_calls - before;
    sampler_free(&s);
    sampling_scratch_free(&scratch);
    return calls;
}

int main(void) {
#ifdef HAS_SANITIZER
    tap_skip("sampling allocates nothing", "the sanitizer has its own malloc");
    return tap_done();
#endif
    model_row(row, N, 1, 1);
    struct sampling_params p = drawing();
    p.top_p = 0.9;
    p.typical_p = 0.95;
    p.top_n_sigma = 2;
    p.min_p = 0.001;
    p.xtc_probability = 0.5;
    p.dynatemp_range = 0.5;
    p.adaptive_target = 0.3;
    p.repetition_penalty = 1.1;
    p.presence_penalty = p.frequency_penalty = 0.1;
    p.dry_multiplier = 0.8;
    p.repetition_last_n = p.presence_last_n = p.dry_last_n = -1;
    p.want_logprobs = 1;
    p.n_top_logprobs = 20;
    tap_ok(calls_of(&p, true) == 0, "300 tokens through every filter and penalty without a heap call");
    p.top_k = 40;
    p.mirostat = 1;
    tap_ok(calls_of(&p, true) == 0, "300 tokens with mirostat 1 without a heap call");
    p = drawing();
    p.repetition_penalty = 1.1;
    p.loop_max_pattern = 10;
    p.loop_min_count = 3;
    tap_ok(calls_of(&p, true) == 0, "300 tokens with windows of 64 without a heap call");
    p.repetition_last_n = -1;
    tap_ok(calls_of(&p, false) > 0, "without the reserve the history grows, and the counter sees it");
    return tap_done();
}
