/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every tier that this processor has, against ref: equal bits on all shapes and values.
 *
 *   checkkern [PATTERN]              one line for each tier and kernel (whose name contains PATTERN)
 *   checkkern --break KERNEL         the same with a wrong last bit in that kernel of every tier: must fail
 *   checkkern --bench [PATTERN] [--tier NAME] [--threads N] [--processor-time]
 *                                    time of each kernel, and its share of the machine's walls; in processor time where
 *                                    other programs take part of the machine
 *
 * Also compared: ref as built for any processor with ref as built with fma, and ref's own fma with the C library's.
 * That each check can fail is checked too: a table with one wrong bit in one kernel must be found out. */
#include "tests/kernels/checkkern/check.h"
#include "tests/support/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const check_function checks[KERNEL_matmul] = {
    [KERNEL_to_f32] = check_to_f32,
    [KERNEL_to_bf16] = check_to_bf16,
    [KERNEL_to_q8] = check_to_q8,
    [KERNEL_dequantize_row] = check_dequantize_row,
    [KERNEL_dot] = check_dot,
    [KERNEL_rms_norm] = check_rms_norm,
    [KERNEL_layer_norm] = check_layer_norm,
    [KERNEL_add] = check_two_rows,
    [KERNEL_row_load] = check_row_load,
    [KERNEL_row_maxima] = check_row_maxima,
    [KERNEL_row_weights] = check_row_weights,
    [KERNEL_row_split] = check_row_split,
    [KERNEL_row_find] = check_row_find,
    [KERNEL_row_keep] = check_row_keep,
    [KERNEL_multiply] = check_two_rows,
    [KERNEL_scale] = check_one_row,
    [KERNEL_add_scaled] = check_one_row,
    [KERNEL_softcap] = check_one_row,
    [KERNEL_clip] = check_one_row,
    [KERNEL_grid] = check_shaped_row,
    [KERNEL_xielu] = check_shaped_row,
    [KERNEL_unary] = check_unary,
    [KERNEL_gated] = check_gated,
    [KERNEL_softmax] = check_softmax,
    [KERNEL_rope_halves] = check_rope,
    [KERNEL_rope_pairs] = check_rope,
    [KERNEL_rope_angles] = check_rope_angles,
    [KERNEL_kv_store] = check_kv_store,
    [KERNEL_index_scores] = check_index_scores,
    [KERNEL_attention] = check_attention,
    [KERNEL_conv] = check_conv,
    [KERNEL_mamba2] = check_mamba2,
    [KERNEL_mamba1] = check_mamba1,
    [KERNEL_lru] = check_lru,
    [KERNEL_dplr] = check_dplr,
    [KERNEL_threshold] = check_one_row,
    [KERNEL_delta] = check_delta,
    [KERNEL_matmul_exact] = check_matmul_exact,
};

static const char *only = "";
static const char *broken; /* the kernel that is spoilt on purpose */

static bool is_wanted(int id) { return strstr(kernel_name(id), only) != NULL; }

/* Kernels that the processor leaves in another mode (denormals flushed, say) spoil everything after them. */
static bool denormals_survive(void) {
    volatile float tiny = 0x1p-140f, half = 0.5f;
    return tiny * half == 0x1p-141f && tiny * 0x1p20f == 0x1p-120f;
}

/* Runs the check of one kernel; true when nothing differed. */
static bool run_check(struct check *c, int id) {
    jmp_buf out;
    if (!check_memory_init(c)) {
        snprintf(c->note, sizeof c->note, "no memory");
        return false;
    }
    c->random = (uint64_t)id + 1;
    if (c->first_difference) {
        c->first_difference = &out;
        if (setjmp(out)) return false;
    }
    (id >= KERNEL_matmul ? check_matmul : checks[id])(c, id);
    if (denormals_survive()) return c->n_different == 0 && c->n_compared > 0;
    snprintf(c->note, sizeof c->note, "the kernel leaves denormal numbers switched off");
    return false;
}

static void compare_kernel(const struct kernels *ref, const struct kernels *table, const char *name, int id) {
    struct kernels spoilt;
    struct check c = {.ref = ref, .other = table};
    if (broken && !strcmp(broken, kernel_name(id))) {
        mutant_table(&spoilt, ref, id);
        c.other = &spoilt;
    }
    bool ok = run_check(&c, id);
    if (!tap_ok(ok, "%s %s equals ref: %lu results", name, kernel_name(id), c.n_compared))
        tap_note("%lu differ; %s", c.n_different, c.note);
}

/* Entries that the tier itself supplies; what it inherits is checked with the tier that it has it from. */
static void compare_tier(enum kernel_tier tier) {
    const struct kernels *ref = kernels_for_tier(TIER_REF), *table = kernels_for_tier(tier);
    if (!table) {
        tap_skip(kernel_tier_name(tier), "this processor or build does not have it");
        return;
    }
    int n = 0;
    for (int id = 0; id < N_KERNELS; id++) {
        if (table->tier[id] != tier) continue;
        n++;
        if (is_wanted(id)) compare_kernel(ref, table, kernel_tier_name(tier), id);
    }
    tap_note("%s supplies %d of %d kernels", kernel_tier_name(tier), n, N_KERNELS);
}

/* ref for any processor against ref with fma. */
static void compare_refs(void) {
    static struct kernels plain;
    const struct kernels *ref = kernels_for_tier(TIER_REF);
    kernels_fill_ref(&plain);
    if (plain.dot == ref->dot) {
        tap_skip("ref without fma", "there is one build of ref on this processor");
        return;
    }
    for (int id = 0; id < N_KERNELS; id++)
        if (is_wanted(id)) compare_kernel(ref, &plain, "ref without fma", id);
}

static void check_fused(void) {
    char note[200] = "";
    unsigned long n = 2000000, n_different = fused_differences(7, n, note, sizeof note);
    if (!tap_ok(!n_different, "fused multiply-add of ref is exact: %lu results", n)) tap_note("%s", note);
}

static void check_the_checks(void) {
    const struct kernels *ref = kernels_for_tier(TIER_REF);
    struct kernels spoilt;
    for (int id = 0; id < N_KERNELS; id++) {
        if (!is_wanted(id)) continue;
        jmp_buf stop;
        struct check c = {.ref = ref, .other = &spoilt, .first_difference = &stop};
        mutant_table(&spoilt, ref, id);
        bool is_equal = run_check(&c, id);
        tap_ok(!is_equal && c.n_different, "a wrong last bit in %s is found after %lu results", kernel_name(id),
               c.n_compared);
    }
}

int main(int argc, char **argv) {
    const char *tier_name = NULL;
    int n_threads = 0;
    bool bench = false, processor_time = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        else if (!strcmp(argv[i], "--processor-time"))
            processor_time = true;
        else if (!strcmp(argv[i], "--break") && i + 1 < argc)
            broken = argv[++i];
        else if (!strcmp(argv[i], "--tier") && i + 1 < argc)
            tier_name = argv[++i];
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            n_threads = atoi(argv[++i]);
        else
            only = argv[i];
    }
    if (bench) return bench_main(only, tier_name, n_threads, processor_time);
    check_fused();
    compare_refs();
    for (int tier = TIER_REF + 1; tier < N_TIERS; tier++) compare_tier((enum kernel_tier)tier);
    check_the_checks();
    return tap_done();
}
