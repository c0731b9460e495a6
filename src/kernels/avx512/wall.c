/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/avx512/lanes.h"

#include "kernels/simd/wall.h"
