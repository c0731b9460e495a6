/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel logits`: the numbers themselves, for comparing with a reference. */
#include "cli/commands.h"
#include "cli/load.h"

#include "base/file.h"
#include "base/memory.h"
#include "engine/batch.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

struct run {
    const struct options *options;
    struct model model;
    struct batch batch;
    struct sequence sequence;
    uint32_t *prompt, *forced;
    size_t n_prompt, n_forced, n_greedy;
    float **taps;  /* [layers] of the present chunk */
    float *layers; /* [layers][prompt][hidden] */
    float *logits; /* [prompt or 1][vocab] */
    uint32_t *greedy_ids;
    float *greedy_logits; /* [n_greedy][vocab] */
};

static uint32_t largest(const float *logits, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static bool encode_prompt(struct run *r, const char *folder, const char *text, struct mx_error *err) {
    struct token_list tokens = {0};
    struct tokenizer *tokenizer = tokenizer_open(folder, err);
    bool ok = tokenizer && tokenizer_encode(tokenizer, text, strlen(text), TOKENIZE_SPECIAL, &tokens, err);
    tokenizer_close(tokenizer);
    if (ok) {
        r->prompt = tokens.ids;
        r->n_prompt = tokens.count;
        tokens.ids = NULL;
    }
    token_list_free(&tokens);
    return ok;
}

static bool read_ids_file(struct run *r, const char *file, struct mx_error *err) {
    size_t length;
    char *text = file_read(file, 64 << 20, &length, err);
    bool ok = text && parse_ids(text, "--ids-file", &r->prompt, &r->n_prompt, err);
    free(text);
    return ok;
}

static bool read_prompt(struct run *r, const char *folder, struct mx_error *err) {
    const char *ids = options_text(r->options, OPT_IDS), *file = options_text(r->options, OPT_IDS_FILE);
    const char *text = options_text(r->options, OPT_PROMPT), *forced = options_text(r->options, OPT_FORCE_IDS);
    if ((ids != NULL) + (file != NULL) + (text != NULL) != 1)
        return error_set(err, ERROR_USAGE, "give the prompt by one of --ids, --ids-file and -p");
    if (!options_exclude(r->options, OPT_GREEDY, OPT_FORCE_IDS, err)) return false;
    bool ok = ids    ? parse_ids(ids, "--ids", &r->prompt, &r->n_prompt, err)
              : file ? read_ids_file(r, file, err)
                     : encode_prompt(r, folder, text, err);
    if (ok && !r->n_prompt) ok = error_set(err, ERROR_USAGE, "the prompt is empty");
    if (ok && forced) ok = parse_ids(forced, "--force-ids", &r->forced, &r->n_forced, err);
    r->n_greedy = forced ? r->n_forced : (size_t)options_integer(r->options, OPT_GREEDY);
    return ok;
}

static bool check_ids(const struct run *r, struct mx_error *err) {
    for (size_t i = 0; i < r->n_prompt + r->n_forced; i++) {
        uint32_t id = i < r->n_prompt ? r->prompt[i] : r->forced[i - r->n_prompt];
        if (id >= r->model.graph.vocab_size)
            return error_set(err, ERROR_USAGE, "token id %u is not below the vocabulary's %u", id,
                             r->model.graph.vocab_size);
    }
    return true;
}

static bool allocate(struct run *r, struct mx_error *err) {
    const struct graph *g = &r->model.graph;
    size_t rows = options_flag(r->options, OPT_ALL) ? r->n_prompt : 1, bytes;
    bool ok = size_mul(rows, g->vocab_size, &bytes) && (r->logits = array_alloc(bytes, sizeof *r->logits)) != NULL;
    ok = ok && (r->greedy_ids = array_alloc(r->n_greedy, sizeof *r->greedy_ids)) != NULL;
    ok = ok && size_mul(r->n_greedy, g->vocab_size, &bytes) &&
         (r->greedy_logits = array_alloc(bytes, sizeof *r->greedy_logits)) != NULL;
    if (ok && options_flag(r->options, OPT_LAYERS)) {
        ok = size_mul((size_t)g->n_layers * r->n_prompt, g->hidden_size, &bytes) &&
             (r->layers = array_alloc(bytes, sizeof *r->layers)) != NULL &&
             (r->taps = array_calloc(g->n_layers, sizeof *r->taps)) != NULL;
    }
    return ok || error_memory(err, "logits");
}

/* Runs the prompt in chunks, keeping logits and layers. */
static bool run_prompt(struct run *r, struct mx_error *err) {
    const struct graph *g = &r->model.graph;
    bool all = options_flag(r->options, OPT_ALL);
    size_t chunk = (size_t)options_integer(r->options, OPT_CHUNK);
    for (size_t at = 0; at < r->n_prompt;) {
        size_t n = r->n_prompt - at, room = all ? batch_output_room(&r->batch) : batch_room(&r->batch);
        if (n > room) n = room;
        if (chunk && n > chunk) n = chunk;
        bool is_last = at + n == r->n_prompt;
        if (!batch_add(&r->batch, &r->sequence, r->prompt + at, (uint32_t)n, (uint32_t)r->n_prompt,
                       all       ? OUTPUT_ALL
                       : is_last ? OUTPUT_LAST
                                 : OUTPUT_NONE,
                       NULL))
            return error_set(err, ERROR_MEMORY, "the sequence does not fit into the cache");
        for (uint32_t l = 0; r->taps && l < g->n_layers; l++)
            r->taps[l] = r->layers + ((size_t)l * r->n_prompt + at) * g->hidden_size;
        batch_run(&r->batch, r->taps);
        for (size_t i = 0; i < (all ? n : is_last ? 1 : 0); i++)
            memcpy(r->logits + (all ? at + i : 0) * g->vocab_size, batch_logits(&r->batch, (uint32_t)i),
                   g->vocab_size * sizeof *r->logits);
        at += n;
    }
    return true;
}

static bool run_greedy(struct run *r, struct mx_error *err) {
    uint32_t vocab = r->model.graph.vocab_size;
    const float *last = r->logits + (options_flag(r->options, OPT_ALL) ? r->n_prompt - 1 : 0) * (size_t)vocab;
    for (size_t i = 0; i < r->n_greedy; i++) {
        memcpy(r->greedy_logits + i * vocab, last, vocab * sizeof *last);
        r->greedy_ids[i] = r->forced ? r->forced[i] : largest(last, vocab);
        if (i + 1 == r->n_greedy) break;
        if (!batch_add(&r->batch, &r->sequence, &r->greedy_ids[i], 1, (uint32_t)r->n_prompt, OUTPUT_LAST, NULL))
            return error_set(err, ERROR_MEMORY, "the sequence does not fit into the cache");
        batch_run(&r->batch, NULL);
        if (checkpoint_is_damaged(&r->model.checkpoint, err)) return false;
        last = batch_logits(&r->batch, 0);
    }
    return true;
}

static void write_rows(struct json_writer *w, const float *rows, size_t n_rows, size_t width) {
    json_begin_array(w);
    for (size_t i = 0; i < n_rows; i++) {
        json_begin_array(w);
        for (size_t j = 0; j < width; j++) json_write_real_as(w, "%.9g", (double)rows[i * width + j]);
        json_end_array(w);
    }
    json_end_array(w);
}

static void write_ids(struct json_writer *w, const char *key, const uint32_t *ids, size_t n) {
    json_write_key(w, key);
    json_begin_array(w);
    for (size_t i = 0; i < n; i++) json_write_integer(w, ids[i]);
    json_end_array(w);
}

static void write_json(struct run *r, struct buffer *out) {
    const struct graph *g = &r->model.graph;
    struct json_writer w = {.out = out};
    json_begin_object(&w);
    write_ids(&w, "prompt_ids", r->prompt, r->n_prompt);
    json_write_key(&w, "logits");
    write_rows(&w, r->logits, options_flag(r->options, OPT_ALL) ? r->n_prompt : 1, g->vocab_size);
    write_ids(&w, "greedy_ids", r->greedy_ids, r->n_greedy);
    json_write_key(&w, "greedy_logits");
    write_rows(&w, r->greedy_logits, r->n_greedy, g->vocab_size);
    if (r->layers) {
        json_write_key(&w, "layers");
        json_begin_array(&w);
        for (size_t l = 0; l < g->n_layers; l++)
            write_rows(&w, r->layers + l * r->n_prompt * g->hidden_size, r->n_prompt, g->hidden_size);
        json_end_array(&w);
    }
    json_write_key(&w, "kernels");
    json_begin_object(&w);
    for (int id = 0; id < N_KERNELS; id++) {
        int tier = r->model.backend->kernel_tier(r->model.compiled, id);
        if (tier < 0) continue;
        json_add_string(&w, kernel_name(id), kernel_tier_name((enum kernel_tier)tier));
    }
    json_end_object(&w);
    json_end_object(&w);
    buffer_putc(out, '\n');
}

/* The five best tokens of each row. */
static void write_text(struct run *r, struct buffer *out) {
    uint32_t vocab = r->model.graph.vocab_size;
    size_t n_prompt = options_flag(r->options, OPT_ALL) ? r->n_prompt : 1;
    for (size_t i = 0; i < n_prompt + r->n_greedy; i++) {
        const float *row = i < n_prompt ? r->logits + i * vocab : r->greedy_logits + (i - n_prompt) * vocab;
        if (i < n_prompt)
            buffer_printf(out, "position %zu:", r->n_prompt - n_prompt + i);
        else
            buffer_printf(out, "token %zu (%u):", i - n_prompt, r->greedy_ids[i - n_prompt]);
        uint32_t shown[5];
        for (uint32_t k = 0; k < 5 && k < vocab; k++) {
            shown[k] = UINT32_MAX;
            for (uint32_t v = 0; v < vocab; v++) {
                bool is_shown = false;
                for (uint32_t j = 0; j < k; j++) is_shown |= shown[j] == v;
                if (!is_shown && (shown[k] == UINT32_MAX || row[v] > row[shown[k]])) shown[k] = v;
            }
            buffer_printf(out, " %u %.6g", shown[k], (double)row[shown[k]]);
        }
        buffer_putc(out, '\n');
    }
}

static bool run_all(struct run *r, struct buffer *out, struct mx_error *err) {
    char path[4096];
    struct model_options options = {0};
    if (!load_model_path(r->options, path, sizeof path, err) || !read_prompt(r, path, err) ||
        !load_model_options(r->options, &options, err))
        return false;
    if (r->n_prompt + r->n_greedy > 1 << 24) return error_set(err, ERROR_USAGE, "more than 16,777,216 tokens");
    options.max_cells = (uint32_t)(r->n_prompt + r->n_greedy);
    options.max_rows = options.max_cells < 512 ? options.max_cells : 512;
    options.max_outputs = options_flag(r->options, OPT_ALL) ? 64 : 1;
    if (options.max_outputs > options.max_rows) options.max_outputs = options.max_rows;
    if (!model_open(&r->model, path, &options, err)) return false;
    if (!check_ids(r, err) || !allocate(r, err) || !batch_init(&r->batch, &r->model, err) ||
        !sequence_init(&r->sequence, &r->model, err) || !run_prompt(r, err) || !run_greedy(r, err))
        return false;
    if (checkpoint_is_damaged(&r->model.checkpoint, err)) return false;
    if (options_flag(r->options, OPT_JSON))
        write_json(r, out);
    else
        write_text(r, out);
    return !out->failed || error_memory(err, "output");
}

int command_logits(const struct options *options) {
    struct run r = {.options = options};
    struct buffer out = {0};
    struct mx_error err = {0};
    int status = 0;
    if (!run_all(&r, &out, &err))
        status = command_fail(&err);
    else
        status = command_print(&out);
    sequence_free(&r.sequence);
    batch_free(&r.batch);
    model_close(&r.model);
    free(r.prompt);
    free(r.forced);
    free(r.taps);
    free(r.layers);
    free(r.logits);
    free(r.greedy_ids);
    free(r.greedy_logits);
    buffer_free(&out);
    return status;
}
