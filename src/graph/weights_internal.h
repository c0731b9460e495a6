/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of weights share: names (weight_names.c), what the config says about formats (weight_formats.c), and the
 * layouts in which a module's tensors may lie (weight_layouts.c). */
#ifndef MLXCEL_GRAPH_WEIGHTS_INTERNAL_H
#define MLXCEL_GRAPH_WEIGHTS_INTERNAL_H

#include "graph/weights.h"

enum { MAX_NAME = 512 };

/* ---- names ---- */

/* The name in wrapper number i; false when there is no such wrapper. out has room for MAX_NAME. */
bool weight_name_wrapped(int wrapper, const char *name, char *out);
/* The tensor of that name in any wrapper, or NULL. */
const struct tensor *weight_find_wrapped(struct weights *w, const char *name);
/* scope + "." + alternative number `index` + suffix; false when there are fewer alternatives. "" as scope adds nothing;
 * an alternative that begins with '/' is a full name. */
bool weight_full_name(const char *scope, const char *names, int index, const char *suffix, char *out);

/* ---- formats ---- */

bool weight_formats_from_config(struct weights *w, struct mx_error *err);
/* What the config says of a module. */
struct quantization weight_module_quantization(struct weights *w, const char *module);
/* Whether it has an entry for the module by itself. */
bool weight_has_entry(struct weights *w, const char *module);

/* ---- layouts ---- */

/* The tensors of one module. */
struct module {
    const struct tensor *codes, *scales, *biases;
    const struct tensor *factor; /* of the whole tensor; NULL = none */
    bool is_awq;                 /* qweight, scales and qzeros, to be repacked */
};

/* Looks for module.weight with its scales, in any of the conventions; a stacked tensor may also lack ".weight". */
bool weight_find_module(struct weights *w, const char *module, struct module *found);
/* Brings E4M3 scales of whole tensors or rows into the form of a grid. */
bool weight_spread_scales(struct weights *w, struct module *found, struct mx_error *err);
/* A copy of a plain [.., cols, rows] tensor as [.., rows, cols], one for each tensor; NULL with the error set. */
const struct tensor *weight_transposed(struct weights *w, const struct tensor *tensor, struct mx_error *err);

#endif
