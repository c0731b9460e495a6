/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/weights_internal.h"

#include "base/memory.h"
#include "format/awq.h"

#include <stdio.h>
#include <string.h>

static bool mark_used(struct weights *w, const struct tensor *tensor, struct mx_error *err) {
    if (!tensor) return true;
    return map_put(&w->used, tensor->name, strlen(tensor->name), 1, NULL) || error_memory(err, "weight names");
}

static struct weight *new_weight(struct weights *w, const char *name, enum weight_role role, uint32_t n_rows,
                                 uint32_t n_cols, uint32_t n_experts, struct mx_error *err) {
    struct weight *weight = arena_calloc(&w->arena, 1, sizeof *weight);
    if (!weight || !array_reserve(&w->list, &w->capacity, w->n + 1, sizeof(struct weight *)) ||
        !(weight->name = arena_copy(&w->arena, name, strlen(name)))) {
        error_memory(err, "weight table");
        return NULL;
    }
    weight->role = role;
    weight->is_repeat = w->is_repeat;
    weight->n_rows = n_rows;
    weight->n_cols = n_cols;
    weight->n_experts = n_experts;
    w->list[w->n++] = weight;
    return weight;
}

static void count_bytes(struct weight *weight) {
    for (uint32_t e = 0; e < (weight->n_experts ? weight->n_experts : 1); e++)
        weight->stored_bytes += matrix_code_bytes(&weight->matrices[e]) + matrix_scale_bytes(&weight->matrices[e]);
}

static void select_rows(struct matrix *m, const struct row_selection *rows, uint32_t n_rows) {
    if (!rows->tensor_rows) return;
    if (rows->run_rows)
        matrix_select_rows(m, rows->first_row, n_rows, rows->run_rows, rows->run_step);
    else
        matrix_select_rows(m, rows->first_row, n_rows, n_rows, n_rows);
}

static bool bind_matrix(struct weights *w, struct matrix *m, const char *module, const struct module *found,
                        const struct row_selection *rows, uint32_t n_rows, uint32_t n_cols, int64_t expert,
                        struct mx_error *err) {
    struct quantization hint = weight_module_quantization(w, module);
    uint32_t tensor_rows = rows->tensor_rows ? rows->tensor_rows : n_rows;
    struct awq_tensors repacked;
    struct module usable = *found;
    if (found->is_awq) {
        if (!awq_repack(&w->arena, found->codes, found->biases, found->scales, &repacked, err)) return false;
        usable = (struct module){.codes = &repacked.codes, .scales = &repacked.scales, .biases = &repacked.biases};
    }
    if (!weight_spread_scales(w, &usable, err) ||
        !matrix_from_tensors(m, usable.codes, usable.scales, usable.biases, tensor_rows, n_cols, expert, &hint, err))
        return false;
    if (found->factor && !vector_widen(found->factor, 1, &m->tensor_scale, err)) return false;
    select_rows(m, rows, n_rows);
    if (m->format == WEIGHT_TERNARY && w->inverts_ternary) m->tensor_scale = 1.0f / m->tensor_scale;
    return mark_used(w, found->codes, err) && mark_used(w, found->scales, err) && mark_used(w, found->biases, err) &&
           mark_used(w, found->factor, err);
}

/* For shape-only builders: the name under which the config has an entry for a module, else its first name. */
static const char *entry_name(struct weights *w, const char *scope, const struct matrix_source *sources,
                              size_t n_sources, char *module) {
    for (size_t s = 0; s < n_sources; s++)
        for (int i = 0; weight_full_name(scope, sources[s].module, i, "", module); i++)
            if (weight_has_entry(w, module)) return module;
    weight_full_name(scope, sources[0].module, 0, "", module);
    return module;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* A matrix for shape-only builders. Modules whose columns no group divides stay plain, as in the MLX conversion, and so do
 * tables that are no modules but parameters ("wte.embedding"). */
static void plan_matrix(struct weights *w, struct matrix *m, const char *module, uint32_t n_rows, uint32_t n_cols) {
    static const enum weight_format plain[] = {
        [DTYPE_F32] = WEIGHT_F32, [DTYPE_F16] = WEIGHT_F16, [DTYPE_BF16] = WEIGHT_BF16};
    struct quantization q = weight_module_quantization(w, module);
    bool is_e4m3 = q.group && q.format == WEIGHT_E4M3, is_end = strstr(module, "embed") || strstr(module, "head");
    if (w->is_ternary && !is_end && n_rows % 4 == 0) {
        matrix_shape_only(m, WEIGHT_TERNARY, 0, w->plain_dtype, n_rows, n_cols);
        return;
    }
    if (((is_e4m3 || w->is_awq) && is_end) || ends_with(module, "embedding")) q.group = 0;
    if (!q.group || (!is_e4m3 && n_cols % q.group != 0)) {
        matrix_shape_only(m, plain[w->plain_dtype], 0, w->plain_dtype, n_rows, n_cols);
        return;
    }
    enum dtype scale_dtype = weight_formats[q.format].has_biases ? w->plain_dtype
                             : is_e4m3                           ? DTYPE_F32
                             : q.format == WEIGHT_NVFP4          ? DTYPE_F8_E4M3
                                                                 : DTYPE_U8;
    matrix_shape_only(m, q.format, q.group, scale_dtype, n_rows, n_cols);
}

/* Finds the first alternative of the sources that exists. Returns its source number, or -1 with the error set. With
 * experts, "%u" in a name stands for the expert. */
static int find_source(struct weights *w, const char *scope, const struct matrix_source *sources, size_t n_sources,
                       char *module, struct module *found, struct mx_error *err) {
    char pattern[MAX_NAME];
    for (size_t s = 0; s < n_sources; s++)
        for (int i = 0; weight_full_name(scope, sources[s].module, i, "", pattern); i++) {
            const char *number = strstr(pattern, "%u");
            if (number)
                snprintf(module, MAX_NAME, "%.*s0%s", (int)(number - pattern), pattern, number + 2);
            else
                memcpy(module, pattern, MAX_NAME);
            if (!weight_find_module(w, module, found)) continue;
            memcpy(module, pattern, MAX_NAME);
            return (int)s;
        }
    weight_full_name(scope, sources[0].module, 0, ".weight", pattern);
    checkpoint_missing(w->checkpoint, pattern, err);
    return -1;
}

struct weight *weights_matrix(struct weights *w, const char *scope, const struct matrix_source *sources,
                              size_t n_sources, enum weight_role role, uint32_t n_rows, uint32_t n_cols,
                              struct mx_error *err) {
    char module[MAX_NAME];
    struct module found = {0};
    int source = 0;
    if (w->checkpoint)
        source = find_source(w, scope, sources, n_sources, module, &found, err);
    else
        weight_full_name(scope, sources[0].module, 0, "", module);
    if (source < 0) return NULL;
    struct weight *weight = new_weight(w, found.codes ? found.codes->name : module, role, n_rows, n_cols, 0, err);
    if (!weight) return NULL;
    weight->matrices = arena_calloc(&w->arena, 1, sizeof *weight->matrices);
    if (!weight->matrices) {
        error_memory(err, "weight table");
        return NULL;
    }
    weight->tensor_rows = sources[source].rows.tensor_rows;
    if (!w->checkpoint)
        plan_matrix(w, weight->matrices, entry_name(w, scope, sources, n_sources, module), n_rows, n_cols);
    else if ((sources[source].is_transposed && !(found.codes = weight_transposed(w, found.codes, err))) ||
             !bind_matrix(w, weight->matrices, module, &found, &sources[source].rows, n_rows, n_cols, -1, err))
        return NULL;
    count_bytes(weight);
    return weight;
}

static bool bind_experts(struct weights *w, struct weight *weight, const char *pattern, const struct module *stacked,
                         const struct row_selection *rows, struct mx_error *err) {
    const char *number = strstr(pattern, "%u");
    for (uint32_t e = 0; e < weight->n_experts; e++) {
        char module[MAX_NAME] = "";
        struct module one = *stacked;
        if (number) {
            snprintf(module, sizeof module, "%.*s%u%s", (int)(number - pattern), pattern, e, number + 2);
            if (!weight_find_module(w, module, &one)) {
                strncat(module, ".weight", sizeof module - strlen(module) - 1);
                return checkpoint_missing(w->checkpoint, module, err);
            }
        }
        if (!bind_matrix(w, &weight->matrices[e], number ? module : pattern, &one, rows, weight->n_rows, weight->n_cols,
                         number ? -1 : (int64_t)e, err))
            return false;
    }
    if (!number && stacked->codes->shape[0] != weight->n_experts)
        return error_set(err, ERROR_FORMAT, "%s: tensor '%s' holds %llu experts, expected %u",
                         stacked->codes->file->name, stacked->codes->name, (unsigned long long)stacked->codes->shape[0],
                         weight->n_experts);
    return true;
}

struct weight *weights_experts(struct weights *w, const char *scope, const struct matrix_source *sources,
                               size_t n_sources, uint32_t n_experts, uint32_t n_rows, uint32_t n_cols,
                               struct mx_error *err) {
    char pattern[MAX_NAME];
    struct module found = {0};
    int source = 0;
    if (w->checkpoint)
        source = find_source(w, scope, sources, n_sources, pattern, &found, err);
    else
        weight_full_name(scope, sources[0].module, 0, "", pattern);
    if (source < 0) return NULL;
    struct weight *weight =
        new_weight(w, found.codes ? found.codes->name : pattern, ROLE_EXPERTS, n_rows, n_cols, n_experts, err);
    if (!weight) return NULL;
    weight->tensor_rows = sources[source].rows.tensor_rows;
    weight->matrices = arena_calloc(&w->arena, n_experts, sizeof *weight->matrices);
    if (!weight->matrices) {
        error_memory(err, "weight table");
        return NULL;
    }
    if (w->checkpoint) {
        if (sources[source].is_transposed && !(found.codes = weight_transposed(w, found.codes, err))) return NULL;
        if (!bind_experts(w, weight, pattern, &found, &sources[source].rows, err)) return NULL;
    } else {
        entry_name(w, scope, sources, n_sources, pattern);
        for (uint32_t e = 0; e < n_experts; e++) plan_matrix(w, &weight->matrices[e], pattern, n_rows, n_cols);
    }
    count_bytes(weight);
    return weight;
}

static bool bind_heads(struct weights *w, struct weight *weight, const char *module, const struct module *found,
                       const struct row_selection *rows, struct mx_error *err) {
    for (uint32_t h = 0; h < weight->n_experts; h++) {
        struct row_selection one = *rows;
        if (rows->tensor_rows) {
            one.first_row += h * rows->run_step;
            one.run_rows = 0;
        }
        if (!bind_matrix(w, &weight->matrices[h], module, found, &one, weight->n_rows, weight->n_cols,
                         rows->tensor_rows ? -1 : (int64_t)h, err))
            return false;
    }
    return true;
}

struct weight *weights_heads(struct weights *w, const char *scope, const struct matrix_source *source, uint32_t n_heads,
                             uint32_t n_rows, uint32_t n_cols, struct mx_error *err) {
    char module[MAX_NAME];
    struct module found = {0};
    weight_full_name(scope, source->module, 0, "", module);
    if (w->checkpoint && find_source(w, scope, source, 1, module, &found, err) < 0) return NULL;
    struct weight *weight =
        new_weight(w, found.codes ? found.codes->name : module, ROLE_ATTENTION, n_rows, n_cols, n_heads, err);
    if (!weight) return NULL;
    struct row_selection rows = source->rows;
    if (found.codes && found.codes->n_dims == 3) rows = (struct row_selection){0}; /* stacked in the file */
    weight->tensor_rows = rows.tensor_rows;
    weight->is_flat = rows.tensor_rows != 0;
    weight->matrices = arena_calloc(&w->arena, n_heads, sizeof *weight->matrices);
    if (!weight->matrices) {
        error_memory(err, "weight table");
        return NULL;
    }
    for (uint32_t h = 0; h < n_heads && !w->checkpoint; h++)
        plan_matrix(w, &weight->matrices[h], module, n_rows, n_cols);
    if (w->checkpoint && !bind_heads(w, weight, module, &found, &rows, err)) return NULL;
    count_bytes(weight);
    return weight;
}

static bool widen(struct weights *w, struct weight *weight, const struct tensor *tensor,
                  const struct row_selection *selection, struct mx_error *err) {
    uint32_t n = weight->n_cols, total = selection && selection->tensor_rows ? selection->tensor_rows : n;
    float *all = arena_calloc(&w->arena, total, sizeof *all);
    if (!all) return error_memory(err, tensor->name);
    if (!vector_widen(tensor, total, all, err)) return false;
    weight->vector = all;
    if (!selection || !selection->tensor_rows) return true;
    weight->vector = arena_calloc(&w->arena, n, sizeof *weight->vector);
    if (!weight->vector) return error_memory(err, tensor->name);
    uint32_t run = selection->run_rows ? selection->run_rows : n, step = selection->run_rows ? selection->run_step : n;
    for (uint32_t i = 0; i < n; i++) weight->vector[i] = all[selection->first_row + i / run * step + i % run];
    return true;
}

struct weight *weights_vector(struct weights *w, const char *scope, const char *names,
                              const struct row_selection *selection, uint32_t n, struct mx_error *err) {
    char name[MAX_NAME];
    const struct tensor *tensor = NULL;
    weight_full_name(scope, names, 0, "", name);
    if (w->checkpoint && !(tensor = weights_find(w, scope, names))) {
        checkpoint_missing(w->checkpoint, name, err);
        return NULL;
    }
    struct weight *weight = new_weight(w, tensor ? tensor->name : name, ROLE_NORM, 1, n, 0, err);
    if (!weight) return NULL;
    weight->tensor_rows = selection ? selection->tensor_rows : 0;
    weight->stored_bytes = (uint64_t)n * dtype_bytes(tensor ? tensor->dtype : w->plain_dtype);
    if (tensor && (!widen(w, weight, tensor, selection, err) || !mark_used(w, tensor, err))) return NULL;
    return weight;
}

void weights_unused(const struct weights *w, void (*visit)(void *context, const struct tensor *tensor), void *context) {
    for (size_t f = 0; w->checkpoint && f < w->checkpoint->n_files; f++)
        for (size_t t = 0; t < w->checkpoint->files[f].n_tensors; t++) {
            const struct tensor *tensor = &w->checkpoint->files[f].tensors[t];
            if (!map_get(&w->used, tensor->name, strlen(tensor->name), NULL)) visit(context, tensor);
        }
}

bool weights_init(struct weights *w, const struct checkpoint *checkpoint, struct config *config, struct mx_error *err) {
    *w = (struct weights){.checkpoint = checkpoint, .config = config};
    return weight_formats_from_config(w, err);
}

void weights_free(struct weights *w) {
    free(w->list);
    map_free(&w->used);
    map_free(&w->transposed);
    free(w->copies);
    arena_free(&w->arena);
    *w = (struct weights){0};
}
