/* SPDX-License-Identifier: Apache-2.0 */
/* Nemotron-NAS (Bercovich et al. 2024): a searched Llama. Each layer's attention and MLP has its own size, is a linear
 * map, or is missing, as block_configs says. */
#include "models/family.h"
#include "models/stack.h"

#include <math.h>

static const struct json *part_of(struct builder *b, uint32_t layer, const char *part) {
    const struct json *block = json_at(config_get(b->config, "block_configs"), layer), *found = json_get(block, part);
    if (!json_is_object(found))
        builder_fail(b, ERROR_FORMAT, "%s: 'block_configs' has no %s for layer %u", b->config->path, part, layer);
    return found;
}

static bool is_set(const struct json *part, const char *key) { return json_bool(json_get(part, key), false); }

static struct value linear(struct builder *b, struct value x, const char *module) {
    const struct weight *bias = block_bias(b, block_name(b, module, "bias"), (struct row_selection){0}, x.width, false);
    return b_linear(b, x, b_matrix(b, ROLE_MLP, module, x.width, x.width), bias);
}

static struct value mix(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (is_set(part_of(b, layer, "attention"), "replace_with_linear")) return linear(b, x, "self_attn.linear");
    return block_attention(b, x, &s->attention, s->attention_module);
}

static struct value feed_forward(struct builder *b, struct value x, struct stack *s, uint32_t layer) {
    if (is_set(part_of(b, layer, "ffn"), "replace_with_linear")) return linear(b, x, "mlp.linear");
    return stack_mlp(b, x, s, layer);
}

static void adjust(struct builder *b, struct stack *s, uint32_t layer) {
    const struct json *attention = part_of(b, layer, "attention"), *ffn = part_of(b, layer, "ffn");
    if (b->failed) return;
    s->has_no_attention = is_set(attention, "no_op");
    s->has_no_ffn = is_set(ffn, "no_op");
    int64_t group = json_integer(json_get(attention, "n_heads_in_group"), 1);
    double multiplier = json_number(json_get(ffn, "ffn_mult"), 1);
    if (group < 1 || group > s->d.n_heads || !(multiplier > 0 && multiplier < 1000)) {
        builder_fail(b, ERROR_FORMAT, "%s: the sizes of layer %u in 'block_configs' are not credible", b->config->path,
                     layer);
        return;
    }
    s->attention.n_kv_heads = s->d.n_heads / (uint32_t)group;
    uint32_t width = (uint32_t)(2 * (round(multiplier * 1e6) / 1e6) * s->d.hidden_size / 3);
    s->mlp.intermediate_size = (width + 255) / 256 * 256;
}

void build_nemotron_nas(struct builder *b) {
    struct stack s = stack_from_config(b, 500000);
    s.mix = mix;
    s.feed_forward = feed_forward;
    s.adjust = adjust;
    stack_build(b, &s);
}
