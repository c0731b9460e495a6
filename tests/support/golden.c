/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/golden.h"

#include "base/file.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t *read_ids(struct arena *arena, const struct json *list, size_t *n) {
    *n = json_is_array(list) ? list->count : 0;
    uint32_t *ids = arena_calloc(arena, *n, sizeof *ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (uint32_t)json_integer(&list->items[i], 0);
    return ids;
}

bool golden_open(struct golden *g, const char *folder, struct mx_error *err) {
    *g = (struct golden){.folder = folder};
    size_t length;
    char *path = path_join(&g->arena, folder, "golden.json");
    g->text = file_read(path, 16 << 20, &length, err);
    g->json = g->text ? json_parse(&g->arena, g->text, length, JSON_ALLOW_NAN, 16, err) : NULL;
    if (!g->json || !safetensors_open(&g->stored, folder, "golden.safetensors", err)) {
        golden_close(g);
        return false;
    }
    g->prompt = read_ids(&g->arena, json_get(g->json, "prompt_ids"), &g->n_prompt);
    g->greedy = read_ids(&g->arena, json_get(g->json, "greedy_ids"), &g->n_greedy);
    g->canvas = read_ids(&g->arena, json_get(g->json, "canvas_ids"), &g->n_canvas);
    const struct tensor *logits = golden_tensor(g, "logits");
    for (size_t i = 0; logits && i < logits->bytes / 4; i++) {
        float x;
        memcpy(&x, logits->data + 4 * i, 4);
        if (fabs((double)x) > g->max_abs_logit) g->max_abs_logit = fabs((double)x);
    }
    g->tolerance = json_number(json_get(g->json, "tolerance"), 1e-3 + 1e-4 * g->max_abs_logit);
    return true;
}

void golden_close(struct golden *g) {
    safetensors_close(&g->stored);
    arena_free(&g->arena);
    free(g->text);
    *g = (struct golden){0};
}

const struct tensor *golden_tensor(const struct golden *g, const char *name) {
    for (size_t i = 0; i < g->stored.n_tensors; i++)
        if (!strcmp(g->stored.tensors[i].name, name)) return &g->stored.tensors[i];
    return NULL;
}

bool golden_needs_kv_mode(const struct golden *g) {
    return json_get(g->json, "max_kv_size") || json_get(g->json, "kv_bits");
}

/* Runs the case on an open model. */
static bool compute(const struct golden *g, struct model *model, struct batch *batch, struct sequence *sequence,
                    size_t chunk, struct golden_result *r, struct mx_error *err) {
    uint32_t vocab = r->vocab = model->graph.vocab_size, hidden = r->hidden = model->graph.hidden_size;
    r->n_layers = model->graph.n_layers;
    r->logits = array_calloc(g->n_prompt * vocab, sizeof *r->logits);
    r->greedy_logits = array_calloc((g->n_greedy + 1) * vocab, sizeof *r->greedy_logits);
    r->layers = array_calloc(g->n_prompt * hidden * r->n_layers, sizeof *r->layers);
    float **taps = array_calloc(r->n_layers, sizeof *taps);
    bool ok = r->logits && r->greedy_logits && r->layers && taps;
    for (size_t at = 0, n; ok && at < g->n_prompt; at += n) {
        n = g->n_prompt - at;
        if (chunk && n > chunk) n = chunk;
        for (uint32_t l = 0; l < r->n_layers; l++) taps[l] = r->layers + ((size_t)l * g->n_prompt + at) * hidden;
        ok = batch_add(batch, sequence, g->prompt + at, (uint32_t)n, (uint32_t)g->n_prompt, OUTPUT_ALL, NULL);
        if (!ok) error_set(err, ERROR_LIMIT, "the prompt does not fit");
        if (ok) batch_run(batch, taps);
        for (size_t i = 0; ok && i < n; i++)
            memcpy(r->logits + (at + i) * vocab, batch_logits(batch, (uint32_t)i), vocab * sizeof(float));
    }
    if (ok && g->n_greedy) memcpy(r->greedy_logits, r->logits + (g->n_prompt - 1) * vocab, vocab * sizeof(float));
    for (size_t i = 0; ok && i + 1 < g->n_greedy; i++) {
        ok = batch_add(batch, sequence, &g->greedy[i], 1, (uint32_t)g->n_prompt, OUTPUT_LAST, NULL);
        if (ok) batch_run(batch, NULL);
        if (ok) memcpy(r->greedy_logits + (i + 1) * vocab, batch_logits(batch, 0), vocab * sizeof(float));
    }
    free(taps);
    return ok;
}

/* A row's expected embedding: of softmax(logits). */
static void expect(const struct model *model, const float *logits, float *probabilities, float *out) {
    const struct block_diffusion *d = &model->graph.diffusion;
    double most = -INFINITY, sum = 0;
    uint32_t vocab = model->graph.vocab_size;
    for (uint32_t v = 0; v < vocab; v++) most = (double)logits[v] > most ? (double)logits[v] : most;
    for (uint32_t v = 0; v < vocab; v++) sum += exp((double)logits[v] - most);
    for (uint32_t v = 0; v < vocab; v++) probabilities[v] = (float)(exp((double)logits[v] - most) / sum);
    const float *weights[1] = {probabilities};
    float *outs[1] = {out};
    model->backend->mix_table(model->compiled, d->embedding, weights, 1, d->embedding_factor, outs);
}

/* The prompt, then two passes over the canvas, the second conditioned on the first. */
static bool compute_canvas(const struct golden *g, struct model *model, struct batch *batch, struct sequence *sequence,
                           struct golden_result *r, struct mx_error *err) {
    uint32_t vocab = r->vocab = model->graph.vocab_size, hidden = r->hidden = model->graph.hidden_size;
    uint32_t n = (uint32_t)g->n_canvas;
    r->n_layers = 1;
    r->logits = array_calloc(n * vocab, sizeof *r->logits);
    r->greedy_logits = array_calloc(n * vocab, sizeof *r->greedy_logits);
    r->layers = array_calloc(g->n_prompt * hidden, sizeof *r->layers);
    float *conditions = array_calloc(n * hidden, sizeof *conditions), *weights = array_calloc(vocab, sizeof *weights);
    struct block_rows block = {.tokens = g->canvas, .n = n, .is_canvas = true};
    bool ok = r->logits && r->greedy_logits && r->layers && conditions && weights;
    ok = ok && batch_add(batch, sequence, g->prompt, (uint32_t)g->n_prompt, (uint32_t)g->n_prompt, OUTPUT_ALL, NULL);
    if (ok) batch_run(batch, NULL);
    for (size_t i = 0; ok && i < g->n_prompt; i++)
        memcpy(r->layers + i * hidden, batch_hidden(batch, (uint32_t)i), hidden * sizeof(float));
    for (int pass = 0; ok && pass < 2; pass++) {
        float *out = pass ? r->greedy_logits : r->logits;
        ok = batch_add_block(batch, sequence, &block, (uint32_t)g->n_prompt, OUTPUT_ALL, NULL);
        if (ok) batch_run(batch, NULL);
        for (uint32_t i = 0; ok && i < n; i++)
            memcpy(out + (size_t)i * vocab, batch_logits(batch, i), vocab * sizeof(float));
        for (uint32_t i = 0; ok && i < n; i++)
            expect(model, out + (size_t)i * vocab, weights, conditions + (size_t)i * hidden);
        block.conditions = conditions;
    }
    if (!ok && !err->code) error_set(err, ERROR_LIMIT, "the canvas does not fit");
    free(conditions);
    free(weights);
    return ok;
}

bool golden_compute(const struct golden *g, const char *model_folder, struct model_options options, size_t chunk,
                    struct golden_result *result, struct mx_error *err) {
    struct model model;
    struct batch batch = {0};
    struct sequence sequence = {0};
    *result = (struct golden_result){0};
    options.max_cells = (uint32_t)(g->n_prompt + g->n_greedy + g->n_canvas);
    options.max_rows = options.max_outputs = (uint32_t)(g->n_prompt > g->n_canvas ? g->n_prompt : g->n_canvas);
    if (!model_open(&model, model_folder, &options, err)) return false;
    bool ok = batch_init(&batch, &model, err) && sequence_init(&sequence, &model, err) &&
              (g->n_canvas ? compute_canvas(g, &model, &batch, &sequence, result, err)
                           : compute(g, &model, &batch, &sequence, chunk, result, err));
    sequence_free(&sequence);
    batch_free(&batch);
    model_close(&model);
    return ok;
}

void golden_result_free(struct golden_result *r) {
    free(r->logits);
    free(r->greedy_logits);
    free(r->layers);
    *r = (struct golden_result){0};
}

/* Largest difference of a row from a stored row; NaN counts as infinite. */
static double row_difference(const float *row, const struct tensor *stored, size_t stored_row, size_t width) {
    double worst = 0;
    for (size_t i = 0; i < width; i++) {
        float x;
        memcpy(&x, stored->data + 4 * (stored_row * width + i), 4);
        double d = fabs((double)row[i] - (double)x);
        if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

/* Rows of ours against stored rows; with an alternative answer each row may match either. */
static bool compare_rows(const struct golden *g, const char *name, const char *alternative, const float *rows,
                         const struct json *which, size_t n_rows, size_t width, double tolerance, char *note,
                         size_t room) {
    const struct tensor *stored = golden_tensor(g, name), *other = golden_tensor(g, alternative);
    if (!stored) return true;
    if (stored->n_dims != 2 || stored->shape[1] != width || stored->shape[0] > n_rows) {
        snprintf(note, room, "%s has another shape than stored", name);
        return false;
    }
    for (size_t i = 0; i < stored->shape[0]; i++) {
        size_t row = json_is_array(which) ? (size_t)json_integer(&which->items[i], 0) : i;
        double d = row_difference(rows + row * width, stored, i, width);
        if (d > tolerance && other) {
            double e = row_difference(rows + row * width, other, i, width);
            if (e < d) d = e;
        }
        if (d > tolerance) {
            snprintf(note, room, "%s row %zu is off by %.3g, tolerance %.3g", name, row, d, tolerance);
            return false;
        }
    }
    return true;
}

static bool compare_layers(const struct golden *g, const struct golden_result *r, char *note, size_t room) {
    for (uint32_t l = 0; l < r->n_layers; l++) {
        char name[32];
        double largest = 0;
        snprintf(name, sizeof name, "layer.%u", l);
        const struct tensor *stored = golden_tensor(g, name);
        for (size_t i = 0; stored && i < stored->bytes / 4; i++) {
            float x;
            memcpy(&x, stored->data + 4 * i, 4);
            if (fabs((double)x) > largest) largest = fabs((double)x);
        }
        if (!compare_rows(g, name, "", r->layers + (size_t)l * g->n_prompt * r->hidden, NULL, g->n_prompt, r->hidden,
                          1e-3 + 1e-4 * largest, note, room))
            return false;
    }
    return true;
}

/* Our own choice must be the stored one wherever the margin is above twice the tolerance. The stored choices are those of
 * the first answer: a row that matches the alternative one may choose otherwise. */
static bool compare_greedy(const struct golden *g, const struct golden_result *r, char *note, size_t room) {
    const struct tensor *other = golden_tensor(g, "alt_greedy_logits");
    for (size_t i = 0; i < g->n_greedy; i++) {
        const float *row = r->greedy_logits + i * r->vocab;
        uint32_t best = 0;
        for (uint32_t v = 1; v < r->vocab; v++)
            if (row[v] > row[best]) best = v;
        if (best == g->greedy[i]) continue;
        double margin = fabs((double)row[best] - (double)row[g->greedy[i]]);
        if (margin <= 2 * g->tolerance) continue;
        if (other && row_difference(row, other, i, r->vocab) <= g->tolerance) continue;
        snprintf(note, room, "greedy token %zu is %u, stored %u", i, best, g->greedy[i]);
        return false;
    }
    return true;
}

bool golden_compare(const struct golden *g, const struct golden_result *r, char *note, size_t room) {
    if (g->n_canvas)
        return compare_rows(g, "encoder_last_hidden_state", "", r->layers, NULL, g->n_prompt, r->hidden, g->tolerance,
                            note, room) &&
               compare_rows(g, "logits", "", r->logits, NULL, g->n_canvas, r->vocab, g->tolerance, note, room) &&
               compare_rows(g, "logits_step2", "", r->greedy_logits, NULL, g->n_canvas, r->vocab, g->tolerance, note,
                            room);
    return compare_layers(g, r, note, room) &&
           compare_rows(g, "logits", "alt_logits", r->logits, json_get(g->json, "logits_rows"), g->n_prompt, r->vocab,
                        g->tolerance, note, room) &&
           compare_rows(g, "greedy_logits", "alt_greedy_logits", r->greedy_logits, NULL, g->n_greedy, r->vocab,
                        g->tolerance, note, room) &&
           compare_greedy(g, r, note, room);
}
