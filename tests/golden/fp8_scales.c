/* SPDX-License-Identifier: Apache-2.0 */
/* E4M3 weights with one scale for a tensor, or one for each row, as some released files have them, give exactly the
 * logits of the same weights with scales of blocks. In the rows' form every odd row holds halved codes and a doubled
 * scale. */
#include "tests/support/golden.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/file.h"
#include "base/memory.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE SOURCE_DIR "/tests/golden/cases/hf-llama-fp8-tied"

enum form { FORM_BLOCKS, FORM_TENSOR, FORM_ROWS };
static const char *const form_names[] = {"blocks", "tensors", "rows"};

struct rewriting {
    struct buffer header, data;
};

static void put_tensor(struct rewriting *r, const char *name, const char *dtype, const char *shape, const void *data,
                       size_t bytes) {
    buffer_printf(&r->header, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}",
                  r->header.length > 1 ? ", " : "", name, dtype, shape, r->data.length, r->data.length + bytes);
    buffer_append(&r->data, data, bytes);
}

static void shape_text(const struct tensor *t, char *out, size_t room) {
    out[0] = '\0';
    for (int i = 0; i < t->n_dims; i++)
        snprintf(out + strlen(out), room - strlen(out), "%s%llu", i ? ", " : "", (unsigned long long)t->shape[i]);
}

/* The codes keep clear of denormals and NaN, so that a code minus 8 is half its value. */
static void put_codes(struct rewriting *r, const struct tensor *t, enum form form) {
    char shape[80];
    unsigned char *codes = malloc(t->bytes);
    if (!codes) return;
    for (size_t i = 0; i < t->bytes; i++) {
        bool is_halved = form == FORM_ROWS && i / t->shape[1] % 2;
        codes[i] = (unsigned char)(((t->data[i] & 0xbf) | 0x10) - (is_halved ? 8 : 0));
    }
    shape_text(t, shape, sizeof shape);
    put_tensor(r, t->name, "F8_E4M3", shape, codes, t->bytes);
    free(codes);
}

/* One value throughout, that of the first block. */
static void put_scales(struct rewriting *r, const struct tensor *t, uint64_t n_rows, enum form form) {
    char shape[80] = "";
    uint64_t n = form == FORM_BLOCKS ? t->shape[0] * t->shape[1] : form == FORM_ROWS ? n_rows : 1;
    float *scales = calloc(n, sizeof *scales), first;
    if (!scales) return;
    memcpy(&first, t->data, 4);
    for (uint64_t i = 0; i < n; i++) scales[i] = form == FORM_ROWS && i % 2 ? 2 * first : first;
    if (form == FORM_BLOCKS) shape_text(t, shape, sizeof shape);
    if (form == FORM_ROWS) snprintf(shape, sizeof shape, "%llu, 1", (unsigned long long)n);
    put_tensor(r, t->name, "F32", shape, scales, n * 4);
    free(scales);
}

static bool rewrite(const char *folder, enum form form, struct mx_error *err) {
    struct rewriting r = {0};
    struct safetensors file;
    struct buffer out = {0};
    char path[4200], shape[80];
    const char *end = "_scale_inv";
    if (!safetensors_open(&file, folder, "model.safetensors", err)) return false;
    buffer_putc(&r.header, '{');
    for (size_t i = 0; i < file.n_tensors; i++) {
        const struct tensor *t = &file.tensors[i], *codes = NULL;
        size_t n = strlen(t->name);
        for (size_t j = 0; j < file.n_tensors && n > strlen(end) && !strcmp(t->name + n - strlen(end), end); j++)
            if (strlen(file.tensors[j].name) == n - strlen(end) &&
                !strncmp(file.tensors[j].name, t->name, n - strlen(end)))
                codes = &file.tensors[j];
        shape_text(t, shape, sizeof shape);
        if (t->dtype == DTYPE_F8_E4M3)
            put_codes(&r, t, form);
        else if (codes)
            put_scales(&r, t, codes->shape[0], form);
        else
            put_tensor(&r, t->name, dtype_name(t->dtype), shape, t->data, t->bytes);
    }
    buffer_putc(&r.header, '}');
    while (r.header.length % 8) buffer_putc(&r.header, ' ');
    uint64_t length = r.header.length;
    buffer_append(&out, (const char *)&length, 8);
    buffer_append(&out, r.header.data, r.header.length);
    buffer_append(&out, r.data.data, r.data.length);
    snprintf(path, sizeof path, "%.4096s/model.safetensors", folder);
    bool ok = !r.header.failed && !r.data.failed && !out.failed && file_write_atomic(path, out.data, out.length, err);
    safetensors_close(&file);
    buffer_free(&r.header);
    buffer_free(&r.data);
    buffer_free(&out);
    return ok;
}

static void compare(const struct golden *g, char folders[][4096], enum precision precision) {
    struct mx_error err = {0};
    for (int tier = 0; tier < N_TIERS; tier++) {
        struct model_options options = {.precision = precision, .tier = tier, .n_threads = 1};
        struct golden_result blocks = {0};
        if (!kernels_for_tier((enum kernel_tier)tier)) continue;
        if (!golden_compute(g, folders[FORM_BLOCKS], options, 0, &blocks, &err)) tap_ok(false, "%s", err.message);
        for (int form = FORM_TENSOR; form <= FORM_ROWS && blocks.logits; form++) {
            struct golden_result other = {0};
            bool ok = golden_compute(g, folders[form], options, 0, &other, &err) &&
                      !memcmp(blocks.logits, other.logits, g->n_prompt * blocks.vocab * sizeof(float));
            if (!tap_ok(ok, "scales of %s give the logits of scales of blocks: %s, %s", form_names[form],
                        precision == PRECISION_EXACT ? "exact" : "fast", kernel_tier_name((enum kernel_tier)tier)))
                tap_note("%s", err.message);
            golden_result_free(&other);
        }
        golden_result_free(&blocks);
    }
}

int main(void) {
    struct golden g;
    struct mx_error err = {0};
    char folders[3][4096];
    bool ok = golden_open(&g, CASE, &err);
    for (int form = FORM_BLOCKS; form <= FORM_ROWS && ok; form++)
        ok = folder_make_temporary(folders[form], sizeof folders[form]) &&
             weights_generate(CASE, "config.json", folders[form], &err) &&
             rewrite(folders[form], (enum form)form, &err);
    if (!tap_ok(ok, "the case is there in three forms")) {
        tap_note("%s", err.message);
        return tap_done();
    }
    compare(&g, folders, PRECISION_EXACT);
    compare(&g, folders, PRECISION_FAST);
    for (int form = FORM_BLOCKS; form <= FORM_ROWS; form++) folder_remove(folders[form]);
    golden_close(&g);
    return tap_done();
}
