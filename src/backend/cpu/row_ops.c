/* SPDX-License-Identifier: Apache-2.0 */
/* Row ops: a task is some rows. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

void cpu_normalize_at(const struct compiled *c, const struct norm_params *norm, size_t at, const float *x, uint32_t n,
                      float *y) {
    const float *weight = norm->weight ? norm->weight->vector + at : NULL;
    const float *bias = norm->bias ? norm->bias->vector + at : NULL;
    if (norm->kind == NORM_RMS)
        c->kernels->rms_norm(x, weight, norm->eps, n, y);
    else
        c->kernels->layer_norm(x, weight, bias, norm->eps, n, y);
}

void cpu_normalize(const struct compiled *c, const struct norm_params *norm, const float *x, uint32_t n, float *y) {
    uint32_t group = norm->group ? norm->group : n;
    for (uint32_t first = 0; first < n; first += group)
        cpu_normalize_at(c, norm, norm->per_group ? first : 0, x + first, group, y + first);
}

static void embed_row(const struct compiled *c, const struct op *op, uint32_t row, float *out) {
    const struct step_row *r = &c->step->rows[row];
    const struct matrix *table = op->embed.weight->matrices;
    uint32_t id = (uint32_t)r->token;
    if (op->embed.by_value) {
        memcpy(&id, value_row(c, op->in[0], row), sizeof id);
        if (id >= table->n_rows) id = 0;
    } else if (op->embed.by_id) {
        if (r->token < 0 || id >= table->n_rows) id = 0;
    } else if (op->embed.by_position) {
        id = r->position;
    } else if (r->token < 0) {
        memcpy(out, r->vector, table->n_cols * sizeof *out);
        return;
    } else if (op->embed.more && id >= table->n_rows) {
        id -= table->n_rows;
        table = op->embed.more->matrices;
    }
    cpu_widen_row(c, table, id < table->n_rows ? id : table->n_rows - 1, out);
}

/* Frequencies of the dynamic-NTK base for a length beyond the original one. */
static void dynamic_angles(const struct compiled *c, const struct rope *rope, const struct step_row *r, float *cosine,
                           float *sine) {
    double dim = rope->rotary_dim, length = r->rope_length;
    double stretch = rope->factor * length / rope->original_length - (rope->factor - 1);
    double base = rope->base * pow(stretch, dim / (dim - 2));
    for (uint32_t i = 0; i < rope->rotary_dim / 2; i++) {
        float inverse = (float)pow(base, -2.0 * i / dim);
        c->kernels->rope_angles((float)r->position, &inverse, 1, rope->attention_factor, cosine + i, sine + i);
    }
}

static void rope_table_row(const struct compiled *c, const struct op *op, uint32_t row, float *out) {
    const struct rope *rope = &c->graph->ropes[op->rope_table];
    const struct step_row *r = &c->step->rows[row];
    uint32_t n = rope->rotary_dim / 2;
    bool is_long = rope->kind != ROPE_PLAIN && r->rope_length > rope->original_length;
    if (is_long && rope->kind == ROPE_DYNAMIC) {
        dynamic_angles(c, rope, r, out, out + n);
        return;
    }
    uint32_t position = rope->step ? r->position / rope->step * rope->step : r->position;
    c->kernels->rope_angles((float)position, is_long ? rope->long_inverse_frequency : rope->inverse_frequency, n,
                            is_long ? rope->long_attention_factor : rope->attention_factor, out, out + n);
}

static float position_factor(const struct position_scale *s, double position) {
    return (float)(1 + s->beta * log(1 + floor((position + s->offset) / s->length)));
}

static void combine_row(const struct compiled *c, const struct op *op, uint32_t row, float *out) {
    const float *route = value_row(c, op->in[1], row), *weights = route + op->combine.top_k;
    uint32_t n = op->out.width;
    for (uint32_t s = 0; s < op->combine.top_k; s++) {
        uint32_t expert;
        memcpy(&expert, route + s, sizeof expert);
        const float *y = value_row(c, op->in[0], row) + (size_t)s * n;
        if (expert >= op->combine.n_experts) y = value_row(c, op->in[2], row);
        if (s == 0)
            c->kernels->scale(y, weights[0], n, out);
        else
            c->kernels->add_scaled(y, weights[s], n, out);
    }
}

/* y = x * factors, or, with fewer factors than values, each factor times its block. */
static void multiply_blocks(const struct compiled *c, const float *x, const float *factors, uint32_t n,
                            uint32_t n_factors, float *y) {
    if (n == n_factors) {
        c->kernels->multiply(x, factors, n, y);
        return;
    }
    uint32_t block = n / n_factors;
    for (uint32_t i = 0; i < n_factors; i++)
        c->kernels->scale(x + (size_t)i * block, factors[i], block, y + (size_t)i * block);
}

static void mix_row(const struct compiled *c, const struct op *op, uint32_t row, float *out) {
    const float *x = value_row(c, op->in[0], row), *factors = value_row(c, op->in[1], row);
    const float *residual = op->in[2].width ? value_row(c, op->in[2], row) : NULL;
    uint32_t n_out = op->n_streams, n_in = op->in[1].width / n_out, width = op->out.width / n_out;
    for (uint32_t i = 0; i < n_out; i++, out += width) {
        if (residual)
            memcpy(out, residual + (size_t)i * width, width * sizeof *out);
        else
            memset(out, 0, width * sizeof *out);
        for (uint32_t j = 0; j < n_in; j++)
            c->kernels->add_scaled(x + (size_t)j * width, factors[i * n_in + j], width, out);
    }
}

/* Divides each row (step 1 within, n between) or column of [n][n] by its sum + epsilon. */
static void divide_sums(float *m, uint32_t n, uint32_t within, uint32_t between, float epsilon) {
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (uint32_t j = 0; j < n; j++) sum = sum + m[i * between + j * within];
        sum = sum + epsilon;
        for (uint32_t j = 0; j < n; j++) m[i * between + j * within] = m[i * between + j * within] / sum;
    }
}

static void hyper_row(const struct compiled *c, const struct hyper_params *p, const float *raw, float *out) {
    uint32_t n = p->n, n_all = p->n_parts == 1 ? n : (2 + n) * n;
    const float *base = p->base->vector, *scale = p->scale->vector;
    float m[HYPER_STREAMS * HYPER_STREAMS];
    for (uint32_t i = 0; i < n_all; i++) {
        uint32_t part = i / n < 2 ? i / n : 2;
        out[i] = raw[i] * scale[part];
        out[i] = out[i] + base[i];
    }
    c->kernels->unary(UNARY_SIGMOID, out, p->n_parts == 1 ? n : 2 * n, out);
    for (uint32_t i = 0; i < n; i++) out[i] = out[i] + p->epsilon;
    if (p->n_parts == 1) return;
    c->kernels->scale(out + n, 2.0f, n, out + n);
    memcpy(m, out + 2 * n, (size_t)n * n * sizeof *m);
    for (uint32_t i = 0; i < n; i++) c->kernels->softmax(m + i * n, n);
    for (uint32_t i = 0; i < n * n; i++) m[i] = m[i] + p->epsilon;
    divide_sums(m, n, n, 1, p->epsilon);
    for (uint32_t i = 1; i < p->n_iterations; i++) {
        divide_sums(m, n, 1, n, p->epsilon);
        divide_sums(m, n, n, 1, p->epsilon);
    }
    for (uint32_t i = 0; i < n * n; i++) out[2 * n + i % n * n + i / n] = m[i];
}

static void tap_row(const struct compiled *c, const struct op *op, uint32_t row) {
    float *tap = c->step->taps[op->layer];
    if (tap) memcpy(tap + (size_t)row * op->in[0].width, value_row(c, op->in[0], row), op->in[0].width * sizeof *tap);
}

static void run_row(const struct compiled *c, const struct op *op, uint32_t row) {
    const struct kernels *k = c->kernels;
    float *out = op->out.id != NO_VALUE ? value_row(c, op->out, row) : NULL;
    uint32_t n = op->out.width;
    const float *in0 =
        op->in[0].width ? value_row(c, op->in[0], op->kind == OP_SELECT ? c->step->outputs[row] : row) : NULL;
    const float *in1 = op->in[1].width && op->in[1].id != NO_VALUE ? value_row(c, op->in[1], row) : NULL;
    switch (op->kind) {
    case OP_EMBED: embed_row(c, op, row, out); break;
    case OP_ROPE_TABLE: rope_table_row(c, op, row, out); break;
    case OP_NORM: cpu_normalize(c, &op->norm, in0, n, out); break;
    case OP_ADD: k->add(in0, in1 ? in1 : op->weight->vector, n, out); break;
    case OP_BLOCK_DOT: {
        uint32_t block = op->in[0].width / n;
        const float *other = in1 ? in1 : op->weight->vector;
        for (uint32_t i = 0; i < n; i++) out[i] = k->dot(in0 + (size_t)i * block, other + (size_t)i * block, block);
        break;
    }
    case OP_MULTIPLY: multiply_blocks(c, in0, in1, n, op->in[1].width, out); break;
    case OP_WEIGH: multiply_blocks(c, in0, op->weight->vector, n, op->weight->n_cols, out); break;
    case OP_SPREAD:
        for (uint32_t i = 0; i < op->weight->n_cols; i++)
            k->scale(in0, op->weight->vector[i], op->in[0].width, out + (size_t)i * op->in[0].width);
        break;
    case OP_MIX: mix_row(c, op, row, out); break;
    case OP_THRESHOLD: k->threshold(in0, op->factor, n, out); break;
    case OP_MATCH_RMS: {
        float square = k->dot(in0, in0, n) / (float)n, wanted = k->dot(in1, in1, n) / (float)n;
        k->scale(in0, sqrtf(wanted) / sqrtf(square > op->factor ? square : op->factor), n, out);
        break;
    }
    case OP_SCALE: k->scale(in0, op->factor, n, out); break;
    case OP_UNARY: k->unary(op->unary, in0, n, out); break;
    case OP_GATED: k->gated(op->unary, in0, in1, n, out); break;
    case OP_SOFTCAP: k->softcap(in0, op->factor, n, out); break;
    case OP_CLIP: k->clip(in0, op->clip.low, op->clip.high, n, out); break;
    case OP_POSITION: *out = position_factor(&op->position, c->step->rows[row].position); break;
    case OP_HYPER: hyper_row(c, &op->hyper, in0, out); break;
    case OP_SOFTMAX:
        memcpy(out, in0, n * sizeof *out);
        k->softmax(out, n);
        break;
    case OP_GRID: k->grid(in0, op->grid.step->vector[0], n, out); break;
    case OP_XIELU:
        k->xielu(in0, op->xielu.positive->vector[0], op->xielu.negative->vector[0], op->xielu.beta, op->xielu.epsilon,
                 n, out);
        break;
    case OP_COPY:
    case OP_CHOOSE: memcpy(out, c->step->rows[row].is_canvas ? in1 : in0, n * sizeof *out); break;
    case OP_CONDITION:
        if (c->step->rows[row].condition)
            memcpy(out, c->step->rows[row].condition, n * sizeof *out);
        else
            memset(out, 0, n * sizeof *out);
        break;
    case OP_SELECT: memcpy(out, in0, n * sizeof *out); break;
    case OP_TAP: tap_row(c, op, row); break;
    case OP_ROUTE: cpu_route_row(c, &op->router, c->step->rows[row].token, (float *)(uintptr_t)in0, out); break;
    case OP_COMBINE: combine_row(c, op, row, out); break;
    default: break;
    }
}

void cpu_row_op(struct compiled *c, const struct op *op, int thread) {
    if (op->kind == OP_TAP && !c->step->taps) return;
    struct value domain = op->out.id != NO_VALUE ? op->out : op->in[0];
    uint32_t n_rows = value_rows(c, domain), per_task = 1;
    /* Narrow rows go several to a task: a task is worth taking from about 4,096 values on. */
    if (domain.width < 4096) per_task = 4096 / (domain.width ? domain.width : 1);
    uint32_t n_tasks = (n_rows + per_task - 1) / per_task, task;
    while (pool_take(c->pool, thread, n_tasks, &task))
        for (uint32_t row = task * per_task; row < (task + 1) * per_task && row < n_rows; row++) run_row(c, op, row);
}
