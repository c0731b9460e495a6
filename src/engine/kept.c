/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kept.h"

#include <stdlib.h>

bool kept_drop(struct kept *k) {
    if (!k->sequence.model) return false;
    sequence_free(&k->sequence);
    free(k->tokens);
    *k = (struct kept){.rope_limit = k->rope_limit};
    return true;
}

void kept_put(struct kept *k, struct sequence *s, uint32_t **tokens, size_t n_prompt) {
    kept_drop(k);
    if (!s->n_cells || n_prompt > k->rope_limit) return;
    k->sequence = *s;
    k->tokens = *tokens;
    *s = (struct sequence){0};
    *tokens = NULL;
}

uint32_t kept_common(const struct kept *k, const uint32_t *tokens, size_t n) {
    uint32_t most = k->sequence.n_cells < k->rope_limit ? k->sequence.n_cells : k->rope_limit, same = 0;
    if (!k->sequence.model || !n || n > k->rope_limit) return 0;
    if (most > n - 1) most = (uint32_t)(n - 1);
    while (same < most && k->tokens[same] == tokens[same]) same++;
    return same;
}

bool kept_take(struct kept *k, struct sequence *s, uint32_t n_cells, uint32_t at_least) {
    sequence_truncate(&k->sequence, n_cells);
    if (k->sequence.n_cells < at_least || !k->sequence.n_cells) {
        kept_drop(k);
        return false;
    }
    sequence_free(s);
    *s = k->sequence;
    k->sequence = (struct sequence){0};
    free(k->tokens);
    k->tokens = NULL;
    return true;
}
