/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel perplexity`: how well a model predicts a text; with --kl also how far precision fast is from exact.
 *
 * The text is encoded as it stands (no BOS), cut into windows of W inputs that do not overlap and each start with an empty
 * context. The targets of a window are its inputs moved on by one, so that the last target is the first token of the next
 * window; N tokens have N - 1 targets. Loss = mean of -log p(target), perplexity = exp(loss). */
#include "cli/commands.h"
#include "cli/load.h"

#include "base/file.h"
#include "base/memory.h"
#include "engine/batch.h"
#include "text/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct evaluation {
    struct model model;
    struct batch batch;
    struct sequence sequence;
};

struct result {
    size_t n_tokens, n_targets, window;
    double nll, kl;     /* sums in nats */
    double *window_nll; /* of each window */
    size_t n_windows;
};

static bool evaluation_open(struct evaluation *e, const char *path, struct model_options options, size_t window,
                            struct mx_error *err) {
    options.max_cells = (uint32_t)window;
    options.max_rows = window < 512 ? (uint32_t)window : 512;
    options.max_outputs = options.max_rows < 128 ? options.max_rows : 128;
    return model_open(&e->model, path, &options, err) && batch_init(&e->batch, &e->model, err) &&
           sequence_init(&e->sequence, &e->model, err);
}

static void evaluation_close(struct evaluation *e) {
    sequence_free(&e->sequence);
    batch_free(&e->batch);
    model_close(&e->model);
}

/* log of the sum of exponentials, in double. */
static double log_sum(const float *logits, uint32_t n) {
    double largest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((double)logits[i] > largest) largest = (double)logits[i];
    for (uint32_t i = 0; i < n; i++) sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

/* Kullback-Leibler divergence of q from p, in nats: sum of p (log p - log q). */
static double divergence(const float *p, const float *q, uint32_t n) {
    double p_sum = log_sum(p, n), q_sum = log_sum(q, n), kl = 0;
    for (uint32_t i = 0; i < n; i++) {
        double log_p = (double)p[i] - p_sum;
        kl += exp(log_p) * (log_p - ((double)q[i] - q_sum));
    }
    return kl;
}

/* One window; with `exact` that model's logits are the truth for the divergence. */
static bool run_window(struct evaluation *e, struct evaluation *exact, const uint32_t *tokens, size_t n,
                       size_t n_targets, struct result *r, struct mx_error *err) {
    uint32_t vocab = e->model.graph.vocab_size;
    double nll = 0;
    sequence_clear(&e->sequence);
    if (exact) sequence_clear(&exact->sequence);
    for (size_t at = 0; at < n;) {
        uint32_t room = batch_output_room(&e->batch), rows = n - at < room ? (uint32_t)(n - at) : room;
        if (!batch_add(&e->batch, &e->sequence, tokens + at, rows, (uint32_t)n, OUTPUT_ALL, NULL) ||
            (exact && !batch_add(&exact->batch, &exact->sequence, tokens + at, rows, (uint32_t)n, OUTPUT_ALL, NULL)))
            return error_set(err, ERROR_MEMORY, "the window does not fit into the cache");
        batch_run(&e->batch, NULL);
        if (exact) batch_run(&exact->batch, NULL);
        for (uint32_t i = 0; i < rows && at + i < n_targets; i++) {
            const float *logits = batch_logits(&e->batch, i);
            nll += log_sum(logits, vocab) - (double)logits[tokens[at + i + 1]];
            if (exact) r->kl += divergence(batch_logits(&exact->batch, i), logits, vocab);
        }
        at += rows;
    }
    r->window_nll[r->n_windows++] = nll;
    r->nll += nll;
    r->n_targets += n_targets;
    return true;
}

static bool read_tokens(const struct options *options, const char *path, struct token_list *tokens,
                        struct mx_error *err) {
    const char *file = options_text(options, OPT_FILE);
    if (!file) return error_set(err, ERROR_USAGE, "--file FILE is needed");
    size_t length;
    char *text = file_read(file, (size_t)1 << 30, &length, err);
    struct tokenizer *tokenizer = text ? tokenizer_open(path, err) : NULL;
    bool ok = tokenizer && tokenizer_encode(tokenizer, text, length, 0, tokens, err);
    if (tokenizer) tokenizer_close(tokenizer);
    free(text);
    size_t limit = (size_t)options_integer(options, OPT_TOKENS);
    if (ok && limit && tokens->count > limit) tokens->count = limit;
    if (ok && tokens->count < 2) ok = error_set(err, ERROR_USAGE, "%s: has fewer than two tokens", file);
    return ok;
}

static void write_result(const struct options *options, const struct result *r, bool has_kl, struct buffer *out) {
    double loss = r->nll / (double)r->n_targets;
    if (!options_flag(options, OPT_JSON)) {
        buffer_printf(out, "loss %.6f nats, perplexity %.4f (%zu targets, windows of %zu)\n", loss, exp(loss),
                      r->n_targets, r->window);
        if (has_kl) buffer_printf(out, "KL of fast from exact: %.6f nats a position\n", r->kl / (double)r->n_targets);
        return;
    }
    struct json_writer w = {.out = out, .indent = 1};
    json_begin_object(&w);
    json_add_real_as(&w, "loss", "%.9g", loss);
    json_add_real_as(&w, "perplexity", "%.9g", exp(loss));
    json_add_count(&w, "tokens", r->n_tokens);
    json_add_count(&w, "targets", r->n_targets);
    json_add_count(&w, "window", r->window);
    json_write_key(&w, "window_sums_nats");
    json_begin_array(&w);
    for (size_t i = 0; i < r->n_windows; i++) json_write_real_as(&w, "%.9g", r->window_nll[i]);
    json_end_array(&w);
    if (has_kl) json_add_real_as(&w, "kl", "%.9g", r->kl / (double)r->n_targets);
    json_end_object(&w);
    buffer_putc(out, '\n');
}

static bool check_tokens(const struct token_list *tokens, uint32_t vocab, struct mx_error *err) {
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->ids[i] >= vocab)
            return error_set(err, ERROR_FORMAT, "the tokenizer gives id %u, but the model's vocabulary has %u",
                             tokens->ids[i], vocab);
    return true;
}

static bool evaluate(const struct options *options, struct evaluation *e, struct evaluation *exact,
                     const struct token_list *tokens, struct result *r, struct mx_error *err) {
    r->n_tokens = tokens->count;
    r->window_nll = array_calloc(tokens->count / r->window + 1, sizeof *r->window_nll);
    if (!r->window_nll) return error_memory(err, "windows");
    bool has_kl = options_flag(options, OPT_KL);
    for (size_t at = 0; at + 1 < tokens->count; at += r->window) {
        size_t left = tokens->count - at, n = left < r->window ? left : r->window;
        size_t n_targets = left > n ? n : n - 1;
        if (!run_window(e, has_kl ? exact : NULL, tokens->ids + at, n, n_targets, r, err)) return false;
        if (checkpoint_is_damaged(&e->model.checkpoint, err)) return false;
    }
    return true;
}

int command_perplexity(const struct options *options) {
    struct evaluation e = {0}, exact = {0};
    struct token_list tokens = {0};
    struct result r = {.window = (size_t)options_integer(options, OPT_WINDOW)};
    struct model_options model_options = {0};
    struct buffer out = {0};
    struct mx_error err = {0};
    char path[4096];
    bool has_kl = options_flag(options, OPT_KL);
    bool ok = load_model_path(options, path, sizeof path, &err) && load_model_options(options, &model_options, &err) &&
              read_tokens(options, path, &tokens, &err);
    if (has_kl) model_options.precision = PRECISION_FAST;
    ok = ok && evaluation_open(&e, path, model_options, r.window, &err) &&
         check_tokens(&tokens, e.model.graph.vocab_size, &err);
    model_options.precision = PRECISION_EXACT;
    if (ok && has_kl) ok = evaluation_open(&exact, path, model_options, r.window, &err);
    ok = ok && evaluate(options, &e, &exact, &tokens, &r, &err);
    int status = ok ? 0 : command_fail(&err);
    if (ok) {
        write_result(options, &r, has_kl, &out);
        status = command_print(&out);
    }
    evaluation_close(&e);
    evaluation_close(&exact);
    token_list_free(&tokens);
    free(r.window_nll);
    buffer_free(&out);
    return status;
}
