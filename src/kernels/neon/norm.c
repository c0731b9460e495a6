/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/neon/lanes.h"

#include "kernels/simd/norm.h"
