/* SPDX-License-Identifier: Apache-2.0 */
/* NVFP4 in ModelOpt's layout: the same weights with the names and types of that layout, and a factor of 2 on the head,
 * give exactly the logits of the MLX layout, doubled. */
#include "tests/support/golden.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/file.h"
#include "base/memory.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE SOURCE_DIR "/tests/golden/cases/llama-nvfp4"

struct rewriting {
    struct buffer header, factors;
    const unsigned char *base; /* of the data, which stay where they lie */
    size_t n_bytes;            /* of the data */
};

static void put_entry(struct rewriting *r, const char *name, const char *dtype, const char *shape, size_t begin,
                      size_t end) {
    buffer_printf(&r->header, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [%s], \"data_offsets\": [%zu, %zu]}",
                  r->header.length > 1 ? ", " : "", name, dtype, shape, begin, end);
}

static void put_factor(struct rewriting *r, const char *module, float factor) {
    char name[300];
    size_t at = r->n_bytes + r->factors.length;
    snprintf(name, sizeof name, "%s.weight_scale_2", module);
    put_entry(r, name, "F32", "", at, at + 4);
    buffer_append(&r->factors, (const char *)&factor, 4);
}

static void put_tensor(struct rewriting *r, const struct tensor *t) {
    size_t begin = (size_t)(t->data - r->base), end = begin + t->bytes;
    char module[200], name[300], shape[80];
    bool is_codes = t->dtype == DTYPE_U32, is_scales = t->dtype == DTYPE_U8;
    int cut = (int)strlen(t->name) - (int)strlen(is_codes ? ".weight" : ".scales");
    snprintf(module, sizeof module, "%.*s", cut, t->name);
    snprintf(name, sizeof name, is_scales ? "%s.weight_scale" : "%s.weight", module);
    if (t->n_dims == 2)
        snprintf(shape, sizeof shape, "%llu, %llu", (unsigned long long)t->shape[0],
                 (unsigned long long)t->shape[1] * (is_codes ? 4 : 1));
    else
        snprintf(shape, sizeof shape, "%llu", (unsigned long long)t->shape[0]);
    if (!is_codes && !is_scales) {
        put_entry(r, t->name, dtype_name(t->dtype), shape, begin, end);
        return;
    }
    put_entry(r, name, is_codes ? "U8" : "F8_E4M3", shape, begin, end);
    if (is_codes) put_factor(r, module, strcmp(module, "lm_head") ? 1.0f : 2.0f);
}

static bool rewrite(const char *folder, struct mx_error *err) {
    struct rewriting r = {0};
    struct safetensors file;
    struct buffer out = {0};
    char path[4200];
    if (!safetensors_open(&file, folder, "model.safetensors", err)) return false;
    r.base = file.tensors[0].data;
    for (size_t i = 0; i < file.n_tensors; i++) {
        if (file.tensors[i].data < r.base) r.base = file.tensors[i].data;
        r.n_bytes += file.tensors[i].bytes;
    }
    buffer_putc(&r.header, '{');
    for (size_t i = 0; i < file.n_tensors; i++) put_tensor(&r, &file.tensors[i]);
    buffer_putc(&r.header, '}');
    uint64_t length = r.header.length;
    buffer_append(&out, (const char *)&length, 8);
    buffer_append(&out, r.header.data, r.header.length);
    buffer_append(&out, (const char *)r.base, r.n_bytes);
    buffer_append(&out, r.factors.data, r.factors.length);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    bool ok = !out.failed && file_write_atomic(path, out.data, out.length, err);
    safetensors_close(&file);
    buffer_free(&r.header);
    buffer_free(&r.factors);
    buffer_free(&out);
    return ok;
}

static bool rewrite_config(const char *folder, struct mx_error *err) {
    char path[4200];
    size_t length;
    snprintf(path, sizeof path, "%s/config.json", folder);
    char *text = file_read(path, 1 << 20, &length, err);
    for (char *at = text; text && (at = strstr(at, "\"quantization")); at++) at[1] = '_'; /* keys that nothing reads */
    char *brace = text ? strchr(text, '{') : NULL;
    struct buffer out = {0};
    buffer_puts(&out, "{\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\"}, ");
    if (brace) buffer_puts(&out, brace + 1);
    bool ok = brace && !out.failed && file_write_atomic(path, out.data, out.length, err);
    buffer_free(&out);
    free(text);
    return ok;
}

/* Whether b is exactly a, doubled. */
static bool is_double(const float *a, const float *b, size_t n) {
    size_t n_zero = 0;
    for (size_t i = 0; i < n; i++) {
        if (b[i] != 2 * a[i]) return false;
        n_zero += a[i] == 0;
    }
    return n_zero < n;
}

static void compare(const struct golden *g, const char *plain, const char *triplet, enum precision precision) {
    struct golden_result a = {0}, b = {0};
    struct mx_error err = {0};
    for (int tier = 0; tier < N_TIERS; tier++) {
        struct model_options options = {.precision = precision, .tier = tier, .n_threads = 1};
        if (!kernels_for_tier((enum kernel_tier)tier)) continue;
        bool ok = golden_compute(g, plain, options, 0, &a, &err) && golden_compute(g, triplet, options, 0, &b, &err) &&
                  is_double(a.logits, b.logits, g->n_prompt * a.vocab);
        if (!tap_ok(ok, "ModelOpt's layout gives the MLX layout's logits: %s, %s",
                    precision == PRECISION_EXACT ? "exact" : "fast", kernel_tier_name((enum kernel_tier)tier)))
            tap_note("%s", err.message);
        golden_result_free(&a);
        golden_result_free(&b);
    }
}

int main(void) {
    struct golden g;
    struct mx_error err = {0};
    char plain[4096], triplet[4096];
    bool ok = golden_open(&g, CASE, &err) && folder_make_temporary(plain, sizeof plain) &&
              folder_make_temporary(triplet, sizeof triplet) && weights_generate(CASE, "config.json", plain, &err) &&
              weights_generate(CASE, "config.json", triplet, &err) && rewrite(triplet, &err) &&
              rewrite_config(triplet, &err);
    if (!tap_ok(ok, "the case is there in both layouts")) {
        tap_note("%s", err.message);
        return tap_done();
    }
    compare(&g, plain, triplet, PRECISION_EXACT);
    compare(&g, plain, triplet, PRECISION_FAST);
    folder_remove(plain);
    folder_remove(triplet);
    golden_close(&g);
    return tap_done();
}
