/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position tables from a config: plain, linear, dynamic NTK, llama3, yarn, longrope.
 *
 * Frequencies follow transformers' modeling_rope_utils (YaRN: Peng et al. 2023; LongRoPE: Ding et al. 2024), computed in
 * double and rounded to f32 once. Newer configs hold everything in rope_parameters, possibly one object for each layer
 * type; older ones have rope_theta and rope_scaling. */
#include "graph/builder.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* The object that holds the scaling for a layer type, or NULL. */
static const struct json *scaling_object(struct builder *b, const char *layer_type) {
    const struct json *parameters = config_get(b->config, "rope_parameters");
    const struct json *scaling = config_get(b->config, "rope_scaling");
    const struct json *nested = layer_type ? json_get(parameters, layer_type) : json_get(parameters, "full_attention");
    if (json_is_object(nested)) return nested;
    if (json_is_object(parameters)) return parameters;
    return json_is_object(scaling) ? scaling : NULL;
}

static const char *kind_of(struct builder *b, const struct json *scaling) {
    const struct json *kind = json_get(scaling, "rope_type");
    if (json_is_null(kind)) kind = json_get(scaling, "type");
    if (json_is_null(kind)) return "default";
    const char *name = json_string_copy(&b->graph->arena, kind);
    if (name) return name;
    builder_fail(b, ERROR_FORMAT, "%s: the rope type is %s, expected a string", b->config->path, json_type_name(kind));
    return "default";
}

struct rope_source {
    const struct json *object;
    double theta, factor, original;
    uint32_t n;      /* rotary_dim / 2 */
    double *inverse; /* [n] */
};

static double object_real(struct builder *b, const struct rope_source *s, const char *key, double fallback) {
    return config_object_real_or(b->config, s->object, "rope_scaling", key, fallback);
}

static void scale_llama3(struct builder *b, struct rope_source *s) {
    double low = object_real(b, s, "low_freq_factor", 1), high = object_real(b, s, "high_freq_factor", 4);
    for (uint32_t i = 0; i < s->n; i++) {
        double wavelength = 2 * M_PI / s->inverse[i];
        if (wavelength > s->original / low) {
            s->inverse[i] /= s->factor;
        } else if (wavelength >= s->original / high) {
            double smooth = (s->original / wavelength - low) / (high - low);
            s->inverse[i] = (1 - smooth) * s->inverse[i] / s->factor + smooth * s->inverse[i];
        }
    }
}

static double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1; }

static double scale_yarn(struct builder *b, struct rope_source *s) {
    double dim = 2.0 * s->n, denominator = 2 * log(s->theta);
    double fast = object_real(b, s, "beta_fast", 32), slow = object_real(b, s, "beta_slow", 1);
    double low = dim * log(s->original / (fast * 2 * M_PI)) / denominator;
    double high = dim * log(s->original / (slow * 2 * M_PI)) / denominator;
    if (json_bool(json_get(s->object, "truncate"), true)) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > dim - 1 ? dim - 1 : high;
    if (low == high) high += 0.001;
    for (uint32_t i = 0; i < s->n; i++) {
        double ramp = (i - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        s->inverse[i] = s->inverse[i] / s->factor * ramp + s->inverse[i] * (1 - ramp);
    }
    double mscale = object_real(b, s, "mscale", 0), all_dim = object_real(b, s, "mscale_all_dim", 0);
    double computed = mscale != 0 && all_dim != 0 ? yarn_mscale(s->factor, mscale) / yarn_mscale(s->factor, all_dim)
                      : mscale != 0               ? yarn_mscale(s->factor, mscale)
                                                  : yarn_mscale(s->factor, 1);
    return object_real(b, s, "attention_factor", computed);
}

/* One factor for each frequency. */
static float *divided_by_list(struct builder *b, struct rope_source *s, const char *key) {
    const struct json *list = json_get(s->object, key);
    float *result = arena_calloc(&b->graph->arena, s->n, sizeof *result);
    if (!json_is_array(list) || list->count != s->n) {
        builder_fail(b, ERROR_FORMAT, "%s: '%s' of the rope scaling has %u entries, expected %u", b->config->path, key,
                     json_is_array(list) ? list->count : 0, s->n);
        return NULL;
    }
    for (uint32_t i = 0; i < s->n && result; i++) {
        double factor = json_number(&list->items[i], 0);
        if (!(factor > 0) || !isfinite(factor)) {
            builder_fail(b, ERROR_FORMAT, "%s: '%s' of the rope scaling holds a value that is no positive number",
                         b->config->path, key);
            return NULL;
        }
        result[i] = (float)(s->inverse[i] / factor);
    }
    return result;
}

static void scale_long(struct builder *b, struct rope_source *s, struct rope *rope) {
    double length = config_real_or(b->config, "max_position_embeddings", s->original);
    double factor = length / s->original;
    if (!(s->factor > 1) || length > s->original) s->factor = factor;
    double computed = s->factor > 1 ? sqrt(1 + log(s->factor) / log(s->original)) : 1;
    double attention = object_real(b, s, "attention_factor", computed);
    rope->kind = ROPE_LONG;
    rope->original_length = (uint32_t)s->original;
    rope->inverse_frequency = divided_by_list(b, s, "short_factor");
    rope->long_inverse_frequency = divided_by_list(b, s, "long_factor");
    rope->attention_factor = (float)object_real(b, s, "short_mscale", attention);
    rope->long_attention_factor = (float)object_real(b, s, "long_mscale", attention);
}

/* Some families put their name in front: "deepseek_yarn". */
static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Fills rope from the source; false where the kind is unknown. */
static bool fill_rope(struct builder *b, struct rope_source *s, const char *kind, struct rope *rope) {
    rope->attention_factor = 1.0f;
    if (!strcmp(kind, "longrope") || !strcmp(kind, "su")) {
        scale_long(b, s, rope);
        return true;
    }
    if (!strcmp(kind, "linear")) {
        for (uint32_t i = 0; i < s->n; i++) s->inverse[i] /= s->factor;
    } else if (!strcmp(kind, "llama3")) {
        scale_llama3(b, s);
    } else if (ends_in(kind, "yarn")) {
        rope->attention_factor = (float)scale_yarn(b, s);
    } else if (!strcmp(kind, "dynamic")) {
        rope->kind = ROPE_DYNAMIC;
        rope->base = s->theta;
        rope->factor = s->factor;
        rope->original_length = (uint32_t)config_real_or(b->config, "max_position_embeddings", s->original);
    } else if (!strcmp(kind, "proportional")) {
        /* Only the first share of the pairs turns; the exponents count all of them. */
        double share = object_real(b, s, "partial_rotary_factor", 1);
        for (uint32_t i = 0; i < s->n; i++)
            s->inverse[i] = i < (uint32_t)(share * s->n) ? s->inverse[i] / s->factor : 0;
    } else if (strcmp(kind, "default") != 0 && strcmp(kind, "mrope") != 0) {
        return false;
    }
    rope->inverse_frequency = arena_calloc(&b->graph->arena, s->n, sizeof *rope->inverse_frequency);
    for (uint32_t i = 0; i < s->n && rope->inverse_frequency; i++) rope->inverse_frequency[i] = (float)s->inverse[i];
    return true;
}

static bool is_same_rope(const struct rope *a, const struct rope *b) {
    size_t bytes = a->rotary_dim / 2 * sizeof(float);
    return a->kind == b->kind && a->rotary_dim == b->rotary_dim && a->attention_factor == b->attention_factor &&
           a->long_attention_factor == b->long_attention_factor && a->base == b->base && a->factor == b->factor &&
           a->step == b->step && !memcmp(a->inverse_frequency, b->inverse_frequency, bytes) &&
           (a->kind != ROPE_LONG || !memcmp(a->long_inverse_frequency, b->long_inverse_frequency, bytes));
}

static uint32_t add_rope(struct builder *b, const struct rope *rope) {
    struct graph *g = b->graph;
    if (b->failed) return 0;
    if (!rope->inverse_frequency || (rope->kind == ROPE_LONG && !rope->long_inverse_frequency) ||
        !array_reserve(&g->ropes, &g->ropes_capacity, g->n_ropes + 1, sizeof *g->ropes)) {
        builder_fail(b, ERROR_MEMORY, "out of memory (rope table)");
        return 0;
    }
    for (size_t i = 0; i < g->n_ropes; i++)
        if (is_same_rope(&g->ropes[i], rope)) return (uint32_t)i;
    g->ropes[g->n_ropes] = *rope;
    return (uint32_t)g->n_ropes++;
}

static double read_theta(struct builder *b, const struct json *object, const char *layer_type, double fallback) {
    double theta = config_real_or(b->config, "rope_theta", fallback);
    if (layer_type && !strcmp(layer_type, "sliding_attention"))
        theta = config_real_or(b->config, "rope_local_base_freq", theta);
    theta = config_object_real_or(b->config, object, "rope_parameters", "rope_theta", theta);
    if (!(theta > 0))
        builder_fail(b, ERROR_FORMAT, "%s: rope_theta is %g, expected a positive number", b->config->path, theta);
    return theta;
}

uint32_t b_rope_with(struct builder *b, uint32_t rotary_dim, double theta, const struct json *scaling) {
    if (b->failed) return 0;
    if (rotary_dim < 2 || rotary_dim % 2 || !(theta > 0)) {
        builder_fail(b, ERROR_FORMAT, "%s: %u rotary dimensions of base %g, expected an even number of a positive base",
                     b->config->path, rotary_dim, theta);
        return 0;
    }
    struct rope_source s = {.object = scaling, .n = rotary_dim / 2, .theta = theta};
    const char *kind = kind_of(b, s.object);
    s.factor = object_real(b, &s, "factor", 1);
    double length = config_real_or(b->config, "max_position_embeddings", 4096);
    s.original = object_real(b, &s, "original_max_position_embeddings",
                             config_real_or(b->config, "original_max_position_embeddings", length));
    if (!(s.factor > 0) || !(s.original >= 1) || !(length >= 1)) {
        builder_fail(b, ERROR_FORMAT, "%s: the rope scaling's factor or original length is not positive",
                     b->config->path);
        return 0;
    }
    /* "dynamic" with alpha stretches the base once, for every length. */
    double alpha = !strcmp(kind, "dynamic") ? object_real(b, &s, "alpha", 0) : 0;
    if (alpha > 0) {
        s.theta *= pow(alpha, (double)rotary_dim / (rotary_dim - 2.0));
        kind = "default";
    }
    s.inverse = arena_calloc(&b->graph->arena, s.n, sizeof *s.inverse);
    for (uint32_t i = 0; i < s.n && s.inverse; i++) s.inverse[i] = pow(s.theta, -2.0 * i / rotary_dim);
    if (!s.inverse) builder_fail(b, ERROR_MEMORY, "out of memory (rope table)");
    struct rope rope = {.kind = ROPE_PLAIN, .rotary_dim = rotary_dim};
    if (!b->failed && !fill_rope(b, &s, kind, &rope))
        builder_fail(b, ERROR_UNSUPPORTED, "%s: rope type '%s' is not known", b->config->path, kind);
    return add_rope(b, &rope);
}

uint32_t b_rope_from_config(struct builder *b, uint32_t rotary_dim, const char *layer_type, double default_theta) {
    const struct json *object = scaling_object(b, layer_type);
    /* Of the old spelling, rope_scaling is for the full layers where windows have a base of their own (Gemma 3). */
    bool is_local =
        layer_type && !strcmp(layer_type, "sliding_attention") && config_has(b->config, "rope_local_base_freq");
    if (is_local && !json_is_object(json_get(config_get(b->config, "rope_parameters"), layer_type))) object = NULL;
    return b_rope_with(b, rotary_dim, read_theta(b, object, layer_type, default_theta), object);
}

uint32_t b_rope_plain(struct builder *b, uint32_t rotary_dim, double theta) {
    if (b->failed || !(theta > 0) || rotary_dim < 2 || rotary_dim % 2) {
        builder_fail(b, ERROR_FORMAT, "%s: rope of base %g over %u dimensions", b->config->path, theta, rotary_dim);
        return 0;
    }
    struct rope rope = {.kind = ROPE_PLAIN, .rotary_dim = rotary_dim, .attention_factor = 1};
    rope.inverse_frequency = arena_calloc(&b->graph->arena, rotary_dim / 2, sizeof *rope.inverse_frequency);
    for (uint32_t i = 0; i < rotary_dim / 2 && rope.inverse_frequency; i++)
        rope.inverse_frequency[i] = (float)pow(theta, -2.0 * i / rotary_dim);
    return add_rope(b, &rope);
}

uint32_t b_rope_stepped(struct builder *b, uint32_t rope, uint32_t step) {
    if (b->failed) return 0;
    struct rope stepped = b->graph->ropes[rope];
    stepped.step = step;
    return add_rope(b, &stepped);
}

uint32_t b_rope_negated(struct builder *b, uint32_t rope) {
    if (b->failed) return 0;
    struct rope turned = b->graph->ropes[rope];
    uint32_t n = turned.rotary_dim / 2;
    float *inverse = arena_calloc(&b->graph->arena, n, sizeof *inverse);
    for (uint32_t i = 0; i < n && inverse; i++) inverse[i] = -turned.inverse_frequency[i];
    turned.inverse_frequency = inverse;
    if (turned.kind != ROPE_PLAIN)
        builder_fail(b, ERROR_UNSUPPORTED, "%s: this rope scaling is not implemented here", b->config->path);
    return add_rope(b, &turned);
}

struct value b_rope_table(struct builder *b, uint32_t rope) {
    struct graph *g = b->graph;
    for (size_t i = 0; i < g->n_ops && !b->failed; i++)
        if (g->ops[i].kind == OP_ROPE_TABLE && g->ops[i].rope_table == rope) return g->ops[i].out;
    if (b->failed) return value_none();
    struct value out = b_value(b, g->ropes[rope].rotary_dim);
    b_op(b, (struct op){.kind = OP_ROPE_TABLE, .in = {value_none()}, .out = out, .rope_table = rope});
    return out;
}
