/* SPDX-License-Identifier: Apache-2.0 */
/* As long as nothing outside takes part, what happens within a token's bytes does not depend on what surrounds them. So
 * there is at most one pair that makes a token: the last one when its bytes are encoded alone. Tokens are tried by rising
 * rank: what is left of a token's bytes by the pairs before is two parts for nearly all of them. A few have parts of
 * higher rank than their own; these are joined by looking them up. */
#include "text/tokenizer/ranks.h"

#include "base/memory.h"

enum { MAX_PARTS = 64 }; /* of a token that is made from parts of higher rank */

/* Joins the neighbours whose token has the lowest rank, until two parts are left; false when it ends before. */
static bool join_by_lookup(const struct vocab *vocab, const char *text, struct symbol *symbols, size_t *n) {
    if (*n > MAX_PARTS) return false;
    while (*n > 2) {
        size_t best = SIZE_MAX, at = 0;
        uint32_t lowest = UINT32_MAX, id;
        for (size_t i = 0; i + 1 < *n; at += symbols[i++].length)
            if (vocab_find(vocab, text + at, symbols[i].length + symbols[i + 1].length, &id) && id < lowest) {
                lowest = id;
                best = i;
            }
        if (best == SIZE_MAX) return false;
        symbols[best] = (struct symbol){lowest, symbols[best].length + symbols[best + 1].length};
        for (size_t i = best + 1; i + 1 < *n; i++) symbols[i] = symbols[i + 1];
        --*n;
    }
    return *n == 2;
}

static bool add_token(struct bpe *bpe, struct bpe_scratch *scratch, const struct vocab_token *token, uint32_t id,
                      struct mx_error *err) {
    if (token->length < 2) return true;
    if (!array_reserve(&scratch->symbols, &scratch->symbol_capacity, token->length, sizeof *scratch->symbols))
        return error_memory(err, "merges");
    size_t n = token->length;
    struct symbol *symbols = scratch->symbols;
    for (size_t i = 0; i < n; i++) symbols[i] = (struct symbol){bpe->byte_ids[(unsigned char)token->text[i]], 1};
    if (!merges_apply(&bpe->merges, &scratch->merge, symbols, &n)) return error_memory(err, "merges");
    /* Tokens that no pair makes are found as whole pieces only. */
    if (!join_by_lookup(bpe->vocab, token->text, symbols, &n)) return true;
    return bpe_add_merge(bpe, symbols[0].id, symbols[1].id, id, id, err);
}

bool ranks_build(struct bpe *bpe, const struct vocab *vocab, struct mx_error *err) {
    struct bpe_scratch scratch = {0};
    bpe->vocab = vocab;
    bpe->works_on_bytes = bpe->texts_are_bytes = bpe->ignore_merges = true;
    if (!bpe_prepare(bpe, vocab->n_texts, err)) return false;
    if (!bpe->has_all_bytes) return error_set(err, ERROR_FORMAT, "some of the 256 bytes have no token");
    bool ok = true;
    for (uint32_t id = 0; id < vocab->size && ok; id++) {
        const struct vocab_token *token = vocab_token(vocab, id);
        if (token) ok = add_token(bpe, &scratch, token, id, err);
    }
    bpe_scratch_free(&scratch);
    return ok;
}
