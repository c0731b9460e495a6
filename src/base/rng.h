/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers.
 *
 * SplitMix64 (Steele, Lea, Flood 2014) as a stream and as a counter-based generator: rng_at(seed, position, draw) is a
 * pure function, so that what one request draws depends on its own seed and position only, never on its neighbours. */
#ifndef MLXCEL_BASE_RNG_H
#define MLXCEL_BASE_RNG_H

#include <stdint.h>

#define RNG_GOLDEN 0x9e3779b97f4a7c15u

static inline uint64_t rng_mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The next word of the stream whose state is *state. */
static inline uint64_t rng_next(uint64_t *state) { return rng_mix(*state += RNG_GOLDEN); }

/* The word for (seed, position, draw). */
static inline uint64_t rng_at(uint64_t seed, uint64_t position, uint32_t draw) {
    return rng_mix(rng_mix(rng_mix(seed + RNG_GOLDEN) ^ position * RNG_GOLDEN) + (uint64_t)(draw + 1) * RNG_GOLDEN);
}

/* Uniform in [0, 1) with 24 bits. */
static inline float rng_uniform(uint64_t word) { return (float)(word >> 40) * 0x1p-24f; }

/* Uniform in [0, 1) with 53 bits. */
static inline double rng_uniform_f64(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

#endif
