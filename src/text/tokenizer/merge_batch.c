/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/merge_batch.h"

#include "text/tokenizer/core.h"

/* The three texts of a merge, and what is found for them. */
struct look_up {
    const char *text;
    size_t length;
    uint32_t hash, id;
};

enum { LEFT, RIGHT, RESULT, N_PARTS };

static bool join(struct merge_batch *batch, struct mx_error *err) {
    size_t skip = batch->t->bpe.prefix_length;
    buffer_clear(&batch->joined);
    for (size_t i = 0; i < batch->count; i++) {
        const struct merge_text *merge = &batch->merges[i];
        buffer_append(&batch->joined, merge->left, merge->left_length);
        if (merge->right_length > skip) buffer_append(&batch->joined, merge->right + skip, merge->right_length - skip);
    }
    return !batch->joined.failed || error_memory(err, "merges");
}

static bool report(const struct look_up *look_up, uint32_t rank, struct mx_error *err) {
    return error_set(err, ERROR_FORMAT, "merge %u: '%.*s' is not in the vocabulary", rank,
                     look_up->length > 255 ? 255 : (int)look_up->length, look_up->text);
}

static bool flush(struct merge_batch *batch, struct mx_error *err) {
    struct look_up found[MERGE_BATCH][N_PARTS];
    const struct vocab *vocab = &batch->t->vocab;
    struct bpe *bpe = &batch->t->bpe;
    size_t skip = bpe->prefix_length, n = batch->count;
    if (!n) return true;
    if (!vocab->n_slots) return error_set(err, ERROR_FORMAT, "merges without a vocabulary");
    if (!join(batch, err)) return false;
    const char *joined = batch->joined.data ? batch->joined.data : "";
    for (size_t i = 0; i < n; i++) {
        const struct merge_text *merge = &batch->merges[i];
        size_t right = merge->right_length > skip ? merge->right_length - skip : 0;
        found[i][LEFT] = (struct look_up){.text = merge->left, .length = merge->left_length};
        found[i][RIGHT] = (struct look_up){.text = merge->right, .length = merge->right_length};
        found[i][RESULT] = (struct look_up){.text = joined, .length = merge->left_length + right};
        joined += found[i][RESULT].length;
        for (int k = 0; k < N_PARTS; k++) {
            struct look_up *look_up = &found[i][k];
            look_up->hash = vocab_hash(vocab, look_up->text, look_up->length);
            vocab_prefetch_slot(vocab, look_up->hash);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < N_PARTS; k++) vocab_prefetch_token(vocab, found[i][k].hash);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < N_PARTS; k++) vocab_prefetch_text(vocab, found[i][k].hash);
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < N_PARTS; k++) {
            struct look_up *look_up = &found[i][k];
            if (!vocab_find_hashed(vocab, look_up->text, look_up->length, look_up->hash, &look_up->id))
                return report(look_up, batch->rank + (uint32_t)i, err);
        }
        merges_prefetch(&bpe->merges, found[i][LEFT].id, found[i][RIGHT].id);
    }
    for (size_t i = 0; i < n; i++)
        if (!bpe_add_merge(bpe, found[i][LEFT].id, found[i][RIGHT].id, batch->rank + (uint32_t)i, found[i][RESULT].id,
                           err))
            return false;
    batch->rank += (uint32_t)n;
    batch->count = 0;
    return true;
}

bool merge_batch_add(struct merge_batch *batch, const struct merge_text *merge, struct mx_error *err) {
    if (merge->right_length < batch->t->bpe.prefix_length)
        return error_set(err, ERROR_FORMAT, "merge %u: its second part lacks the prefix of continuing tokens",
                         batch->rank + (uint32_t)batch->count);
    batch->merges[batch->count++] = *merge;
    return batch->count < MERGE_BATCH || flush(batch, err);
}

bool merge_batch_finish(struct merge_batch *batch, bool ok, struct mx_error *err) {
    ok = ok && flush(batch, err);
    buffer_free(&batch->joined);
    return ok;
}
