/* SPDX-License-Identifier: Apache-2.0 */
/* Golden cases: a tiny model, a prompt, and the logits of a reference implementation. */
#ifndef MLXCEL_TESTS_GOLDEN_H
#define MLXCEL_TESTS_GOLDEN_H

#include "base/arena.h"
#include "base/json.h"
#include "engine/batch.h"

struct golden {
    const char *folder;
    const struct json *json; /* golden.json */
    uint32_t *prompt, *greedy, *canvas;
    size_t n_prompt, n_greedy, n_canvas;
    struct safetensors stored;
    double tolerance, max_abs_logit;
    struct arena arena;
    char *text;
};

bool golden_open(struct golden *golden, const char *folder, struct mx_error *err);
void golden_close(struct golden *golden);
/* A stored tensor, or NULL. */
const struct tensor *golden_tensor(const struct golden *golden, const char *name);
/* Whether the case needs a KV mode (rotating or quantised cache). */
bool golden_needs_kv_mode(const struct golden *golden);

/* What a model computes for a case: logits of every prompt row, logits that each greedy id was taken from (the stored ids
 * are fed), outputs of the layers. With a canvas: its logits, those of a second pass that is conditioned on them, and the
 * final norm of the prompt in the place of the first layer. */
struct golden_result {
    float *logits, *greedy_logits, *layers;
    uint32_t vocab, hidden, n_layers;
};

/* Opens the checkpoint folder with the options (sizes are filled in) and runs the case; chunk 0 = the whole prompt at
 * once. */
bool golden_compute(const struct golden *golden, const char *model_folder, struct model_options options, size_t chunk,
                    struct golden_result *result, struct mx_error *err);
void golden_result_free(struct golden_result *result);

/* Compares with the stored values; writes a line about the first difference into note. */
bool golden_compare(const struct golden *golden, const struct golden_result *result, char *note, size_t room);

#endif
