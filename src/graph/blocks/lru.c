/* SPDX-License-Identifier: Apache-2.0 */
/* The recurrent block of Griffin (De et al. 2024): a convolution and a gated linear recurrence, times a GELU branch. The
 * gates are products with one square matrix for each block of channels, stored as [in][out]. */
#include "graph/blocks/blocks.h"

#include <math.h>

static struct value biased(struct builder *b, struct value x, const char *module, uint32_t n_rows) {
    const char *bias = block_name(b, module, "bias");
    return b_linear(b, x, b_matrix(b, ROLE_RECURRENT, module, n_rows, x.width),
                    block_optional_vector(b, bias, true, n_rows));
}

/* sigmoid of x's blocks times their matrices, with a bias. */
static struct value gate(struct builder *b, struct value x, uint32_t n_heads, const char *weight, const char *bias) {
    uint32_t width = x.width / n_heads;
    struct value out = b_value(b, x.width);
    b_multiply_heads(b, x, b_heads(b, (struct matrix_source){.module = weight}, n_heads, width, width), true, out, 0);
    return b_unary(b, UNARY_SIGMOID, b_add_vector(b, out, b_vector(b, bias, x.width)));
}

/* -8 softplus(parameter): the log of the slowest decay. */
static float log_decay(float x) { return (float)(-8 * (x > 30 ? (double)x : log1p(exp((double)x)))); }

struct value block_lru(struct builder *b, struct value x, const struct lru_spec *s, const char *module) {
    uint32_t width = s->width;
    if (!block_check_mixer(b, width, 1, s->conv_taps)) return value_none();
    if (!b->failed && width % s->n_heads)
        builder_fail(b, ERROR_FORMAT, "%s: a recurrence of %u channels in %u blocks", b->config->path, width,
                     s->n_heads);
    struct value branch = biased(b, x, block_name(b, module, "linear_y"), width);
    struct value u = biased(b, x, block_name(b, module, "linear_x"), width);
    u = block_conv(b, u, block_conv_weight(b, block_name(b, module, "conv_1d.weight"), width, s->conv_taps),
                   block_optional_vector(b, block_name(b, module, "conv_1d.bias"), true, width), s->conv_taps, false);
    struct value input = gate(b, u, s->n_heads, block_name(b, module, "rg_lru.input_gate_weight"),
                              block_name(b, module, "rg_lru.input_gate_bias"));
    struct value recurrent = gate(b, u, s->n_heads, block_name(b, module, "rg_lru.recurrent_gate_weight"),
                                  block_name(b, module, "rg_lru.recurrent_gate_bias"));
    const struct weight *rate = b_vector(b, block_name(b, module, "rg_lru.recurrent_param"), width);
    b_transform(b, rate, log_decay);
    struct op scan = {.kind = OP_LRU, .in = {b_multiply(b, u, input), b_weigh(b, recurrent, rate)}};
    scan.head.heads =
        (struct head_params){.n_units = (width + CHANNEL_UNIT - 1) / CHANNEL_UNIT, .is_channelwise = true};
    scan.head.scan = (struct scan_params){
        .n_channels = width, .unit_channels = CHANNEL_UNIT, .state_dim = 1, .state = b_state(b, width)};
    struct value y = b_gated(b, UNARY_GELU_TANH, branch, b_head_op(b, scan, width));
    return biased(b, y, block_name(b, module, "linear_out"), x.width);
}
