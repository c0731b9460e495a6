/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MLXCEL_KERNELS_AVX2_ROWS_H
#define MLXCEL_KERNELS_AVX2_ROWS_H

#include "kernels/kernels.h"

void avx2_row_load(const float *logits, uint32_t n, float *x);
void avx2_row_maxima(const float *x, uint32_t n, float *maxima);
void avx2_row_weights(const float *x, float shift, float scale, uint32_t n, float *w, double *sums);
void avx2_row_split(const float *key, const float *w, uint32_t n, float high, float low, struct row_split *split);
uint32_t avx2_row_find(const float *key, uint32_t first, uint32_t end, float high, float low, uint32_t *found);
void avx2_row_keep(const float *key, float value, uint32_t n, float *x);

#endif
