/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/neon/lanes.h"

#include "kernels/simd/matmul_e4m3_fma.h"
