/* SPDX-License-Identifier: Apache-2.0 */
/* A row's result depends on its own sequence and the weights, and on nothing else: bit for bit, for every family, in both
 * precisions, with prompts of 200 tokens and more. Each test computes the same thing in two ways and compares all bits of
 * the logits of the prompt's last rows and of the following tokens. */
#include "tests/support/golden.h"
#include "tests/support/tap.h"
#include "tests/support/weights.h"

#include "base/memory.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 230, N_TAIL = 20, N_DECODE = 12, N_TOTAL = N_PROMPT + N_DECODE };

/* One case for each family, plain and quantised, and the windows and ropes that depend on a length. */
static const char *const cases[] = {
    "llama-q4",
    "llama-dynamic-bf16",
    "llama-mxfp4",
    "hf-mistral-sliding",
    "hf-llama-fp8-tied",
    "qwen2-q4",
    "qwen3-q4",
    "hf-gemma2",
    "gemma3-text-q4",
    "cohere-q4",
    "hf-cohere-qknorm",
    "cohere2-q4",
    "exaone-q4",
    "exaone4-q4",
    "gemma-q4",
    "glm-q4",
    "glm4-q4",
    "gpt2-q4",
    "gpt_bigcode-q4",
    "gpt_neox-q4",
    "granite-q4",
    "hf-granite-swa",
    "helium-q4",
    "hunyuan_v1_dense-q4",
    "internlm2-q4",
    "internlm3-biases-bf16",
    "mimo-q4",
    "minicpm-q4",
    "ministral3-q4",
    "hf-ministral",
    "nemotron-q4",
    "nemotron-nas-q4",
    "olmo-q4",
    "hf-olmo",
    "olmo2-q4",
    "olmo3-q4",
    "openelm-q4",
    "phi-q4",
    "phi3-su-q4",
    "phi3small-q4",
    "plamo-q4",
    "qwen-q4",
    "seed_oss-q4",
    "smollm3-q4",
    "stablelm-qk-bf16",
    "starcoder2-q4",
    "telechat3-q4",
    "hf-arcee",
    "apertus-q4",
    "afm7-q4",
    "baichuan_m1-q4",
    "bitnet-q4-embed",
    "lille-130m-q4",
    "nanochat-q4",
    "iquestloopcoder-q4",
    "ernie4_5-q4",
    "mellum-q4",
    "molmo-bf16",
    "molmo2-bf16",
    "moondream2-bf16",
    "hf-gptj",
    "hf-phi-qknorm",
    "hf-glm-ocr-text",
    "hf-paddleocr-vl-text",
    "hf-mllama-text",
    "mixtral-q4",
    "qwen3_moe-q4",
    "mamba2-bf16",
    "mamba2-q4",
    "qwen3_next-q4",
    "hf-qwen3-next",
    "qwen3_5-q4",
    "hf-qwen3-5-moe-text-fused",
    "qwen2_moe-q4",
    "granitemoe-q4",
    "exaone_moe-q4",
    "hf-olmoe",
    "hf-ernie4-5-moe",
    "hf-lfm2",
    "lfm2_moe-q4",
    "mamba-q4",
    "falcon_mamba-q4",
    "granitemoehybrid-q4",
    "hf-bamba",
    "nemotron_h-moe-q4",
    "hf-falcon-h1",
    "jamba-q4",
    "rwkv7-q4",
    "plamo2-q4",
    "recurrent_gemma-q4",
    "bailing_moe_linear-q4",
    "kimi_linear-q4",
    "hf-olmo-hybrid",
    "hf-minimax",
    "gemma3n-q4",
    "gemma4-e2b-q4",
    "gemma4-a4b-q4",
    "hf-gemma4-text-dense",
    "deepseek_v3-q4",
    "hf-deepseek-v2-group",
    "deepseek_v3-kvb-q4",
    "hf-gpt-oss-mxfp4",
    "hf-gpt-oss",
    "laguna-q4",
    "mimo_v2_flash-q4",
    "step3p5-q4",
    "llama4-q4",
    "phimoe-q4",
    "phixtral-q4",
    "Klear-q4",
    "hunyuan-q4",
    "bailing_moe-q4",
    "hf-cohere2-moe",
    "afmoe-q4",
    "deepseek_v32-q4",
    "hf-glm-moe-dsa",
    "hf-minimax-m3-text",
    "longcat_flash_ngram-q4",
    "hf-deepseek-v4",
};

struct tokens {
    uint32_t ids[N_TOTAL];
};

static void make_tokens(struct tokens *t, uint64_t seed, uint32_t vocab) {
    uint64_t state = seed;
    for (int i = 0; i < N_TOTAL; i++) t->ids[i] = (uint32_t)(rng_next(&state) % vocab);
}

/* What is compared: logits after each of the last N_TAIL prompt tokens and of the N_DECODE tokens that follow. */
struct answer {
    float *logits;
    size_t n;
};

static void take(struct answer *a, const struct batch *b, uint32_t output) {
    uint32_t vocab = b->model->graph.vocab_size;
    memcpy(a->logits + a->n, batch_logits(b, output), vocab * sizeof(float));
    a->n += vocab;
}

static void new_answer(struct answer *a, const struct model *m) {
    a->n = 0;
    a->logits = array_calloc((N_TAIL + N_DECODE + 64) * (size_t)m->graph.vocab_size, sizeof(float));
}

static bool same(const struct answer *a, const struct answer *b) {
    return a->n && a->n == b->n && !memcmp(a->logits, b->logits, a->n * sizeof(float));
}

/* Feeds tokens [from, to) in chunks; outputs of the last N_TAIL prompt rows and of everything after are taken. */
static bool feed(struct batch *b, struct sequence *s, const struct tokens *t, uint32_t from, uint32_t to,
                 uint32_t chunk, struct answer *a) {
    for (uint32_t at = from; at < to;) {
        uint32_t border = N_PROMPT - N_TAIL, n = to - at < chunk ? to - at : chunk, first = 0;
        if (at < border && at + n > border) n = border - at;
        enum outputs outputs = at >= border && a ? OUTPUT_ALL : OUTPUT_NONE;
        if (!batch_add(b, s, t->ids + at, n, N_PROMPT, outputs, &first)) return false;
        batch_run(b, NULL);
        for (uint32_t i = 0; outputs == OUTPUT_ALL && i < n; i++) take(a, b, first + i);
        at += n;
    }
    return true;
}

/* The plain way: the whole prompt, then token by token. */
static bool compute_plain(struct batch *b, struct sequence *s, const struct tokens *t, uint32_t chunk,
                          struct answer *a) {
    return feed(b, s, t, 0, N_PROMPT, chunk, a) && feed(b, s, t, N_PROMPT, N_TOTAL, 1, a);
}

struct fixture {
    struct model model;
    struct batch batch;
    struct tokens tokens, others[3];
    struct answer plain;
};

static bool fixture_open(struct fixture *f, const char *folder, struct model_options options, struct mx_error *err) {
    *f = (struct fixture){0};
    options.max_cells = 320;
    options.max_rows = 512;
    options.max_outputs = 128;
    options.max_sequences = 5;
    options.n_snapshots = 8;
    if (!model_open(&f->model, folder, &options, err) || !batch_init(&f->batch, &f->model, err)) return false;
    uint32_t vocab = f->model.graph.vocab_size;
    make_tokens(&f->tokens, 1, vocab);
    for (int i = 0; i < 3; i++) make_tokens(&f->others[i], 2 + (uint64_t)i, vocab);
    new_answer(&f->plain, &f->model);
    return true;
}

static void fixture_close(struct fixture *f) {
    free(f->plain.logits);
    batch_free(&f->batch);
    model_close(&f->model);
}

/* The plain answer of a fresh sequence; its own memory. */
static bool plain_with(struct fixture *f, uint32_t chunk, struct answer *a) {
    struct sequence s;
    new_answer(a, &f->model);
    bool ok = sequence_init(&s, &f->model, NULL) && compute_plain(&f->batch, &s, &f->tokens, chunk, a);
    sequence_free(&s);
    return ok;
}

/* ---- the tests: each fills an answer that must equal the plain one ---- */

/* Prefill chunks and decode tokens of other sequences share every step. */
static bool packed(struct fixture *f, struct answer *a) {
    struct sequence s, o[3];
    uint32_t at[3] = {0, 37, 101}, main_at = 0;
    bool ok = sequence_init(&s, &f->model, NULL);
    for (int i = 0; i < 3; i++) {
        ok = ok && sequence_init(&o[i], &f->model, NULL);
        if (at[i]) ok = ok && feed(&f->batch, &o[i], &f->others[i], 0, at[i], 64, NULL);
    }
    while (ok && main_at < N_TOTAL) {
        uint32_t border = N_PROMPT - N_TAIL, n = main_at < border ? border - main_at < 45 ? border - main_at : 45 : 1,
                 first;
        for (int i = 0; i < 2 && ok; i++) { /* neighbours before it, of one and of several rows */
            uint32_t m = i ? 1 : 13;
            if (at[i] + m > N_TOTAL) continue;
            ok = batch_add(&f->batch, &o[i], f->others[i].ids + at[i], m, N_PROMPT, OUTPUT_LAST, NULL);
            at[i] += m;
        }
        bool wanted = main_at >= border;
        ok = ok &&
             batch_add(&f->batch, &s, f->tokens.ids + main_at, n, N_PROMPT, wanted ? OUTPUT_ALL : OUTPUT_NONE, &first);
        if (at[2] + 3 <= N_TOTAL) {
            ok = ok && batch_add(&f->batch, &o[2], f->others[2].ids + at[2], 3, N_PROMPT, OUTPUT_NONE, NULL);
            at[2] += 3;
        }
        batch_run(&f->batch, NULL);
        for (uint32_t i = 0; ok && wanted && i < n; i++) take(a, &f->batch, first + i);
        main_at += n;
    }
    sequence_free(&s);
    for (int i = 0; i < 3; i++) sequence_free(&o[i]);
    return ok;
}

static bool chunked(struct fixture *f, struct answer *a, uint32_t chunk) {
    struct sequence s;
    bool ok = sequence_init(&s, &f->model, NULL) && compute_plain(&f->batch, &s, &f->tokens, chunk, a);
    sequence_free(&s);
    return ok;
}

static bool chunks_of_1(struct fixture *f, struct answer *a) { return chunked(f, a, 1); }
static bool chunks_of_7(struct fixture *f, struct answer *a) { return chunked(f, a, 7); }
static bool chunks_of_64(struct fixture *f, struct answer *a) { return chunked(f, a, 64); }

/* A sequence is forked inside a page; the original goes another way, the copy goes on. */
static bool forked(struct fixture *f, struct answer *a) {
    struct sequence s, copy = {0};
    uint32_t at = 151;
    bool ok = sequence_init(&s, &f->model, NULL) && feed(&f->batch, &s, &f->tokens, 0, at, 64, NULL) &&
              sequence_fork(&copy, &s, NULL) && feed(&f->batch, &s, &f->others[0], at, N_PROMPT, 64, NULL) &&
              feed(&f->batch, &copy, &f->tokens, at, N_PROMPT, 512, a) &&
              feed(&f->batch, &copy, &f->tokens, N_PROMPT, N_TOTAL, 1, a);
    sequence_free(&copy);
    sequence_free(&s);
    return ok;
}

/* Goes a wrong way for some tokens, truncates, and goes on; with snapshots where the family needs them. */
static bool truncated(struct fixture *f, struct answer *a) {
    struct sequence s;
    uint32_t right = 140, wrong = 33;
    struct tokens astray = f->tokens;
    memcpy(astray.ids + right, f->others[1].ids, wrong * sizeof(uint32_t));
    bool ok = sequence_init(&s, &f->model, NULL) && feed(&f->batch, &s, &f->tokens, 0, 70, 64, NULL) &&
              sequence_snapshot(&s) && feed(&f->batch, &s, &f->tokens, 70, right, 64, NULL) &&
              feed(&f->batch, &s, &astray, right, right + wrong, 64, NULL);
    sequence_truncate(&s, right);
    ok = ok && s.n_cells <= right && s.n_cells >= 70;
    ok = ok && feed(&f->batch, &s, &f->tokens, s.n_cells, N_PROMPT, 64, a) &&
         feed(&f->batch, &s, &f->tokens, N_PROMPT, N_TOTAL, 1, a);
    sequence_free(&s);
    return ok;
}

/* Without a snapshot a recurrent sequence starts again, and the answer is the same. */
static bool truncated_without_snapshot(struct fixture *f, struct answer *a) {
    struct sequence s;
    bool ok = sequence_init(&s, &f->model, NULL) && feed(&f->batch, &s, &f->tokens, 0, 180, 64, NULL);
    sequence_truncate(&s, 90);
    ok = ok && feed(&f->batch, &s, &f->tokens, s.n_cells, N_PROMPT, 64, a) &&
         feed(&f->batch, &s, &f->tokens, N_PROMPT, N_TOTAL, 1, a);
    sequence_free(&s);
    return ok;
}

/* All pages and slots are given up half way and the tokens computed again. */
static bool preempted(struct fixture *f, struct answer *a) {
    struct sequence s;
    bool ok = sequence_init(&s, &f->model, NULL) && compute_plain(&f->batch, &s, &f->tokens, 64, a);
    a->n = 0;
    sequence_clear(&s);
    ok = ok && feed(&f->batch, &s, &f->tokens, 0, N_PROMPT + 5, 512, NULL);
    sequence_clear(&s);
    ok = ok && feed(&f->batch, &s, &f->tokens, 0, N_PROMPT + 5, 512, a) &&
         feed(&f->batch, &s, &f->tokens, N_PROMPT + 5, N_TOTAL, 1, a);
    sequence_free(&s);
    return ok;
}

static const struct {
    const char *name;
    bool (*compute)(struct fixture *f, struct answer *a);
} ways[] = {
    {"alone equals packed with others", packed},
    {"one prefill equals chunks of 1", chunks_of_1},
    {"one prefill equals chunks of 7", chunks_of_7},
    {"one prefill equals chunks of 64", chunks_of_64},
    {"fork equals fresh", forked},
    {"truncate and go on equals fresh", truncated},
    {"truncate without a snapshot equals fresh", truncated_without_snapshot},
    {"preempted and computed again equals fresh", preempted},
};

static void run_ways(struct fixture *f, const char *name, const char *precision) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct answer a;
        new_answer(&a, &f->model);
        bool ok = a.logits && ways[i].compute(f, &a);
        tap_ok(ok && same(&a, &f->plain), "%s, %s: %s", name, precision, ways[i].name);
        free(a.logits);
    }
}

/* Opens the model in another way and compares the plain answers. */
static void run_other(struct fixture *f, const char *folder, struct model_options options, bool more_ops,
                      const char *format, const char *name, const char *what) {
    struct fixture other;
    struct answer a = {0};
    struct mx_error err = {0};
    char label[200];
    bool ok = fixture_open(&other, folder, options, &err) && plain_with(&other, 512, &a) && same(&a, &f->plain);
    if (more_ops) ok = ok && other.model.plan.n_ops > f->model.plan.n_ops;
    snprintf(label, sizeof label, format, name, what);
    tap_ok(ok, "%s", label);
    if (err.code) tap_note("%s", err.message);
    free(a.logits);
    fixture_close(&other);
}

/* Whether switching the fusion off can make the plan longer for this model at all. */
static bool fusion_applies(struct model *m, unsigned fusion) {
    struct plan with, without;
    bool ok =
        plan_create(&with, &m->graph, FUSE_ALL, NULL) && plan_create(&without, &m->graph, FUSE_ALL & ~fusion, NULL);
    bool applies = ok && without.n_ops > with.n_ops;
    plan_free(&with);
    plan_free(&without);
    return applies;
}

static void run_model(const char *folder, const char *name, enum precision precision) {
    static const char *const fusions[] = {"parts", "gated", "residual", "norm", "heads"};
    const char *label = precision == PRECISION_EXACT ? "exact" : "fast";
    struct model_options options = {.precision = precision, .tier = TIER_REF, .n_threads = 1};
    enum kernel_tier best = kernels_best_tier();
    options.tier = (int)best;
    struct fixture f;
    struct mx_error err = {0};
    if (!fixture_open(&f, folder, options, &err) || !plain_with(&f, 512, &f.plain)) {
        tap_ok(false, "%s, %s", name, label);
        tap_note("%s", err.message);
        fixture_close(&f);
        return;
    }
    run_ways(&f, name, label);
    struct model_options two = options;
    two.n_threads = 2;
    run_other(&f, folder, two, false, "%s, %s: one thread equals two", name, label);
    for (int tier = 0; tier < N_TIERS; tier++) {
        struct model_options other = options;
        other.tier = tier;
        if (tier == (int)best || !kernels_for_tier((enum kernel_tier)tier)) continue;
        run_other(&f, folder, other, false, "%s: best tier equals %s", name, kernel_tier_name((enum kernel_tier)tier));
    }
    for (unsigned i = 0; i < 5; i++) {
        struct model_options off = options;
        struct model probe;
        off.disabled_fusions = 1u << i;
        bool applies = model_open(&probe, folder, &off, &err) && fusion_applies(&probe, 1u << i);
        model_close(&probe);
        if (applies) run_other(&f, folder, off, true, "%s: fusion '%s' on equals off", name, fusions[i]);
    }
    struct model_options none = options;
    none.disabled_fusions = FUSE_ALL;
    run_other(&f, folder, none, true, "%s, %s: all fusions on equals all off", name, label);
    char used[400] = "";
    size_t at = 0;
    for (int id = 0; id < N_KERNELS; id++) {
        int tier = f.model.backend->kernel_tier(f.model.compiled, id);
        if (tier >= 0 && at < sizeof used)
            at += (size_t)snprintf(used + at, sizeof used - at, " %s:%s", kernel_name(id),
                                   kernel_tier_name((enum kernel_tier)tier));
    }
    tap_note("%s, %s: kernels%s", name, label, used);
    fixture_close(&f);
}

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[4096], folder[4096];
        struct mx_error err = {0};
        if (argc > 1 && strcmp(argv[1], cases[i])) continue;
        snprintf(source, sizeof source, "%s/tests/golden/cases/%s", SOURCE_DIR, cases[i]);
        if (!folder_make_temporary(folder, sizeof folder) || !weights_generate(source, "config.json", folder, &err)) {
            tap_ok(false, "%s: %s", cases[i], err.message);
            continue;
        }
        run_model(folder, cases[i], PRECISION_FAST);
        run_model(folder, cases[i], PRECISION_EXACT);
        folder_remove(folder);
    }
    return tap_done();
}
