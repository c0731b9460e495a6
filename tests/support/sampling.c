/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/sampling.h"

#include "base/rng.h"
#include "tests/support/tap.h"

#include <math.h>
#include <stdlib.h>

double normal(uint64_t *state) {
    double u = 1 - rng_uniform_f64(rng_next(state)), v = rng_uniform_f64(rng_next(state));
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void model_row(float *row, uint32_t n, uint64_t seed, uint32_t token) {
    uint64_t state = rng_mix(seed * 977 + token);
    for (uint32_t i = 0; i < n; i++) row[i] = (float)(1.5 * normal(&state));
}

struct sampling_params drawing(void) {
    struct sampling_params p = sampling_defaults();
    p.temperature = 1;
    p.seed = 42;
    return p;
}

struct sampler make_sampler(const struct sampling_params *params, uint32_t vocab, const struct sampler_tokens *tokens) {
    static const struct sampler_tokens none;
    struct sampler sampler;
    struct mx_error err = {0};
    if (!sampler_init(&sampler, params, vocab, tokens ? tokens : &none, &err)) {
        tap_note("sampler_init: %s", err.message);
        abort();
    }
    return sampler;
}

struct sampling_scratch make_scratch(uint32_t vocab) {
    struct sampling_scratch scratch;
    if (!sampling_scratch_init(&scratch, vocab, NULL)) abort();
    return scratch;
}
