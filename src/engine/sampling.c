/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sampling.h"

#include <math.h>
#include <string.h>

#define BIG 2147483647.0 /* counts */
#define INTEGER(field, minimum, maximum, fallback)                                                                     \
    { #field, SAMPLING_INTEGER, offsetof(struct sampling_params, field), minimum, maximum, false, fallback }
#define REAL(field, minimum, maximum, fallback)                                                                        \
    { #field, SAMPLING_REAL, offsetof(struct sampling_params, field), minimum, maximum, false, fallback }
#define REAL_ABOVE(field, minimum, maximum, fallback)                                                                  \
    { #field, SAMPLING_REAL, offsetof(struct sampling_params, field), minimum, maximum, true, fallback }

const struct sampling_field sampling_fields[N_SAMPLING_FIELDS] = {
    /* clang-format off */
    /*         field              minimum  maximum  default */
    REAL(temperature,             0,       1e6,     0),
    REAL(dynatemp_range,          0,       1e6,     0),
    REAL(dynatemp_exponent,       0,       1e6,     1),
    INTEGER(top_k,               -1,       BIG,     0),
    REAL(top_p,                   0,       1,       1),
    REAL(min_p,                   0,       1,       0),
    REAL(typical_p,              -1e6,     1e6,     1),
    REAL(top_n_sigma,            -1e6,     1e6,    -1),
    INTEGER(min_keep,             0,       BIG,     0),
    REAL(xtc_probability,         0,       1,       0),
    REAL(xtc_threshold,           0,       1,       0.1),
    REAL_ABOVE(repetition_penalty, 0,      1e6,     1),
    REAL(presence_penalty,       -1e6,     1e6,     0),
    REAL(frequency_penalty,      -1e6,     1e6,     0),
    INTEGER(repetition_last_n,   -1,       BIG,     64),
    INTEGER(presence_last_n,     -1,       BIG,     64),
    INTEGER(frequency_last_n,    -1,       BIG,     64),
    INTEGER(penalize_prompt,      0,       1,       1),
    REAL(dry_multiplier,          0,       1e6,     0),
    REAL(dry_base,                1,       1e6,     1.75),
    INTEGER(dry_allowed_length,   0,       BIG,     2),
    INTEGER(dry_last_n,          -1,       BIG,     64),
    INTEGER(mirostat,             0,       2,       0),
    REAL(mirostat_tau,            0,       1e6,     5),
    REAL(mirostat_eta,            0,       1e6,     0.1),
    REAL(adaptive_target,        -1e6,     1,      -1),
    REAL(adaptive_decay,          0,       1,       0.9),
    INTEGER(seed,                -1,       0x1p63, -1),
    INTEGER(min_tokens,           0,       BIG,     0),
    INTEGER(ignore_eos,           0,       1,       0),
    INTEGER(want_logprobs,        0,       1,       0),
    INTEGER(logprobs_kind,        0,       2,       LOGPROBS_CHAIN),
    INTEGER(n_top_logprobs,      -1,       BIG,     0),
    INTEGER(loop_max_pattern,     0,       BIG,     0),
    INTEGER(loop_min_pattern,     0,       BIG,     1),
    INTEGER(loop_min_count,       0,       1e6,     0),
    /* clang-format on */
};

static void field_put(struct sampling_params *params, const struct sampling_field *field, double value) {
    char *at = (char *)params + field->offset;
    if (field->kind == SAMPLING_REAL) {
        memcpy(at, &value, sizeof value);
    } else {
        int64_t integer = value >= 0x1p63 ? INT64_MAX : (int64_t)value;
        memcpy(at, &integer, sizeof integer);
    }
}

double sampling_get(const struct sampling_params *params, const struct sampling_field *field) {
    const char *at = (const char *)params + field->offset;
    int64_t integer;
    double real;
    if (field->kind == SAMPLING_INTEGER) return memcpy(&integer, at, sizeof integer), (double)integer;
    return memcpy(&real, at, sizeof real), real;
}

struct sampling_params sampling_defaults(void) {
    struct sampling_params params = {0};
    for (int i = 0; i < N_SAMPLING_FIELDS; i++) field_put(&params, &sampling_fields[i], sampling_fields[i].fallback);
    return params;
}

struct sampling_params sampling_server_defaults(void) {
    struct sampling_params params = sampling_defaults();
    params.temperature = 0.8;
    params.top_k = 40;
    params.top_p = 0.95;
    params.min_p = 0.05;
    return params;
}

static bool check_value(const struct sampling_field *field, double value, struct mx_error *err) {
    bool in_range = value >= field->minimum && value <= field->maximum; /* false for NaN */
    if (field->excludes_minimum && value == field->minimum) in_range = false;
    if (field->kind == SAMPLING_INTEGER && in_range && value != floor(value))
        return error_set(err, ERROR_USAGE, "%s must be a whole number, not %g", field->name, value);
    if (in_range) return true;
    return error_set(err, ERROR_USAGE, "%s must be %s %.16g and at most %.16g, not %.16g", field->name,
                     field->excludes_minimum ? "above" : "at least", field->minimum, field->maximum, value);
}

bool sampling_check(const struct sampling_params *params, struct mx_error *err) {
    for (int i = 0; i < N_SAMPLING_FIELDS; i++)
        if (!check_value(&sampling_fields[i], sampling_get(params, &sampling_fields[i]), err)) return false;
    for (size_t i = 0; i < params->n_logit_bias; i++) {
        float bias = params->logit_bias[i].bias;
        if (isnan(bias) || bias == INFINITY)
            return error_set(err, ERROR_USAGE, "logit_bias of token %u must be a finite number or -infinity",
                             params->logit_bias[i].token);
    }
    return true;
}

const struct sampling_field *sampling_field_find(const char *name) {
    for (int i = 0; i < N_SAMPLING_FIELDS; i++)
        if (!strcmp(sampling_fields[i].name, name)) return &sampling_fields[i];
    return NULL;
}

bool sampling_set(struct sampling_params *params, const struct sampling_field *field, double value,
                  struct mx_error *err) {
    if (!check_value(field, value, err)) return false;
    field_put(params, field, value);
    return true;
}
