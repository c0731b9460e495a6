/* SPDX-License-Identifier: Apache-2.0 */
/* Dot product, norms, softmax. */
#include "kernels/simd/math.h"
#include "kernels/simd/simd.h"

float SIMD_NAME(dot)(const float *a, const float *b, uint32_t n) { return lanes_dot(a, b, n); }

void SIMD_NAME(rms_norm)(const float *x, const float *weight, float eps, uint32_t n, float *y) {
    lanes r = lanes_set1(1.0f / __builtin_sqrtf(lanes_dot(x, x, n) / (float)n + eps));
    for (uint32_t k = 0; k < n; k += 16) {
        lanes v = lanes_mul(lanes_load_some(x + k, n - k), r);
        if (weight) v = lanes_mul(v, lanes_load_some(weight + k, n - k));
        lanes_store_some(y + k, v, n - k);
    }
}

SIMD_INLINE lanes lanes_sum_of(const float *x, uint32_t n) {
    lanes sum = lanes_zero();
    for (uint32_t k = 0; k < n; k += 16) sum = lanes_add(sum, lanes_load_some(x + k, n - k));
    return sum;
}

void SIMD_NAME(layer_norm)(const float *x, const float *weight, const float *bias, float eps, uint32_t n, float *y) {
    lanes mean = lanes_set1(lanes_sum(lanes_sum_of(x, n)) / (float)n), squares = lanes_zero();
    for (uint32_t k = 0; k < n; k += 16) {
        lanes d = lanes_keep(lanes_sub(lanes_load_some(x + k, n - k), mean), n - k);
        squares = lanes_fma(d, d, squares);
    }
    lanes r = lanes_set1(1.0f / __builtin_sqrtf(lanes_sum(squares) / (float)n + eps));
    for (uint32_t k = 0; k < n; k += 16) {
        lanes d = lanes_mul(lanes_sub(lanes_load_some(x + k, n - k), mean), r);
        if (weight) d = lanes_mul(d, lanes_load_some(weight + k, n - k));
        if (bias) d = lanes_add(d, lanes_load_some(bias + k, n - k));
        lanes_store_some(y + k, d, n - k);
    }
}

void SIMD_NAME(threshold)(const float *x, float factor, uint32_t n, float *y) {
    float average = lanes_sum(lanes_sum_of(x, n)) / (float)n;
    lanes mean = lanes_set1(average), squares = lanes_zero();
    for (uint32_t k = 0; k < n; k += 16) {
        lanes d = lanes_keep(lanes_sub(lanes_load_some(x + k, n - k), mean), n - k);
        squares = lanes_fma(d, d, squares);
    }
    lanes border = lanes_set1(__builtin_fmaf(factor, __builtin_sqrtf(lanes_sum(squares) / (float)n), average));
    for (uint32_t k = 0; k < n; k += 16) {
        lanes d = lanes_sub(lanes_load_some(x + k, n - k), border);
        lanes_store_some(y + k, lanes_max(d, lanes_zero()), n - k);
    }
}

/* A NaN anywhere makes every result NaN, whichever way the maximum takes it. */
static float largest(const float *x, uint32_t n) {
    lanes m = lanes_set1(x[0]);
    for (uint32_t k = 0; k + 16 <= n; k += 16) m = lanes_max(lanes_load(x + k), m);
    float all[16], most;
    lanes_store(all, m);
    most = all[0];
    for (uint32_t l = 1; l < 16; l++) most = all[l] > most ? all[l] : most;
    for (uint32_t k = n / 16 * 16; k < n; k++) most = x[k] > most ? x[k] : most;
    return most;
}

void SIMD_NAME(softmax)(float *x, uint32_t n) {
    lanes most = lanes_set1(largest(x, n)), sum = lanes_zero();
    for (uint32_t k = 0; k < n; k += 16) {
        lanes e = lanes_exp(lanes_sub(lanes_load_some(x + k, n - k), most));
        lanes_store_some(x + k, e, n - k);
        sum = lanes_add(sum, lanes_keep(e, n - k));
    }
    lanes total = lanes_set1(lanes_sum(sum));
    for (uint32_t k = 0; k < n; k += 16)
        lanes_store_some(x + k, lanes_div(lanes_load_some(x + k, n - k), total), n - k);
}
