/* SPDX-License-Identifier: Apache-2.0 */
/* Quickselect. Items larger than a pivot are moved to the front without branches (a mispredicted branch costs more than
 * the move); where the sought place is not among them, those equal to the pivot follow in the same way. The pivot is
 * the middle of three items whose places come from a counter-based generator, so that no crafted row makes the time
 * quadratic; the result does not depend on the pivots. */
#include "engine/select.h"

#include "base/rng.h"
#include "engine/candidates.h"

static float middle_of(float a, float b, float c) {
    float low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

static size_t random_place(size_t first, size_t end, uint64_t word, int draw) {
    return first + (size_t)((word >> 21 * draw & 0x1fffff) * (end - first) >> 21);
}

float select_largest(float *values, size_t n, size_t k) {
    size_t first = 0, end = n;
    for (uint32_t round = 0; end - first > 1; round++) {
        uint64_t word = rng_at(n, k, round);
        float pivot = middle_of(values[random_place(first, end, word, 0)], values[random_place(first, end, word, 1)],
                                values[random_place(first, end, word, 2)]);
        size_t larger = first;
        for (size_t i = first; i < end; i++) {
            float v = values[i];
            values[i] = values[larger];
            values[larger] = v;
            larger += v > pivot;
        }
        if (k <= larger) {
            end = larger;
            continue;
        }
        size_t smaller = larger;
        for (size_t i = larger; i < end; i++) {
            float v = values[i];
            values[i] = values[smaller];
            values[smaller] = v;
            smaller += v == pivot;
        }
        if (k <= smaller) return pivot;
        first = smaller;
    }
    return values[first];
}

/* Moves the items with key > pivot (or == pivot) to the front of [first, end); returns where they end. */
static size_t move_to_front(struct weighted *items, size_t first, size_t end, float pivot, bool equal, double *mass) {
    size_t front = first;
    *mass = 0;
    for (size_t i = first; i < end; i++) {
        struct weighted v = items[i];
        bool is_moved = equal ? v.key == pivot : v.key > pivot;
        items[i] = items[front];
        items[front] = v;
        front += is_moved;
        *mass += is_moved ? (double)v.w : 0;
    }
    return front;
}

float select_by_mass(struct weighted *items, size_t n, double target, double *above) {
    size_t first = 0, end = n;
    *above = 0;
    for (uint32_t round = 0; end - first > 1; round++) {
        uint64_t word = rng_at(n, 0, round);
        float pivot =
            middle_of(items[random_place(first, end, word, 0)].key, items[random_place(first, end, word, 1)].key,
                      items[random_place(first, end, word, 2)].key);
        double mass_larger, mass_equal;
        size_t larger = move_to_front(items, first, end, pivot, false, &mass_larger);
        if (*above + mass_larger > target) {
            end = larger;
            continue;
        }
        *above += mass_larger;
        size_t smaller = move_to_front(items, larger, end, pivot, true, &mass_equal);
        if (*above + mass_equal > target || smaller == end) return pivot;
        *above += mass_equal;
        first = smaller;
    }
    return items[first].key;
}
