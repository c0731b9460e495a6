/* SPDX-License-Identifier: Apache-2.0 */
/* Causal depthwise convolutions, as part of mixers and as a mixer of their own, and other small parts of mixers. */
#include "graph/blocks/blocks.h"

#include <math.h>
#include <string.h>

static float minus_exp(float x) { return (float)-exp((double)x); }

bool block_check_mixer(struct builder *b, uint64_t channels, uint64_t state_dim, uint64_t taps) {
    if (b->failed) return false;
    if (channels > 0 && channels <= 1 << 20 && state_dim <= 1024 && taps >= 2 && taps <= 64) return true;
    builder_fail(
        b, ERROR_FORMAT, "%s: a mixer of %llu channels with %llu state values each and %llu taps is not credible",
        b->config->path, (unsigned long long)channels, (unsigned long long)state_dim, (unsigned long long)taps);
    return false;
}

const struct weight *block_decay_rate(struct builder *b, const char *name, uint32_t n) {
    const struct weight *a = b_vector(b, name, n);
    b_transform(b, a, minus_exp);
    return a;
}

const struct weight *block_optional_vector(struct builder *b, const char *name, bool expected, uint32_t n) {
    return b_has(b, name, expected) ? b_vector(b, name, n) : NULL;
}

const struct weight *block_conv_weight(struct builder *b, const char *names, uint32_t channels, uint32_t taps) {
    const struct weight *weight = b_vector(b, names, channels * taps);
    if (weight) ((struct weight *)(uintptr_t)weight)->taps = taps;
    return weight;
}

const struct weight *block_joined_conv(struct builder *b, const char *const names[3], const uint32_t channels[3],
                                       uint32_t taps) {
    uint32_t all = channels[0] + channels[1] + channels[2], at = 0;
    const struct weight *joined = b_constant(b, all * taps, 0);
    for (int i = 0; i < 3 && !b->failed; i++) {
        const struct tensor *tensor = weights_find(&b->graph->weights, b->scope, names[i]);
        uint32_t n = channels[i];
        if (tensor && tensor->n_dims == 3 && tensor->shape[0] <= all) n = (uint32_t)tensor->shape[0];
        const struct weight *part = block_conv_weight(b, names[i], n, taps);
        if (b->failed) return NULL;
        if (at + n > all || (i == 2 && tensor && at + n != all))
            builder_fail(b, ERROR_FORMAT, "%s: '%s' and its like have not %u channels together", b->config->path,
                         part->name, all);
        else if (part->vector)
            memcpy(joined->vector + (size_t)at * taps, part->vector, (size_t)n * taps * sizeof(float));
        at += n;
    }
    return joined;
}

struct value block_previous(struct builder *b, struct value x) {
    const struct weight *taps = b_constant(b, 2 * x.width, 0);
    for (uint32_t i = 0; i < x.width && !b->failed; i++) taps->vector[2 * i] = 1;
    return block_conv(b, x, taps, NULL, 2, false);
}

struct value block_conv(struct builder *b, struct value x, const struct weight *weight, const struct weight *bias,
                        uint32_t taps, bool silu) {
    struct op op = {.kind = OP_CONV, .in = {x}};
    op.head.heads =
        (struct head_params){.n_units = (x.width + CHANNEL_UNIT - 1) / CHANNEL_UNIT, .is_channelwise = true};
    op.head.conv = (struct conv_params){
        .weight = weight,
        .bias = bias,
        .taps = taps,
        .n_channels = x.width,
        .state = b_state(b, (uint64_t)(taps - 1) * x.width),
        .silu = silu,
        .n_ranges = 1,
        .count = {CHANNEL_UNIT},
    };
    return b_head_op(b, op, x.width);
}

struct value block_short_conv(struct builder *b, struct value x, const struct short_conv_spec *s, const char *module) {
    uint32_t n = x.width;
    if (!block_check_mixer(b, n, 1, s->taps)) return value_none();
    const char *in_proj = block_name(b, module, "in_proj"), *out_proj = block_name(b, module, "out_proj");
    const char *conv = block_name(b, module, "conv.weight"), *conv_bias = block_name(b, module, "conv.bias");
    struct value bcx = b_linear(b, x, b_matrix(b, ROLE_RECURRENT, in_proj, 3 * n, n),
                                block_optional_vector(b, block_name(b, in_proj, "bias"), s->has_bias, 3 * n));
    struct value y = b_multiply(b, value_columns(bcx, 0, n), value_columns(bcx, 2 * n, n));
    y = block_conv(b, y, block_conv_weight(b, conv, n, s->taps), block_optional_vector(b, conv_bias, s->has_bias, n),
                   s->taps, false);
    y = b_multiply(b, value_columns(bcx, n, n), y);
    return b_linear(b, y, b_matrix(b, ROLE_RECURRENT, out_proj, n, n),
                    block_optional_vector(b, block_name(b, out_proj, "bias"), s->has_bias, n));
}
