/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/weights.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/half.h"
#include "base/json.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

struct made {
    const char *dtype;
    unsigned char *data;
    size_t n;
};

static size_t element_bytes(const struct json *dtype) {
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"U32", 4}, {"U8", 1}, {"F8_E4M3", 1}, {"I64", 8}, {"I32", 4}};
    for (size_t i = 0; i < 8; i++)
        if (json_string_is(dtype, sizes[i].name)) return sizes[i].bytes;
    return 0;
}

static uint64_t word(uint64_t start, uint64_t i) { return rng_mix(start + (i + 1) * RNG_GOLDEN); }

static uint64_t start_of(const struct json *name, uint64_t seed) {
    uint64_t h = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < name->count; i++) h = (h ^ (unsigned char)name->string[i]) * 0x100000001b3u;
    return h ^ seed * RNG_GOLDEN;
}

static void store_real(const struct json *dtype, unsigned char *data, size_t i, double value) {
    float f = (float)value;
    uint16_t half;
    if (json_string_is(dtype, "F32")) {
        memcpy(data + 4 * i, &f, 4);
        return;
    }
    half = json_string_is(dtype, "F16") ? f32_to_f16(f) : f32_to_bf16(f);
    memcpy(data + 2 * i, &half, 2);
}

static double load_real(const char *dtype, const unsigned char *data, size_t i) {
    float f;
    uint16_t half;
    if (!strcmp(dtype, "F32")) {
        memcpy(&f, data + 4 * i, 4);
        return (double)f;
    }
    memcpy(&half, data + 2 * i, 2);
    return (double)(strcmp(dtype, "F16") ? bf16_to_f32(half) : f16_to_f32(half));
}

static void store_integer(unsigned char *data, size_t bytes, size_t i, uint64_t value) {
    memcpy(data + bytes * i, &value, bytes); /* little endian */
}

static uint32_t ternary_byte(uint64_t w) {
    uint32_t r = (uint32_t)((w >> 32) % 81), byte = 0;
    for (int d = 0; d < 4; d++, r /= 3) byte |= r % 3 << 2 * d;
    return byte;
}

/* Literal values may be nested lists. */
static void store_values(const struct json *list, const struct json *dtype, unsigned char *data, size_t n, size_t *at) {
    for (uint32_t i = 0; i < list->count && *at < n; i++) {
        if (json_is_array(&list->items[i]))
            store_values(&list->items[i], dtype, data, n, at);
        else
            store_real(dtype, data, (*at)++, json_number(&list->items[i], 0));
    }
}

static bool make(const struct json *entry, uint64_t seed, const struct map *earlier, struct made *made,
                 struct mx_error *err) {
    const struct json *dtype = json_get(entry, "dtype"), *gen = json_get(entry, "gen"),
                      *shape = json_get(entry, "shape");
    size_t bytes = element_bytes(dtype), n = 1;
    for (uint32_t i = 0; i < shape->count; i++) n *= (size_t)json_integer(&shape->items[i], 0);
    made->data = array_calloc(n, bytes);
    made->n = n;
    if (!made->data) return error_memory(err, "tensor");
    uint64_t start = start_of(json_get(entry, "name"), seed);
    double lo = json_number(json_get(entry, "lo"), 0), hi = json_number(json_get(entry, "hi"), 0);
    int64_t low = json_integer(json_get(entry, "lo"), 0), span = json_integer(json_get(entry, "hi"), 0) - low + 1;
    uint32_t keep = (uint32_t)json_integer(json_get(entry, "and"), 0xffffffff);
    uint32_t force = (uint32_t)json_integer(json_get(entry, "or"), 0);
    if (json_string_is(gen, "scaled")) {
        const struct json *of = json_get(entry, "of");
        uint64_t found;
        if (!map_get(earlier, of->string, of->count, &found)) return error_set(err, ERROR_FORMAT, "no tensor to scale");
        const struct made *source = (const struct made *)(uintptr_t)found;
        double by = json_number(json_get(entry, "by"), 0);
        for (size_t i = 0; i < n; i++) store_real(dtype, made->data, i, load_real(source->dtype, source->data, i) * by);
        return true;
    }
    if (json_string_is(gen, "values")) {
        size_t at = 0;
        store_values(json_get(entry, "values"), dtype, made->data, n, &at);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t w = word(start, i);
        if (json_string_is(gen, "uniform"))
            store_real(dtype, made->data, i, lo + (hi - lo) * ((double)(w >> 40) / 16777216.0));
        else if (json_string_is(gen, "bits"))
            store_integer(made->data, bytes, i, ((uint32_t)(w >> 32) & keep) | force);
        else if (json_string_is(gen, "range"))
            store_integer(made->data, bytes, i, (uint64_t)(low + (int64_t)((w >> 32) % (uint64_t)span)));
        else if (json_string_is(gen, "signed"))
            store_integer(made->data, bytes, i, (uint64_t)(low + (int64_t)((w >> 32) % (uint64_t)span)) | (w & 1) << 7);
        else if (json_string_is(gen, "ternary"))
            store_integer(made->data, bytes, i, ternary_byte(w));
        else if (json_string_is(gen, "const"))
            store_real(dtype, made->data, i, json_number(json_get(entry, "value"), 0));
        else
            return error_set(err, ERROR_FORMAT, "unknown generator '%.*s'", (int)gen->count, gen->string);
    }
    return true;
}

static void write_header(struct buffer *out, const struct json *tensors, const struct json *metadata) {
    struct json_writer w = {.out = out};
    size_t offset = 0;
    json_begin_object(&w);
    json_write_key(&w, "__metadata__");
    if (metadata) {
        json_write_value(&w, metadata);
    } else {
        json_begin_object(&w);
        json_write_key(&w, "format");
        json_write_string(&w, "mlx");
        json_end_object(&w);
    }
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct json *t = &tensors->items[i], *name = json_get(t, "name"), *shape = json_get(t, "shape");
        size_t bytes = element_bytes(json_get(t, "dtype"));
        for (uint32_t d = 0; d < shape->count; d++) bytes *= (size_t)json_integer(&shape->items[d], 0);
        json_write_key_n(&w, name->string, name->count);
        json_begin_object(&w);
        json_write_key(&w, "dtype");
        json_write_value(&w, json_get(t, "dtype"));
        json_write_key(&w, "shape");
        json_write_value(&w, shape);
        json_write_key(&w, "data_offsets");
        json_begin_array(&w);
        json_write_integer(&w, (int64_t)offset);
        json_write_integer(&w, (int64_t)(offset + bytes));
        json_end_array(&w);
        json_end_object(&w);
        offset += bytes;
    }
    json_end_object(&w);
    while (out->length % 8) buffer_putc(out, ' ');
}

static bool copy_file(const char *from_folder, const char *from, const char *to_folder, const char *to,
                      struct mx_error *err) {
    char source[4096], target[4096];
    size_t length;
    snprintf(source, sizeof source, "%s/%s", from_folder, from);
    snprintf(target, sizeof target, "%s/%s", to_folder, to);
    char *text = file_read(source, 1 << 28, &length, err);
    bool ok = text && file_write_atomic(target, text, length, err);
    free(text);
    return ok;
}

bool weights_generate(const char *case_folder, const char *config_name, const char *out_folder, struct mx_error *err) {
    struct arena arena = {0};
    struct map earlier = {0};
    struct buffer file = {0}, header = {0};
    char path[4096];
    size_t length;
    snprintf(path, sizeof path, "%s/tensors.json", case_folder);
    char *text = file_read(path, 64 << 20, &length, err);
    const struct json *root = text ? json_parse(&arena, text, length, 0, 16, err) : NULL;
    const struct json *tensors = json_get(root, "tensors");
    bool ok = json_is_array(tensors);
    uint64_t seed = (uint64_t)json_integer(json_get(root, "seed"), 0);
    if (ok) {
        write_header(&header, tensors, json_get(root, "metadata"));
        uint64_t n = header.length;
        buffer_append(&file, &n, 8);
        buffer_append(&file, header.data, header.length);
    }
    struct made *made = ok ? arena_calloc(&arena, tensors->count, sizeof *made) : NULL;
    for (uint32_t i = 0; ok && i < tensors->count; i++) {
        const struct json *t = &tensors->items[i], *name = json_get(t, "name");
        made[i].dtype = json_string_copy(&arena, json_get(t, "dtype"));
        ok = make(t, seed, &earlier, &made[i], err) &&
             map_put(&earlier, name->string, name->count, (uintptr_t)&made[i], NULL) &&
             buffer_append(&file, made[i].data, made[i].n * element_bytes(json_get(t, "dtype")));
    }
    snprintf(path, sizeof path, "%s/model.safetensors", out_folder);
    ok = ok && file_write_atomic(path, file.data, file.length, err) &&
         copy_file(case_folder, config_name, out_folder, "config.json", err);
    for (uint32_t i = 0; made && i < tensors->count; i++) free(made[i].data);
    map_free(&earlier);
    buffer_free(&file);
    buffer_free(&header);
    free(text);
    arena_free(&arena);
    return ok;
}
