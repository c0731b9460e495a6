/* SPDX-License-Identifier: Apache-2.0 */
/* How tokens are drawn: every parameter of sampling as plain values, with defaults and ranges.
 *
 * docs/sampling.md gives the order in which they act and where each comes from. One table (sampling_fields) names them,
 * so that command line, HTTP fields and error messages cannot disagree. */
#ifndef MLXCEL_ENGINE_SAMPLING_H
#define MLXCEL_ENGINE_SAMPLING_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Added to the logit of a token; -INFINITY bans it. */
struct logit_bias {
    uint32_t token;
    float bias;
};

/* Which distribution log-probabilities are taken from. */
enum logprobs_kind {
    LOGPROBS_CHAIN, /* after bias, penalties and XTC; before temperature and filters (as the original) */
    LOGPROBS_RAW,   /* what the model said: log-softmax of its logits */
    LOGPROBS_FINAL, /* what the token was drawn from: after everything */
};

struct sampling_params {
    double temperature; /* 0 = greedy */
    double dynatemp_range, dynatemp_exponent;
    int64_t top_k; /* 0 and -1: off */
    double top_p;
    double min_p;
    double typical_p;
    double top_n_sigma;
    int64_t min_keep; /* top-p, min-p, typical and XTC leave at least this many */
    double xtc_probability, xtc_threshold;

    double repetition_penalty, presence_penalty, frequency_penalty;
    int64_t repetition_last_n, presence_last_n, frequency_last_n; /* windows in tokens; -1 = everything, 0 = off */
    int64_t penalize_prompt; /* 0: presence and frequency count generated tokens only */
    double dry_multiplier, dry_base;
    int64_t dry_allowed_length, dry_last_n;

    int64_t mirostat; /* 0, 1, 2 */
    double mirostat_tau, mirostat_eta;
    double adaptive_target, adaptive_decay; /* target < 0: off */

    int64_t seed; /* -1: drawn when the sampler is made */
    int64_t min_tokens;
    int64_t ignore_eos;
    const struct logit_bias *logit_bias; /* [n_logit_bias], borrowed; sampler_init copies it */
    size_t n_logit_bias;

    int64_t want_logprobs;  /* 0: results carry none */
    int64_t logprobs_kind;  /* enum logprobs_kind */
    int64_t n_top_logprobs; /* alternatives to report; -1 = the whole vocabulary */

    int64_t loop_max_pattern, loop_min_pattern, loop_min_count; /* loop stop; off when max is 0 or the count below 2 */
};

enum sampling_field_kind { SAMPLING_INTEGER, SAMPLING_REAL };

struct sampling_field {
    const char *name; /* also the HTTP field */
    enum sampling_field_kind kind;
    size_t offset;           /* of the int64_t or double in struct sampling_params */
    double minimum, maximum; /* both allowed, unless excludes_minimum */
    bool excludes_minimum;
    double fallback; /* the default */
};

enum { N_SAMPLING_FIELDS = 36 };
extern const struct sampling_field sampling_fields[N_SAMPLING_FIELDS];

/* The original's defaults: greedy, every filter and penalty off, windows of 64 tokens. */
struct sampling_params sampling_defaults(void);
/* What the original's server and llama-server use where a request is silent: temperature 0.8, top-k 40, top-p 0.95,
 * min-p 0.05. */
struct sampling_params sampling_server_defaults(void);

/* All ranges; the error names the field, the value and the range. */
bool sampling_check(const struct sampling_params *params, struct mx_error *err);

/* The field of that name, or NULL. */
const struct sampling_field *sampling_field_find(const char *name);
/* Sets a field after checking the range; a fraction for an integer field is an error. */
bool sampling_set(struct sampling_params *params, const struct sampling_field *field, double value,
                  struct mx_error *err);
double sampling_get(const struct sampling_params *params, const struct sampling_field *field);

#endif
