/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/blocks/blocks.h"

static float plus_one(float x) { return 1.0f + x; }

struct value block_norm(struct builder *b, struct value x, const struct norm_spec *s, const char *module) {
    struct norm_params norm = {.kind = s->kind, .eps = s->eps};
    if (!s->is_plain) {
        const char *bias = block_name(b, module, "bias");
        norm.weight = b_vector(b, block_name(b, module, "weight"), x.width);
        if (s->plus_one) b_transform(b, norm.weight, plus_one);
        if (b_has(b, bias, s->has_bias)) norm.bias = b_vector(b, bias, x.width);
    }
    return b_norm(b, x, norm);
}
