/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loop_stop.h"

static uint64_t longest_pattern(uint64_t max_pattern, uint64_t min_count) {
    if (min_count < 2) return 0;
    return max_pattern < LOOP_LONGEST_PATTERN ? max_pattern : LOOP_LONGEST_PATTERN;
}

uint64_t loop_stop_window(uint64_t max_pattern, uint64_t min_count) {
    return longest_pattern(max_pattern, min_count) * min_count;
}

bool loop_stop(const uint32_t *tokens, size_t n, uint64_t min_pattern, uint64_t max_pattern, uint64_t min_count) {
    uint64_t longest = longest_pattern(max_pattern, min_count);
    for (uint64_t p = min_pattern ? min_pattern : 1; p <= longest && p * min_count <= n; p++) {
        /* One block min_count times: every token but those of the first block equals the one p before it. */
        uint64_t same = 0, wanted = p * (min_count - 1);
        while (same < wanted && tokens[n - 1 - same] == tokens[n - 1 - same - p]) same++;
        if (same == wanted) return true;
    }
    return false;
}
