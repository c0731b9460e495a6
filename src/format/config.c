/* SPDX-License-Identifier: Apache-2.0 */
#include "format/config.h"

#include "base/file.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 16 << 20, MAX_DEPTH = 64 };

/* Other spellings of a key, in the order in which they are tried after the key itself. */
static const struct {
    const char *key;
    const char *others[6];
} spellings[] = {
    {"num_hidden_layers", {"n_layer", "n_layers", "num_layers", "num_transformer_layers"}},
    {"hidden_size", {"n_embd", "d_model", "dim", "model_dim", "hidden_dim"}},
    {"vocab_size", {"num_vocab"}},
    {"num_attention_heads", {"n_head", "n_heads", "num_heads"}},
    {"num_key_value_heads", {"n_kv_heads", "num_kv_heads"}},
    {"intermediate_size", {"n_inner", "ffn_dim", "ffn_hidden_size", "mlp_hidden_size"}},
    {"max_position_embeddings", {"n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx"}},
    {"rms_norm_eps", {"layer_norm_epsilon", "norm_eps", "norm_epsilon"}},
    {"layer_norm_eps", {"layer_norm_epsilon", "norm_eps", "norm_epsilon"}},
    {"tie_word_embeddings", {"tie_embedding", "weight_tying"}},
    {"quantization", {"quantization_config"}},
    {"num_local_experts", {"num_experts", "n_routed_experts"}},
    {"num_experts", {"num_local_experts", "n_routed_experts"}},
    {"torch_dtype", {"dtype"}},
};

/* Keys that change what the network computes. `neutral` values have no effect: a key that is present with another value
 * and that the family does not ask for is refused. "false" also stands for null, 0, "" and an empty list. */
static const struct {
    const char *key;
    double neutral;
} network_keys[] = {
    {"attention_bias", 0},
    {"mlp_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"attention_multiplier", 0},
    {"query_pre_attn_scalar", 0},
    {"scale_emb", 1},
    {"scale_depth", 0},
    {"clip_qkv", 0},
    {"rope_scaling", 0},
    {"rope_parameters", 0},
    {"partial_rotary_factor", 1},
    {"rotary_dim", 0},
    {"rope_traditional", 0},
    {"use_qk_norm", 0},
    {"qk_layernorm", 0},
    {"use_sliding_window", 0},
    {"sliding_window", 0},
    {"layer_types", 0},
    {"no_rope_layers", 0},
    {"attention_chunk_size", 0},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"n_routed_experts", 0},
    {"n_shared_experts", 0},
    {"use_parallel_residual", 0},
    {"parallel_attn", 0},
    {"alibi", 0},
    {"use_alibi", 0},
    {"attention_value_scale", 1},
    {"attn_temperature_tuning", 0},
    {"num_kv_shared_layers", 0},
    {"hidden_size_per_layer_input", 0},
    {"altup_num_inputs", 0},
    {"kv_lora_rank", 0},
    {"q_lora_rank", 0},
    {"routed_scaling_factor", 1},
    {"head_dim", 0},
    {"use_mrope", 0},
    {"mup_width_multiplier", 1},
    {"index_topk", 0},
    {"use_bidirectional_attention", 0},
    {"attn_output_gate", 0},
    {"cross_attention_layers", 0},
    {"moe_layer_freq", 1},
    {"first_k_dense_replace", 0},
    {"mlp_only_layers", 0},
    {"decoder_sparse_step", 1},
    {"time_step_limit", 0},
    {"norm_topk_prob", 0},
};

/* Keys without effect on the forward pass of a text model, so that inspect does not list them: bookkeeping, training,
 * generation defaults, and parts of other modalities. */
static const char *const harmless_keys[] = {
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "use_cache",
    "initializer_range",
    "model_type",
    "_name_or_path",
    "vision_config",
    "audio_config",
    "text_config",
    "max_position_embeddings",
    "pretraining_tp",
    "quantization",
    "quantization_config",
    "hidden_dropout",
    "embd_pdrop",
    "resid_pdrop",
    "attn_pdrop",
    "router_aux_loss_coef",
    "output_router_logits",
    "image_token_id",
    "video_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
    "image_token_index",
    "boi_token_index",
    "eoi_token_index",
    "mm_tokens_per_image",
    "router_jitter_noise",
    "rope_theta",
    "vocab_size",
    "use_return_dict",
    "output_hidden_states",
    "output_attentions",
    "language_model_only",
    "cache_implementation",
    "sep_token_id",
    "decoder_start_token_id",
    "is_encoder_decoder",
    "rescale_prenorm_residual",
    "attn_implementation",
    "torchscript",
    "chunk_size",
    "problem_type",
    "id2label",
    "label2id",
    "residual_in_fp32",
    "use_mamba_kernels",
};

static struct json *find_member(const struct json *object, const char *key, uint32_t *index) {
    size_t n = strlen(key);
    if (!json_is_object(object)) return NULL;
    for (uint32_t i = object->count; i-- > 0;)
        if (object->members[i].key_length == n && !memcmp(object->members[i].key, key, n)) {
            *index = i;
            return (struct json *)(uintptr_t)&object->members[i].value;
        }
    return NULL;
}

static const struct json *lookup(struct config *c, const char *key, bool *is_null) {
    uint32_t index;
    const struct json *value = NULL;
    *is_null = false;
    if (c->text != c->root && (value = find_member(c->text, key, &index))) {
        c->is_read[c->root->count + index] = true;
        if (value->type == JSON_NULL) {
            *is_null = true;
            return NULL;
        }
        return value;
    }
    value = find_member(c->root, key, &index);
    if (value) c->is_read[index] = true;
    if (value && value->type == JSON_NULL) *is_null = true;
    return value && value->type != JSON_NULL ? value : NULL;
}

const struct json *config_get(struct config *c, const char *key) {
    bool is_null;
    const struct json *value = lookup(c, key, &is_null);
    for (size_t i = 0; !value && i < sizeof spellings / sizeof *spellings; i++) {
        if (strcmp(spellings[i].key, key) != 0) continue;
        for (int j = 0; j < 6 && spellings[i].others[j] && !value; j++)
            value = lookup(c, spellings[i].others[j], &is_null);
    }
    return value;
}

bool config_has(struct config *c, const char *key) { return config_get(c, key) != NULL; }

void config_ignore(struct config *c, const char *key) { config_get(c, key); }

void config_fail(struct config *c, enum error_code code, const char *format, ...) {
    if (c->error.code) return;
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(&c->error, code, "%s: %s", c->path, text);
}

int64_t config_integer_or(struct config *c, const char *key, int64_t fallback, int64_t minimum, int64_t maximum) {
    const struct json *value = config_get(c, key);
    if (!value) return fallback;
    int64_t n = json_integer(value, INT64_MIN);
    if (n == INT64_MIN) {
        config_fail(c, ERROR_FORMAT, "'%s' is %s, expected an integer", key, json_type_name(value));
        return fallback;
    }
    if (n < minimum || n > maximum) {
        config_fail(c, ERROR_FORMAT, "'%s' is %lld, expected %lld to %lld", key, (long long)n, (long long)minimum,
                    (long long)maximum);
        return fallback;
    }
    return n;
}

uint32_t config_size_or(struct config *c, const char *key, uint32_t fallback) {
    return (uint32_t)config_integer_or(c, key, fallback, 1, INT32_MAX);
}

uint32_t config_count_or(struct config *c, const char *key, uint32_t fallback) {
    return (uint32_t)config_integer_or(c, key, fallback, 0, INT32_MAX);
}

uint32_t config_size(struct config *c, const char *key) {
    if (!config_has(c, key)) config_fail(c, ERROR_FORMAT, "has no '%s'", key);
    return config_size_or(c, key, 1);
}

/* A number, or the spelling of infinities that transformers 5 writes. NaN when the value is neither. */
static double read_real(const struct json *value) {
    if (json_is_number(value)) return json_number(value, (double)NAN);
    const struct json *word = json_get(value, "__float__");
    if (!word) word = value;
    if (json_string_is(word, "Infinity") || json_string_is(word, "inf")) return (double)INFINITY;
    if (json_string_is(word, "-Infinity") || json_string_is(word, "-inf")) return -(double)INFINITY;
    return (double)NAN;
}

double config_real_inf_or(struct config *c, const char *key, double fallback) {
    const struct json *value = config_get(c, key);
    if (!value) return fallback;
    double x = read_real(value);
    if (isnan(x)) {
        config_fail(c, ERROR_FORMAT, "'%s' is %s, expected a number", key,
                    json_is_number(value) ? "NaN" : json_type_name(value));
        return fallback;
    }
    return x;
}

double config_real_or(struct config *c, const char *key, double fallback) {
    double x = config_real_inf_or(c, key, fallback);
    if (!isfinite(x) && isfinite(fallback)) {
        config_fail(c, ERROR_FORMAT, "'%s' is infinite, expected a finite number", key);
        return fallback;
    }
    return x;
}

double config_real(struct config *c, const char *key) {
    if (!config_has(c, key)) config_fail(c, ERROR_FORMAT, "has no '%s'", key);
    return config_real_or(c, key, 1);
}

bool config_bool_or(struct config *c, const char *key, bool fallback) {
    const struct json *value = config_get(c, key);
    if (!value) return fallback;
    if (json_is_bool(value)) return json_bool(value, fallback);
    int64_t n = json_integer(value, -1);
    if (n == 0 || n == 1) return n == 1;
    config_fail(c, ERROR_FORMAT, "'%s' is %s, expected true or false", key, json_type_name(value));
    return fallback;
}

const char *config_string_or(struct config *c, const char *key, const char *fallback) {
    const struct json *value = config_get(c, key);
    if (!value) return fallback;
    const char *text = json_string_copy(&c->arena, value);
    if (text) return text;
    if (!json_is_string(value))
        config_fail(c, ERROR_FORMAT, "'%s' is %s, expected a string", key, json_type_name(value));
    else
        config_fail(c, ERROR_MEMORY, "out of memory (%s)", key);
    return fallback;
}

double config_object_real_or(struct config *c, const struct json *object, const char *where, const char *key,
                             double fallback) {
    const struct json *value = json_get(object, key);
    if (json_is_null(value)) return fallback;
    double x = read_real(value);
    if (isfinite(x)) return x;
    config_fail(c, ERROR_FORMAT, "'%s' of '%s' is %s, expected a finite number", key, where,
                json_is_number(value) ? "not finite" : json_type_name(value));
    return fallback;
}

static bool is_effective(const struct json *value, double neutral) {
    switch (value->type) {
    case JSON_NULL:
    case JSON_FALSE: return false;
    case JSON_TRUE: return true;
    case JSON_INTEGER:
    case JSON_REAL: return json_number(value, 0) != 0 && json_number(value, 0) != neutral;
    default: return value->count > 0;
    }
}

/* rope_scaling and rope_parameters name a kind; "default" means nothing. */
static bool is_plain_rope(const struct json *value) {
    const struct json *kind = json_get(value, "rope_type");
    if (!kind) kind = json_get(value, "type");
    return json_is_object(value) && (json_string_is(kind, "default") || json_string_is(kind, "mrope"));
}

bool config_refuse_unread(struct config *c, struct mx_error *err) {
    for (size_t i = 0; i < sizeof network_keys / sizeof *network_keys; i++) {
        uint32_t index;
        bool in_text = c->text != c->root;
        const struct json *value = find_member(c->text, network_keys[i].key, &index);
        if (!value || c->is_read[in_text ? c->root->count + index : index]) continue;
        if (is_effective(value, network_keys[i].neutral) && !is_plain_rope(value))
            return error_set(err, ERROR_UNSUPPORTED,
                             "%s: '%s' changes the network and is not implemented for this model", c->path,
                             network_keys[i].key);
    }
    return true;
}

static bool is_harmless(const struct json_member *m) {
    for (size_t i = 0; i < sizeof harmless_keys / sizeof *harmless_keys; i++)
        if (strlen(harmless_keys[i]) == m->key_length && !memcmp(harmless_keys[i], m->key, m->key_length)) return true;
    return false;
}

const char *config_other_part(const struct config *c) {
    static const char *const keys[] = {"vision_config", "thinker_config",  "audio_config",
                                       "sound_config",  "mm_vision_tower", "img_processor"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct json *part = json_get(c->root, keys[i]);
        if (json_is_string(part) || (json_is_object(part) && part->count)) return keys[i];
    }
    return NULL;
}

void config_unread(const struct config *c, void (*visit)(void *context, const char *key, size_t length),
                   void *context) {
    const struct json *parts[2] = {c->root, c->text != c->root ? c->text : NULL};
    for (int p = 0; p < 2 && parts[p]; p++)
        for (uint32_t i = 0; i < parts[p]->count; i++) {
            const struct json_member *m = &parts[p]->members[i];
            if (!c->is_read[p ? c->root->count + i : i] && !is_harmless(m)) visit(context, m->key, m->key_length);
        }
}

static bool parse(struct config *c, size_t length, struct mx_error *err) {
    c->root = json_parse(&c->arena, c->content, length, JSON_ALLOW_NAN | JSON_REJECT_DUPLICATES, MAX_DEPTH, err);
    if (!c->root) return error_prefix(err, "%s", c->path);
    if (!json_is_object(c->root)) return error_set(err, ERROR_FORMAT, "%s: is no JSON object", c->path);
    static const char *const nested[] = {"text_config", "llm_config", "language_config"};
    const struct json *thinker = json_get(json_get(c->root, "thinker_config"), "text_config");
    c->text = json_is_object(thinker) ? thinker : c->root;
    for (size_t i = 0; i < sizeof nested / sizeof *nested && c->text == c->root; i++) {
        const struct json *part = json_get(c->root, nested[i]);
        if (json_is_object(part)) c->text = part;
    }
    c->is_read = arena_calloc(&c->arena, (size_t)c->root->count + c->text->count, sizeof *c->is_read);
    return c->is_read || error_memory(err, c->path);
}

bool config_open(struct config *c, const char *path, struct mx_error *err) {
    *c = (struct config){0};
    size_t length = 0;
    bool is_folder = file_is_directory(path);
    c->path = is_folder ? path_join(&c->arena, path, "config.json") : arena_copy(&c->arena, path, strlen(path));
    bool ok = c->path || error_memory(err, path);
    if (ok && is_folder && !file_exists(c->path)) ok = error_set(err, ERROR_IO, "%s: holds no config.json", path);
    if (ok) ok = (c->content = file_read(c->path, MAX_CONFIG_BYTES, &length, err)) != NULL;
    ok = ok && parse(c, length, err);
    if (!ok) config_close(c);
    return ok;
}

void config_close(struct config *c) {
    free(c->content);
    arena_free(&c->arena);
    *c = (struct config){0};
}
