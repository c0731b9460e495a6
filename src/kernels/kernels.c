/* SPDX-License-Identifier: Apache-2.0 */
/* Which tiers this processor has, and their tables. */
#include "kernels/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#ifdef MLXCEL_TIER_NEON
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static const char *const tier_names[N_TIERS] = {"ref", "avx2", "avx512", "neon"};

static struct kernels tables[N_TIERS];
static bool has_tier[N_TIERS];
static pthread_once_t fill_once = PTHREAD_ONCE_INIT;

/* The x86 check is that of the compiler's runtime, which also asks the operating system for the register state. */
static void fill_tables(void) {
    has_tier[TIER_REF] = true;
    kernels_fill_ref(&tables[TIER_REF]);
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
    if (has_avx2) kernels_fill_ref_fma(&tables[TIER_REF]);
    if (has_avx2) {
        has_tier[TIER_AVX2] = true;
        tables[TIER_AVX2] = tables[TIER_REF];
        kernels_fill_avx2(&tables[TIER_AVX2]);
    }
    if (has_avx512) {
        has_tier[TIER_AVX512] = true;
        tables[TIER_AVX512] = tables[TIER_AVX2];
        kernels_fill_avx512(&tables[TIER_AVX512]);
    }
#elif defined(MLXCEL_TIER_NEON)
    const unsigned long wanted = HWCAP_ASIMDDP | HWCAP_FPHP | HWCAP_ASIMDHP; /* what the tier is compiled for */
    if ((getauxval(AT_HWCAP) & wanted) != wanted) return;
    has_tier[TIER_NEON] = true;
    tables[TIER_NEON] = tables[TIER_REF];
    kernels_fill_neon(&tables[TIER_NEON]);
#endif
}

const struct kernels *kernels_for_tier(enum kernel_tier tier) {
    pthread_once(&fill_once, fill_tables);
    return has_tier[tier] ? &tables[tier] : NULL;
}

enum kernel_tier kernels_best_tier(void) {
    for (int tier = N_TIERS - 1; tier > TIER_REF; tier--)
        if (kernels_for_tier((enum kernel_tier)tier)) return (enum kernel_tier)tier;
    return TIER_REF;
}

const char *kernel_tier_name(enum kernel_tier tier) { return tier_names[tier]; }

bool kernel_tier_from_name(const char *name, enum kernel_tier *tier) {
    for (int i = 0; i < N_TIERS; i++)
        if (!strcmp(name, tier_names[i])) {
            *tier = (enum kernel_tier)i;
            return true;
        }
    return false;
}

const char *kernel_name(int id) {
    static const char *const names[N_KERNELS] = {
#define NAME(name, result, arguments) #name,
        KERNELS(NAME)
#undef NAME
            [KERNEL_matmul + WEIGHT_F32] = "matmul f32",
        [KERNEL_matmul + WEIGHT_F16] = "matmul f16",
        [KERNEL_matmul + WEIGHT_BF16] = "matmul bf16",
        [KERNEL_matmul + WEIGHT_AFFINE2] = "matmul affine-2",
        [KERNEL_matmul + WEIGHT_AFFINE3] = "matmul affine-3",
        [KERNEL_matmul + WEIGHT_AFFINE4] = "matmul affine-4",
        [KERNEL_matmul + WEIGHT_AFFINE5] = "matmul affine-5",
        [KERNEL_matmul + WEIGHT_AFFINE6] = "matmul affine-6",
        [KERNEL_matmul + WEIGHT_AFFINE8] = "matmul affine-8",
        [KERNEL_matmul + WEIGHT_MXFP4] = "matmul mxfp4",
        [KERNEL_matmul + WEIGHT_MXFP8] = "matmul mxfp8",
        [KERNEL_matmul + WEIGHT_NVFP4] = "matmul nvfp4",
        [KERNEL_matmul + WEIGHT_E4M3] = "matmul e4m3",
        [KERNEL_matmul + WEIGHT_TERNARY] = "matmul ternary",
    };
    return id >= 0 && id < N_KERNELS ? names[id] : "?";
}

enum activation_form matmul_activation_form(enum weight_format format) {
    static const enum activation_form forms[N_WEIGHT_FORMATS] = {
        [WEIGHT_F32] = ACTIVATION_F32,       [WEIGHT_F16] = ACTIVATION_F32,
        [WEIGHT_BF16] = ACTIVATION_BF16,     [WEIGHT_AFFINE2] = ACTIVATION_CRUMBS,
        [WEIGHT_AFFINE3] = ACTIVATION_BYTES, [WEIGHT_AFFINE4] = ACTIVATION_NIBBLES,
        [WEIGHT_AFFINE5] = ACTIVATION_BYTES, [WEIGHT_AFFINE6] = ACTIVATION_BYTES,
        [WEIGHT_AFFINE8] = ACTIVATION_BYTES, [WEIGHT_MXFP4] = ACTIVATION_NIBBLES,
        [WEIGHT_MXFP8] = ACTIVATION_BF16,    [WEIGHT_NVFP4] = ACTIVATION_NIBBLES,
        [WEIGHT_E4M3] = ACTIVATION_BF16,     [WEIGHT_TERNARY] = ACTIVATION_BYTES,
    };
    return forms[format];
}
