/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged checkpoints: for each kind of damage the program prints one clear line on stderr and ends with status 1; it does
 * not crash, hang or print anything on stdout. */
#include "tests/support/process.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[4096]; /* the checkpoint under test, made anew for each case */
static char *good_config, *good_weights;
static size_t good_weights_length;

static const char *in_folder(const char *name) {
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *data, size_t length) {
    struct mx_error err;
    if (!file_write_atomic(in_folder(name), data, length, &err)) tap_note("%s", err.message);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

/* The good config with the first occurrence of `from` replaced. */
static void put_config(const char *from, const char *to) {
    char *at = strstr(good_config, from);
    struct buffer out = {0};
    if (!at) {
        tap_note("the config has no %s", from);
        return;
    }
    buffer_append(&out, good_config, (size_t)(at - good_config));
    buffer_puts(&out, to);
    buffer_puts(&out, at + strlen(from));
    put("config.json", out.data, out.length);
    buffer_free(&out);
}

/* The good weights with another header; `from` in the header becomes `to`, the data stay. */
static void put_header(const char *from, const char *to) {
    uint64_t length;
    memcpy(&length, good_weights, 8);
    char *header = strndup(good_weights + 8, length), *at = strstr(header, from);
    struct buffer text = {0}, out = {0};
    if (!at) tap_note("the header has no %s", from);
    if (at) {
        buffer_append(&text, header, (size_t)(at - header));
        buffer_puts(&text, to);
        buffer_puts(&text, at + strlen(from));
        uint64_t fresh = text.length;
        buffer_append(&out, &fresh, 8);
        buffer_append(&out, text.data, text.length);
        buffer_append(&out, good_weights + 8 + length, good_weights_length - 8 - length);
        put("model.safetensors", out.data, out.length);
    }
    free(header);
    buffer_free(&text);
    buffer_free(&out);
}

/* Replaces what stands between `key` and the next `end` in the header. */
static void put_header_value(const char *tensor, const char *key, char end, const char *value) {
    uint64_t length;
    memcpy(&length, good_weights, 8);
    char *header = strndup(good_weights + 8, length), *at = strstr(header, tensor);
    char *value_at = at ? strstr(at, key) : NULL, *stop = value_at ? strchr(value_at + strlen(key), end) : NULL;
    if (stop) {
        char *from = strndup(at, (size_t)(stop - at) + 1);
        struct buffer to = {0};
        buffer_append(&to, at, (size_t)(value_at - at) + strlen(key));
        buffer_puts(&to, value);
        buffer_putc(&to, end);
        put_header(from, to.data);
        buffer_free(&to);
        free(from);
    }
    free(header);
}

/* ---- the kinds ---- */

static void cut_half(void) { put("model.safetensors", good_weights, good_weights_length / 2); }
static void cut_header(void) { put("model.safetensors", good_weights, 100); }
static void cut_length(void) { put("model.safetensors", good_weights, 5); }
static void empty_file(void) { put("model.safetensors", "", 0); }
static void huge_header(void) {
    char *copy = malloc(good_weights_length);
    uint64_t length = 1ull << 60;
    memcpy(copy, good_weights, good_weights_length);
    memcpy(copy, &length, 8);
    put("model.safetensors", copy, good_weights_length);
    free(copy);
}
static void header_garbage(void) { put("model.safetensors", "\x20\0\0\0\0\0\0\0not json at all, and long enough", 40); }
static void header_array(void) { put("model.safetensors", "\x02\0\0\0\0\0\0\0[]", 10); }
static void wrong_shape(void) { put_header_value("q_proj.weight", "\"shape\":[", ']', "32,16"); }
static void shape_no_format(void) {
    put_header_value("\"model.layers.0.mlp.gate_proj.weight\"", "\"shape\":[", ']', "64,16");
}
static void shape_negative(void) { put_header_value("q_proj.weight", "\"shape\":[", ']', "-64,8"); }
static void shape_huge(void) {
    put_header_value("q_proj.weight", "\"shape\":[", ']', "1099511627776,1099511627776,1099511627776");
}
static void shape_nine_dims(void) { put_header_value("q_proj.weight", "\"shape\":[", ']', "1,1,1,1,1,1,1,64,8"); }
static void overlap(void) { put_header_value("self_attn.k_proj.weight", "\"data_offsets\":[", ',', "0"); }
static void overlap_exact(void) { put_header_value("self_attn.k_proj.scales", "\"data_offsets\":[", ']', "64,128"); }
static void beyond_end(void) { put_header_value("lm_head.biases", "\"data_offsets\":[", ']', "999999936,1000000192"); }
static void inverted(void) { put_header_value("lm_head.biases", "\"data_offsets\":[", ']', "256,0"); }
static void unknown_dtype(void) { put_header_value("q_proj.weight", "\"dtype\":\"", '"', "F4"); }
static void no_dtype(void) { put_header_value("q_proj.weight", "\"dtype\":", ',', "null"); }
static void duplicate_tensor(void) { put_header("self_attn.k_proj.weight\"", "self_attn.q_proj.weight\""); }
static void missing_tensor(void) {
    put_header("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.xx_proj.weight");
}
static void missing_scales(void) {
    put_header("model.layers.0.self_attn.v_proj.scales", "model.layers.0.self_attn.v_proj.scalez");
}
static void missing_biases(void) {
    put_header("model.layers.0.self_attn.v_proj.biases", "model.layers.0.self_attn.v_proj.biasez");
}
static void missing_norm(void) { put_header("model.norm.weight", "model.norm.height"); }
static void nul_in_name(void) { put_header("model.norm.weight", "model.norm\\u0000.weight"); }
static void index_outside(void) {
    put_text("model.safetensors.index.json", "{\"weight_map\": {\"model.norm.weight\": \"../model.safetensors\"}}");
}
static void index_broken(void) { put_text("model.safetensors.index.json", "{\"weight_map\": {"); }
static void index_no_map(void) { put_text("model.safetensors.index.json", "{\"weight_map\": []}"); }
static void index_missing_shard(void) {
    put_text("model.safetensors.index.json",
             "{\"weight_map\": {\"model.norm.weight\": \"model-00001-of-00002.safetensors\"}}");
    unlink(in_folder("model.safetensors"));
}
static void index_missing_tensor(void) {
    put_text("model.safetensors.index.json",
             "{\"weight_map\": {\"model.layers.1.mlp.up_proj.weight\": \"model-00002-of-00002.safetensors\"}}");
    missing_tensor();
}
static void no_weights(void) { unlink(in_folder("model.safetensors")); }
static void weights_directory(void) {
    unlink(in_folder("model.safetensors"));
    mkdir(in_folder("model.safetensors"), 0755);
}
static void no_permission(void) { chmod(in_folder("model.safetensors"), 0); }
static void dangling_link(void) {
    unlink(in_folder("model.safetensors"));
    if (symlink("nowhere.safetensors", in_folder("model.safetensors"))) tap_note("symlink");
}
static void no_config(void) { unlink(in_folder("config.json")); }
static void config_pipe(void) {
    unlink(in_folder("config.json"));
    mkfifo(in_folder("config.json"), 0644);
}
static void config_empty(void) { put_text("config.json", ""); }
static void config_cut(void) { put("config.json", good_config, strlen(good_config) / 2); }
static void config_array(void) { put_text("config.json", "[1]"); }
static void config_deep(void) {
    char deep[2000];
    memset(deep, '[', sizeof deep);
    put("config.json", deep, sizeof deep);
}
static void config_utf8(void) { put_text("config.json", "{\"model_type\": \"\xff\xfe\"}"); }
static void config_duplicate(void) { put_config("\"hidden_size\": 64", "\"hidden_size\": 64, \"hidden_size\": 64"); }
static void unknown_type(void) { put_config("\"model_type\": \"llama\"", "\"model_type\": \"lama\""); }
static void no_type(void) { put_config("\"model_type\": \"llama\"", "\"model_types\": \"llama\""); }
static void no_hidden(void) { put_config("\"hidden_size\": 64", "\"hidden_sizes\": 64"); }
static void hidden_zero(void) { put_config("\"hidden_size\": 64", "\"hidden_size\": 0"); }
static void hidden_text(void) { put_config("\"hidden_size\": 64", "\"hidden_size\": \"64\""); }
static void hidden_other(void) { put_config("\"hidden_size\": 64", "\"hidden_size\": 128"); }
static void many_layers(void) { put_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2000000000"); }
static void one_layer_more(void) { put_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"); }
static void odd_heads(void) { put_config("\"num_attention_heads\": 4", "\"num_attention_heads\": 3"); }
static void small_vocabulary(void) { put_config("\"vocab_size\": 128", "\"vocab_size\": 100"); }
static void rope_unknown(void) {
    put_config("\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"spiral\", \"factor\": 2}");
}
static void rope_zero_factor(void) {
    put_config("\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0}");
}
static void rope_short_list(void) {
    put_config("\"rope_scaling\": null",
               "\"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1, 2], \"short_factor\": [1, 2]}");
}
static void rope_nan(void) { put_config("\"rope_theta\": 10000.0", "\"rope_theta\": NaN"); }
static void rope_negative(void) { put_config("\"rope_theta\": 10000.0", "\"rope_theta\": -5"); }
static void eps_infinite(void) { put_config("\"rms_norm_eps\": 0.02", "\"rms_norm_eps\": Infinity"); }
static void unknown_activation(void) { put_config("\"hidden_act\": \"silu\"", "\"hidden_act\": \"sine\""); }
static void unknown_switch(void) {
    put_config("\"hidden_act\": \"silu\"", "\"hidden_act\": \"silu\", \"clip_qkv\": 8.0");
}
static void short_layer_types(void) {
    put_config("\"hidden_act\": \"silu\"", "\"hidden_act\": \"silu\", \"layer_types\": [\"full_attention\"]");
}
static void foreign_quantization(void) {
    put_config("\"quantization\": {", "\"quantization\": {\"quant_method\": \"gptq\", ");
}
static void odd_bits(void) { put_config("\"bits\": 4", "\"bits\": 7"); }
static void many_stop_ids(void) {
    struct buffer text = {0};
    buffer_puts(&text, "{\"eos_token_id\": [0");
    for (int i = 1; i < 100000; i++) buffer_printf(&text, ",%d", i);
    buffer_puts(&text, "]}");
    put_text("generation_config.json", text.data);
    buffer_free(&text);
}
static void generation_broken(void) { put_text("generation_config.json", "{\"eos_token_id\": "); }

/* name, damage, words of the message */
static const struct {
    const char *name;
    void (*damage)(void);
    const char *message;
    bool unprivileged;
} kinds[] = {
    {"shard cut in the middle", cut_half, "is it cut?", false},
    {"shard cut in the header", cut_header, "the header claims", false},
    {"shard cut in the header's length", cut_length, "too short", false},
    {"empty shard", empty_file, "the file is empty", false},
    {"header of 2^60 bytes", huge_header, "the header claims 1152921504606846976 bytes", false},
    {"header is no JSON", header_garbage, "line 1, column 1", false},
    {"header is an array", header_array, "no JSON object", false},
    {"wrong shape", wrong_shape, "has shape [32, 16], expected [64, 8] (4-bit, group 64)", false},
    {"packed shape that fits no format", shape_no_format, "expected [128, 8]", false},
    {"negative size", shape_negative, "list of sizes", false},
    {"sizes whose product overflows", shape_huge, "too large", false},
    {"nine dimensions", shape_nine_dims, "more than 8 dimensions", false},
    {"offsets that do not fit the shape", overlap, "bytes, but has", false},
    {"overlapping tensors", overlap_exact, "overlap", false},
    {"offsets beyond the end", beyond_end, "is it cut?", false},
    {"end before begin", inverted, "data_offsets", false},
    {"unknown dtype of a weight", unknown_dtype, "q_proj.weight' is other, expected", false},
    {"no dtype", no_dtype, "has no dtype", false},
    {"the same tensor twice", duplicate_tensor, "stands twice", false},
    {"missing tensor", missing_tensor, "tensor 'model.layers.1.mlp.up_proj.weight' is missing", false},
    {"missing scales", missing_scales, "no scales beside it", false},
    {"missing biases", missing_biases, "v_proj.scales' is BF16, expected U8", false},
    {"missing norm", missing_norm, "model.norm.weight", false},
    {"NUL in a name", nul_in_name, "NUL", false},
    {"index with ../", index_outside, "'../model.safetensors' is not the name of a file", false},
    {"broken index", index_broken, "model.safetensors.index.json: line 1", false},
    {"index without a map", index_no_map, "no weight_map", false},
    {"index names a missing shard, nothing else there", index_missing_shard, "holds no *.safetensors", false},
    {"index names a tensor that is nowhere", index_missing_tensor, "the index says it is in model-00002-of-00002",
     false},
    {"no weights", no_weights, "holds no *.safetensors", false},
    {"a directory instead of the shard", weights_directory, "is a directory", false},
    {"no permission", no_permission, "Permission denied", true},
    {"dangling link", dangling_link, "No such file", false},
    {"no config", no_config, "holds no config.json", false},
    {"empty config", config_empty, "config.json: line 1, column 1", false},
    {"cut config", config_cut, "config.json: line", false},
    {"config is an array", config_array, "no JSON object", false},
    {"deeply nested config", config_deep, "nested too deeply", false},
    {"config is no UTF-8", config_utf8, "invalid UTF-8", false},
    {"a config key twice", config_duplicate, "'hidden_size' stands twice", false},
    {"unknown model type", unknown_type, "'lama' is not supported", false},
    {"no model type", no_type, "no 'model_type'", false},
    {"no hidden size", no_hidden, "no 'hidden_size'", false},
    {"hidden size 0", hidden_zero, "'hidden_size' is 0", false},
    {"hidden size is a string", hidden_text, "'hidden_size' is a string", false},
    {"another hidden size than the file's", hidden_other, "has shape [64], expected 128 elements", false},
    {"two billion layers", many_layers, "not credible", false},
    {"one layer more than the file has", one_layer_more, "model.layers.2.", false},
    {"heads that do not divide", odd_heads, "not a multiple", false},
    {"vocabulary smaller than the embedding", small_vocabulary, "expected [100, 8]", false},
    {"unknown rope type", rope_unknown, "'spiral'", false},
    {"rope factor 0", rope_zero_factor, "not positive", false},
    {"rope factors too few", rope_short_list, "has 2 entries, expected 8", false},
    {"NaN rope base", rope_nan, "'rope_theta' is NaN", false},
    {"negative rope base", rope_negative, "rope_theta is -5", false},
    {"infinite epsilon", eps_infinite, "'rms_norm_eps' is infinite", false},
    {"unknown activation", unknown_activation, "'sine'", false},
    {"a switch that is not implemented", unknown_switch, "'clip_qkv' changes the network", false},
    {"layer types too few", short_layer_types, "layer_types has no type for layer 1", false},
    {"foreign quantisation", foreign_quantization, "'gptq' is not supported (", false},
    {"bits that no format has", odd_bits, "7 bits", false},
    {"a pipe for the config", config_pipe, "holds no config.json", false},
    {"a hundred thousand stop tokens", many_stop_ids, "eos_token_id lists 100000 tokens", false},
    {"broken generation config", generation_broken, "generation_config.json", false},
};

static size_t count_lines(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* Notices (a stale index) may come before the error line. */
static void run_kind(size_t i) {
    struct process p;
    put_text("config.json", good_config);
    put("model.safetensors", good_weights, good_weights_length);
    kinds[i].damage();
    const char *argv[] = {program_path("mlxcel"), "logits", "-m", folder, "--ids", "1,2,3", NULL};
    bool ok = process_start(&p, argv, NULL, NULL, 0, kinds[i].unprivileged);
    if (ok) process_finish(&p, 20000);
    ok = ok && p.status == 1 && p.out.length == 0 && strstr(p.err.data, kinds[i].message) &&
         !strncmp(p.err.data, "mlxcel: ", 8) && count_lines(p.err.data) <= 2 && p.err.data[p.err.length - 1] == '\n';
    if (!tap_ok(ok, "%s", kinds[i].name)) tap_note("status %d, stderr: %.500s", p.status, p.err.data);
    process_free(&p);
}

static bool make_good(void) {
    struct mx_error err;
    size_t length;
    if (!folder_make_temporary(folder, sizeof folder) ||
        !weights_generate(SOURCE_DIR "/tests/golden/cases/llama-q4", "config.json", folder, &err))
        return false;
    good_config = file_read(in_folder("config.json"), 1 << 20, &length, &err);
    good_weights = file_read(in_folder("model.safetensors"), 1 << 28, &good_weights_length, &err);
    return good_config && good_weights;
}

static void healthy_runs(void) {
    struct process p;
    const char *argv[] = {program_path("mlxcel"), "logits", "-m", folder, "--ids", "1,2,3", NULL};
    bool ok = process_run(&p, argv, 20000) && p.status == 0 && p.err.length == 0 && p.out.length > 0;
    tap_ok(ok, "the healthy checkpoint runs");
    process_free(&p);
}

int main(void) {
    bool ok = make_good();
    tap_ok(ok, "a healthy checkpoint is made");
    if (ok) healthy_runs();
    folder_remove(folder);
    for (size_t i = 0; ok && i < sizeof kinds / sizeof *kinds; i++) {
        char base[4096];
        ok = folder_make_temporary(base, sizeof base);
        memcpy(folder, base, sizeof folder);
        chmod(folder, 0755);
        run_kind(i);
        folder_remove(folder);
    }
    free(good_config);
    free(good_weights);
    return tap_done();
}
