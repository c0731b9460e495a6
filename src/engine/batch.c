/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/batch.h"

#include "base/memory.h"

bool batch_init(struct batch *b, struct model *model, struct mx_error *err) {
    uint32_t n = model->options.max_rows;
    *b = (struct batch){.model = model};
    b->rows = array_calloc(n, sizeof *b->rows);
    b->spans = array_calloc(n, sizeof *b->spans);
    b->sequences = array_calloc(n, sizeof *b->sequences);
    b->outputs = array_calloc(model->options.max_outputs, sizeof *b->outputs);
    b->kept = array_calloc(n, sizeof *b->kept);
    b->step = (struct step){.rows = b->rows, .spans = b->spans, .outputs = b->outputs};
    if (b->rows && b->spans && b->sequences && b->outputs && b->kept) return true;
    batch_free(b);
    return error_memory(err, "step");
}

void batch_free(struct batch *b) {
    free(b->rows);
    free(b->spans);
    free(b->sequences);
    free(b->outputs);
    free(b->kept);
    *b = (struct batch){0};
}

uint32_t batch_room(const struct batch *b) { return b->model->options.max_rows - b->step.n_rows; }
uint32_t batch_output_room(const struct batch *b) { return b->model->options.max_outputs - b->step.n_outputs; }

bool batch_add(struct batch *b, struct sequence *s, const uint32_t *tokens, uint32_t n, uint32_t rope_length,
               enum outputs outputs, uint32_t *first_output) {
    uint32_t n_outputs = outputs == OUTPUT_ALL ? n : outputs == OUTPUT_LAST ? 1 : 0;
    if (!n || n > batch_room(b) || n_outputs > batch_output_room(b) || !sequence_reserve(s, n)) return false;
    uint32_t first = b->step.n_rows;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t cell = s->n_cells + i;
        b->rows[first + i] = (struct step_row){.token = (int32_t)tokens[i],
                                               .cell = cell,
                                               .position = cell,
                                               .rope_length = rope_length > cell + 1 ? rope_length : cell + 1};
    }
    b->spans[b->step.n_spans] = (struct step_span){.first_row = first,
                                                   .n_rows = n,
                                                   .page_tables = (const uint32_t *const *)s->tables,
                                                   .state_in = s->state,
                                                   .state_out = s->state,
                                                   .is_fresh = s->n_cells == 0};
    b->kept[b->step.n_spans] = n;
    b->sequences[b->step.n_spans++] = s;
    if (first_output) *first_output = b->step.n_outputs;
    for (uint32_t i = n - n_outputs; i < n; i++) b->outputs[b->step.n_outputs++] = first + i;
    b->step.n_rows += n;
    return true;
}

bool batch_add_block(struct batch *b, struct sequence *s, const struct block_rows *block, uint32_t rope_length,
                     enum outputs outputs, uint32_t *first_output) {
    uint32_t first = b->step.n_rows, hidden = b->model->graph.hidden_size;
    if (!batch_add(b, s, block->tokens, block->n, rope_length, outputs, first_output)) return false;
    b->spans[b->step.n_spans - 1].is_atomic = true;
    if (!block->is_kept) b->kept[b->step.n_spans - 1] = 0;
    for (uint32_t i = 0; i < block->n; i++) {
        b->rows[first + i].is_canvas = block->is_canvas;
        if (block->conditions) b->rows[first + i].condition = block->conditions + (size_t)i * hidden;
    }
    return true;
}

void batch_run(struct batch *b, float *const *taps) {
    b->step.taps = taps;
    if (b->step.n_rows) b->model->backend->run(b->model->compiled, &b->step);
    for (uint32_t i = 0; i < b->step.n_spans; i++) sequence_commit(b->sequences[i], b->kept[i]);
    b->step.n_rows = b->step.n_spans = b->step.n_outputs = 0;
}

const float *batch_logits(const struct batch *b, uint32_t output) {
    return b->model->backend->logits(b->model->compiled, output);
}

const float *batch_hidden(const struct batch *b, uint32_t output) {
    return b->model->backend->hidden(b->model->compiled, output);
}
