/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, element-wise functions, softmax, rotary embedding. */
#include "kernels/ref/ref.h"

#include "kernels/ref/math.h"

float REF_NAME(dot)(const float *a, const float *b, uint32_t n) { return dot16(a, b, n); }

void REF_NAME(rms_norm)(const float *x, const float *weight, float eps, uint32_t n, float *y) {
    float r = 1.0f / __builtin_sqrtf(dot16(x, x, n) / (float)n + eps);
    for (uint32_t k = 0; k < n; k++) y[k] = weight ? x[k] * r * weight[k] : x[k] * r;
}

void REF_NAME(layer_norm)(const float *x, const float *weight, const float *bias, float eps, uint32_t n, float *y) {
    float lanes[16] = {0};
    for (uint32_t k = 0; k < n; k++) lanes[k & 15] = lanes[k & 15] + x[k];
    float mean = lanes_sum(lanes) / (float)n;
    float squares[16] = {0};
    for (uint32_t k = 0; k < n; k++) squares[k & 15] = fused(x[k] - mean, x[k] - mean, squares[k & 15]);
    float r = 1.0f / __builtin_sqrtf(lanes_sum(squares) / (float)n + eps);
    for (uint32_t k = 0; k < n; k++) {
        float d = (x[k] - mean) * r;
        if (weight) d = d * weight[k];
        y[k] = bias ? d + bias[k] : d;
    }
}

void REF_NAME(threshold)(const float *x, float factor, uint32_t n, float *y) {
    float lanes[16] = {0}, squares[16] = {0};
    for (uint32_t k = 0; k < n; k++) lanes[k & 15] = lanes[k & 15] + x[k];
    float mean = lanes_sum(lanes) / (float)n;
    for (uint32_t k = 0; k < n; k++) squares[k & 15] = fused(x[k] - mean, x[k] - mean, squares[k & 15]);
    float border = fused(factor, __builtin_sqrtf(lanes_sum(squares) / (float)n), mean);
    for (uint32_t k = 0; k < n; k++) y[k] = x[k] - border > 0.0f ? x[k] - border : 0.0f;
}

void REF_NAME(add)(const float *a, const float *b, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = a[k] + b[k];
}

void REF_NAME(multiply)(const float *a, const float *b, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = a[k] * b[k];
}

void REF_NAME(scale)(const float *x, float factor, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = x[k] * factor;
}

void REF_NAME(add_scaled)(const float *x, float factor, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = fused(x[k], factor, y[k]);
}

void REF_NAME(softcap)(const float *x, float cap, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = cap * math_tanh(x[k] / cap);
}

void REF_NAME(clip)(const float *x, float low, float high, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) {
        float above = x[k] < low ? low : x[k];
        y[k] = above > high ? high : above;
    }
}

static float clipped(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

void REF_NAME(grid)(const float *x, float step, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = (round_magic(clipped(x[k] / step, -128.0f, 127.0f)) - ROUND_MAGIC) * step;
}

void REF_NAME(xielu)(const float *x, float a_p, float a_n, float beta, float epsilon, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) {
        float v = x[k], m = epsilon < v ? epsilon : v; /* NaN stays */
        float above = fused(a_p * v, v, beta * v), below = fused(math_exp(m) - 1.0f - v, a_n, beta * v);
        y[k] = v > 0.0f ? above : below;
    }
}

static float apply_unary(enum unary kind, float x) {
    switch (kind) {
    case UNARY_SILU: return math_silu(x);
    case UNARY_GELU_TANH: return math_gelu_tanh(x);
    case UNARY_GELU_ERF: return math_gelu_erf(x);
    case UNARY_RELU: return x < 0.0f ? 0.0f : x;
    case UNARY_RELU2: return (x < 0.0f ? 0.0f : x) * (x < 0.0f ? 0.0f : x);
    case UNARY_SIGMOID: return math_sigmoid(x);
    case UNARY_SOFTPLUS: return math_softplus(x);
    case UNARY_EXP: return math_exp(x);
    case UNARY_GELU_QUICK: return math_gelu_quick(x);
    default: return math_tanh(x);
    }
}

void REF_NAME(unary)(enum unary kind, const float *x, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = apply_unary(kind, x[k]);
}

void REF_NAME(gated)(enum unary kind, const float *gate, const float *up, uint32_t n, float *y) {
    for (uint32_t k = 0; k < n; k++) y[k] = apply_unary(kind, gate[k]) * up[k];
}

void REF_NAME(softmax)(float *x, uint32_t n) {
    float largest = x[0], lanes[16] = {0};
    for (uint32_t k = 1; k < n; k++) largest = x[k] > largest ? x[k] : largest;
    for (uint32_t k = 0; k < n; k++) {
        x[k] = math_exp(x[k] - largest);
        lanes[k & 15] = lanes[k & 15] + x[k];
    }
    float sum = lanes_sum(lanes);
    for (uint32_t k = 0; k < n; k++) x[k] = x[k] / sum;
}

void REF_NAME(rope_halves)(const float *x, const float *cosine, const float *sine, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n / 2; i++) {
        float a = x[i], b = x[i + n / 2];
        y[i] = fused(-b, sine[i], a * cosine[i]);
        y[i + n / 2] = fused(a, sine[i], b * cosine[i]);
    }
}

void REF_NAME(rope_pairs)(const float *x, const float *cosine, const float *sine, uint32_t n, float *y) {
    for (uint32_t i = 0; i < n / 2; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = fused(-b, sine[i], a * cosine[i]);
        y[2 * i + 1] = fused(a, sine[i], b * cosine[i]);
    }
}

/* In double, without fma, so that every compiler gives the same. */
static void sine_and_cosine(double x, double *sine, double *cosine) {
    double shifted = x * TRIG_TWO_OVER_PI + TRIG_ROUND, n = shifted - TRIG_ROUND;
    double r = (x - n * TRIG_PIO2_HI) - n * TRIG_PIO2_LO, z = r * r;
    double s = r + r * z * (SIN_C1 + z * (SIN_C2 + z * (SIN_C3 + z * (SIN_C4 + z * (SIN_C5 + z * SIN_C6)))));
    double c = COS_C1 + z * (COS_C2 + z * (COS_C3 + z * (COS_C4 + z * (COS_C5 + z * COS_C6))));
    c = 1.0 - 0.5 * z + z * z * c;
    uint64_t quadrant;
    memcpy(&quadrant, &shifted, sizeof quadrant);
    *sine = quadrant & 1 ? c : s;
    *cosine = quadrant & 1 ? s : c;
    if (quadrant & 2) *sine = -*sine;
    if ((quadrant + 1) & 2) *cosine = -*cosine;
}

void REF_NAME(rope_angles)(float position, const float *inverse_frequency, uint32_t n, float factor, float *cosine,
                           float *sine) {
    for (uint32_t i = 0; i < n; i++) {
        double s, c;
        sine_and_cosine((double)(position * inverse_frequency[i]), &s, &c);
        cosine[i] = (float)c * factor;
        sine[i] = (float)s * factor;
    }
}
