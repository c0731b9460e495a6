/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of a whole row, and what the blocks share: names and biases. */
#include "graph/blocks/blocks.h"

#include <string.h>

/* Appends n bytes of text. */
static char *put(char *at, const char *text, size_t n) {
    memcpy(at, text, n);
    return at + n;
}

const char *block_name(struct builder *b, const char *modules, const char *names) {
    if (!modules) return names;
    size_t n_modules = 1, n_names = 1;
    for (const char *at = modules; *at; at++) n_modules += *at == '|';
    for (const char *at = names; *at; at++) n_names += *at == '|';
    size_t room = n_names * (strlen(modules) + 1) + n_modules * (strlen(names) + 1) + n_modules * n_names + 1;
    char *joined = b->failed ? NULL : arena_alloc(&b->graph->arena, room), *at = joined;
    if (!b->failed && !joined) builder_fail(b, ERROR_MEMORY, "out of memory (names)");
    if (!joined) return "";
    for (const char *module = modules; *module; module += *module == '|') {
        size_t n_module = strcspn(module, "|");
        for (const char *name = names; *name; name += *name == '|') {
            size_t n_name = strcspn(name, "|");
            if (at != joined) *at++ = '|';
            at = put(at, module, n_module);
            *at++ = '.';
            at = put(at, name, n_name);
            name += n_name;
        }
        module += n_module;
    }
    *at = '\0';
    return joined;
}

const struct weight *block_bias(struct builder *b, const char *name, struct row_selection rows, uint32_t n,
                                bool expected) {
    return b_has(b, name, expected) ? b_vector_rows(b, name, rows, n) : NULL;
}

static float plus_one(float x) { return 1.0f + x; }

struct value block_norm(struct builder *b, struct value x, const struct norm_spec *s, const char *module) {
    struct norm_params norm = {.kind = s->kind, .eps = s->eps};
    if (!s->is_plain) {
        norm.weight = b_vector(b, block_name(b, module, "weight"), x.width);
        if (s->plus_one) b_transform(b, norm.weight, plus_one);
        norm.bias = block_bias(b, block_name(b, module, "bias"), (struct row_selection){0}, x.width, s->has_bias);
    }
    return b_norm(b, x, norm);
}
