/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, random values and comparison for the checks. */
#include "tests/kernels/checkkern/check.h"

#include "base/half.h"
#include "base/rng.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_ROOMS = 28, ROOM_BYTES = 4 << 20, GUARD_BYTES = 64 << 10 };

static unsigned char *rooms[N_ROOMS];
static const struct check *running;

static void report_fault(int signal_number) {
    static const char text[] = "not ok 0 - a kernel touched memory that is not its own: ";
    (void)signal_number;
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0 || !running ||
        write(STDOUT_FILENO, running->label, strlen(running->label)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0)
        _exit(3);
    _exit(1);
}

bool check_memory_init(struct check *c) {
    if (!rooms[0]) {
        size_t each = ROOM_BYTES + GUARD_BYTES;
        unsigned char *all =
            mmap(NULL, N_ROOMS * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (all == MAP_FAILED) return false;
        for (unsigned i = 0; i < N_ROOMS; i++) {
            rooms[i] = all + i * each;
            if (mprotect(rooms[i] + ROOM_BYTES, GUARD_BYTES, PROT_NONE)) return false;
        }
        struct sigaction action = {.sa_handler = report_fault};
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
    }
    running = c;
    return true;
}

void check_case(struct check *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->label, sizeof c->label, format, args);
    va_end(args);
    c->next_room = 0;
}

void *check_room(struct check *c, size_t bytes) {
    if (c->next_room == N_ROOMS || bytes > ROOM_BYTES) {
        fprintf(stderr, "checkkern: a case needs more than %d buffers of %d bytes\n", N_ROOMS, ROOM_BYTES);
        _exit(3);
    }
    return rooms[c->next_room++] + ROOM_BYTES - bytes;
}

void *check_copy(struct check *c, const void *memory, size_t bytes) {
    return memcpy(check_room(c, bytes), memory, bytes);
}

/* ---- values ---- */

const char *const values_names[N_VALUES] = {"plain", "wide", "tiny", "huge", "edge", "zero", "special", "bits"};

uint32_t check_random(struct check *c, uint32_t below) {
    return (uint32_t)((rng_next(&c->random) >> 32) * (uint64_t)below >> 32);
}

static float with_exponent(struct check *c, int lowest, int highest) {
    float fraction = 1.0f + rng_uniform(rng_next(&c->random));
    float value = ldexpf(fraction, lowest + (int)check_random(c, (uint32_t)(highest - lowest + 1)));
    return check_random(c, 2) ? -value : value;
}

static float any_bits(struct check *c) {
    static const float landmarks[] = {
        0.0f,   1.0f,     0x1p-149f, 0x1.fffffcp-127f, 0x1p-126f,     0x1.fffffep127f, 0.5f,   2.0f,           INFINITY,
        NAN,    87.0f,    88.0f,     0x1.5bffffp6f,    0x1.5c0001p6f, 0x1.600001p6f,   0.625f, 0x1.3fffffp-1f, 9.0f,
        104.0f, 0x1.4p-9f};
    uint64_t word = rng_next(&c->random);
    if (word >> 60) return f32_from_bits((uint32_t)word);
    float landmark = landmarks[check_random(c, sizeof landmarks / sizeof *landmarks)];
    return word & 1 ? -landmark : landmark;
}

float check_value(struct check *c, enum values values) {
    switch (values) {
    case VALUES_WIDE: return with_exponent(c, -40, 40);
    case VALUES_TINY: return check_random(c, 8) ? with_exponent(c, -150, -50) : check_value(c, VALUES_ZERO);
    case VALUES_HUGE: return with_exponent(c, 50, 127);
    case VALUES_EDGE: return with_exponent(c, -66, -58);
    case VALUES_ZERO: return check_random(c, 2) ? 0.0f : -0.0f;
    case VALUES_BITS: return any_bits(c);
    default: return 4.0f * rng_uniform(rng_next(&c->random)) - 2.0f;
    }
}

float *check_values(struct check *c, enum values values, uint32_t n) {
    static const float specials[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 0x1p-140f};
    float *v = check_room(c, (size_t)n * sizeof *v);
    for (uint32_t i = 0; i < n; i++) v[i] = check_value(c, values);
    if (values == VALUES_SPECIAL && n && check_random(c, 3)) v[check_random(c, n)] = specials[check_random(c, 6)];
    return v;
}

void check_bytes(struct check *c, void *memory, size_t bytes) {
    unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = rng_next(&c->random);
        memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

/* ---- comparison ---- */

static void differ(struct check *c, const char *what, size_t at, uint32_t ref, uint32_t other) {
    if (!c->n_different++)
        snprintf(c->note, sizeof c->note, "%s: %s[%zu] is %08x, ref has %08x", c->label, what, at, other, ref);
    if (c->first_difference) longjmp(*c->first_difference, 1);
}

void check_same_f32(struct check *c, const char *what, const float *ref, const float *other, size_t n) {
    c->n_compared += n;
    if (!memcmp(ref, other, n * sizeof *ref)) return;
    for (size_t i = 0; i < n; i++)
        if (f32_to_bits(ref[i]) != f32_to_bits(other[i]) && !(isnan(ref[i]) && isnan(other[i])))
            differ(c, what, i, f32_to_bits(ref[i]), f32_to_bits(other[i]));
}

/* 16-bit floats; a code above `infinity`, its sign left out, is a NaN. */
static void same_16(struct check *c, const char *what, const uint16_t *ref, const uint16_t *other, size_t n,
                    uint16_t infinity) {
    c->n_compared += n;
    for (size_t i = 0; i < n; i++)
        if (ref[i] != other[i] && ((ref[i] & 0x7fff) <= infinity || (other[i] & 0x7fff) <= infinity))
            differ(c, what, i, ref[i], other[i]);
}

void check_same_f16(struct check *c, const char *what, const uint16_t *ref, const uint16_t *other, size_t n) {
    same_16(c, what, ref, other, n, 0x7c00);
}

void check_same_bf16(struct check *c, const char *what, const uint16_t *ref, const uint16_t *other, size_t n) {
    same_16(c, what, ref, other, n, 0x7f80);
}

void check_same_bytes(struct check *c, const char *what, const void *ref, const void *other, size_t n) {
    const unsigned char *a = ref, *b = other;
    c->n_compared += n;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) differ(c, what, i, a[i], b[i]);
}
