/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel-bench-decode`: prefill and decode rates of one model in one process, as shares of what the machine allows.
 *
 * Order: load, warm-up pass (fresh caches), measured passes (fresh caches each). Before and after every measured pass the
 * walls are measured for a moment (kernels/walls.h), since a shared machine changes its speed. Counted are the bytes that
 * a decode step must read (weights once, experts as routed, keys and values of the positions so far, recurrent state) and
 * the multiply-adds of the prompt's matrix products (two operations each; the head for one row). End tokens are ignored, so
 * that the number of tokens is that asked for; decode rate = tokens after the first over the time after it. With --depth a second prompt of that length
 * gives the decode rate, and the first pass what a token costs without that depth: the difference is the time of the keys
 * and values alone. */
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/synth.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "kernels/walls.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REPEATS = 100 };

struct bench {
    const struct options *options;
    struct session session;
    char synthetic[4096]; /* temporary folder of --synthetic; "" = none */
    uint32_t *prompt, *deep;
    size_t n_prompt, n_deep, n_tokens, n_warm, n_batch, n_repeats;
    struct walls *walls;
    double load_s;
    /* of the running pass */
    double start_s, first_s, last_s, all_started_s;
    size_t n_first, n_finished, n_after_all_started;
    struct mx_error failure;
    /* of each repeat */
    double prefill_s[MAX_REPEATS], decode_tok_s[MAX_REPEATS], read_gb_s[MAX_REPEATS], int8_gop_s[MAX_REPEATS];
    double decode_share[MAX_REPEATS], prefill_share[MAX_REPEATS];
    double shallow_tok_s[MAX_REPEATS], depth_gb_s[MAX_REPEATS], depth_share[MAX_REPEATS]; /* with --depth */
};

/* ---- what a step needs ---- */

/* Bytes of weights that a decode step of n rows reads; of n rows' experts the expected number of different ones. */
static double weight_bytes(const struct graph *g, size_t n_rows) {
    double bytes = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        if (!op_is_matmul(op->kind)) continue;
        for (uint32_t p = 0; p < op->matmul.n_parts; p++) {
            const struct weight *w = op->matmul.parts[p].weight;
            double one = (double)(matrix_code_bytes(w->matrices) + matrix_scale_bytes(w->matrices)), n = 1;
            if (w->n_experts) n = w->n_experts * (1 - pow(1 - (double)op->matmul.top_k / w->n_experts, (double)n_rows));
            bytes += one * n;
        }
    }
    return bytes;
}

/* Multiply-adds for one prompt row; *head receives those of the output matrix. */
static double row_products(const struct graph *g, double *head) {
    double products = 0;
    *head = 0;
    for (size_t i = 0; i < g->n_ops; i++) {
        const struct op *op = &g->ops[i];
        if (!op_is_matmul(op->kind)) continue;
        bool is_head = g->values[op->out.id].is_output_domain;
        for (uint32_t p = 0; p < op->matmul.n_parts; p++) {
            const struct weight *w = op->matmul.parts[p].weight;
            double n = (double)w->n_rows * w->n_cols * (w->n_experts ? op->matmul.top_k : 1);
            *(is_head ? head : &products) += n;
        }
    }
    return products;
}

/* Bytes of keys, values and state that a decode step of one sequence reads at a depth. */
static double cache_bytes(const struct model *m, double depth) {
    double bytes = (double)m->graph.state_floats * 4;
    enum kv_format format = m->options.precision == PRECISION_EXACT ? KV_F32 : KV_F16;
    for (size_t g = 0; g < m->graph.n_groups; g++) {
        const struct cache_group *group = &m->graph.groups[g];
        double cells = group->policy != CACHE_FULL && depth > group->window ? group->window : depth;
        bytes += cells * (double)cache_group_page_bytes(group, format) / PAGE_CELLS;
    }
    return bytes;
}

/* ---- passes ---- */

static enum verdict on_event(void *context, const struct engine_event *event) {
    struct bench *b = context;
    double now = walls_now(b->walls);
    if (event->kind == EVENT_TOKEN) {
        if (event->n_generated == 1) {
            if (!b->n_first++) b->first_s = now;
            if (b->n_first == b->n_batch) b->all_started_s = now;
        } else if (b->n_first == b->n_batch) {
            b->n_after_all_started++;
        }
        b->last_s = now;
    }
    if (event->kind == EVENT_FINISHED) {
        b->n_finished++;
        if (event->error) b->failure = *event->error;
    }
    return session_was_interrupted() ? VERDICT_STOP : VERDICT_GO_ON;
}

/* n_batch equal requests to their end. */
static bool run_pass(struct bench *b, const uint32_t *prompt, size_t n_prompt, size_t n_tokens, struct mx_error *err) {
    struct engine_request request = {.prompt = prompt,
                                     .n_prompt = n_prompt,
                                     .max_tokens = (int64_t)n_tokens,
                                     .sampling = sampling_defaults(),
                                     .on_event = on_event,
                                     .context = b};
    request.sampling.ignore_eos = true;
    b->n_first = b->n_finished = b->n_after_all_started = 0;
    b->start_s = walls_now(b->walls);
    for (size_t i = 0; i < b->n_batch; i++) {
        uint64_t id;
        if (!engine_submit(b->session.engine, &request, &id, err)) return false;
    }
    while (b->n_finished < b->n_batch) engine_step(b->session.engine);
    if (b->failure.code) *err = b->failure;
    if (session_was_interrupted()) return error_set(err, ERROR_CANCELLED, "interrupted");
    return !b->failure.code;
}

static double median(const double *values, size_t n) {
    double sorted[MAX_REPEATS];
    memcpy(sorted, values, n * sizeof *values);
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && sorted[j] < sorted[j - 1]; j--) {
            double t = sorted[j];
            sorted[j] = sorted[j - 1];
            sorted[j - 1] = t;
        }
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Seconds and bytes of a decode step of the last pass. */
static void decode_step(const struct bench *b, size_t depth, double *seconds, double *bytes) {
    double steps = (double)b->n_after_all_started / (double)b->n_batch, mean_depth = (double)depth + steps / 2;
    *seconds = (b->last_s - b->all_started_s) / steps;
    *bytes = weight_bytes(&b->session.model.graph, b->n_batch) +
             (double)b->n_batch * cache_bytes(&b->session.model, mean_depth);
}

/* One measured pass, between slices of the walls. */
static bool measure(struct bench *b, size_t repeat, struct mx_error *err) {
    const struct graph *g = &b->session.model.graph;
    double head, products = row_products(g, &head), read = walls_read_gb_s(b->walls, 0.15);
    double int8 = walls_int8_gop_s(b->walls, 0.1), seconds = 0, bytes = 0;
    if (!run_pass(b, b->prompt, b->n_prompt, b->n_tokens, err)) return false;
    b->prefill_s[repeat] = b->first_s - b->start_s;
    if (b->n_batch > 1) b->prefill_s[repeat] = (b->all_started_s - b->start_s) / (double)b->n_batch;
    int8 = (int8 + walls_int8_gop_s(b->walls, 0.1)) / 2;
    bool has_steps = b->n_after_all_started > 0;
    if (has_steps) decode_step(b, b->n_prompt, &seconds, &bytes);
    if (b->n_deep) {
        double shallow_s = seconds, shallow_bytes = bytes;
        if (!run_pass(b, b->deep, b->n_deep, b->n_tokens, err)) return false;
        has_steps = has_steps && b->n_after_all_started > 0;
        if (has_steps) {
            decode_step(b, b->n_deep, &seconds, &bytes);
            b->shallow_tok_s[repeat] = (double)b->n_batch / shallow_s;
            if (seconds > shallow_s) b->depth_gb_s[repeat] = 1e-9 * (bytes - shallow_bytes) / (seconds - shallow_s);
        }
    }
    read = (read + walls_read_gb_s(b->walls, 0.15)) / 2;
    b->read_gb_s[repeat] = read;
    b->int8_gop_s[repeat] = int8;
    b->prefill_share[repeat] = 2e-9 * (products * (double)b->n_prompt + head) / b->prefill_s[repeat] / int8;
    if (!has_steps) return true;
    b->decode_tok_s[repeat] = (double)b->n_batch / seconds;
    b->decode_share[repeat] = bytes / seconds * 1e-9 / read;
    b->depth_share[repeat] = b->depth_gb_s[repeat] / read;
    return true;
}

/* ---- set-up ---- */

/* One paragraph, repeated and cut, as a prompt of exactly n tokens. */
static bool long_prompt(struct bench *b, size_t n, uint32_t **ids, struct mx_error *err) {
    static const char paragraph[] =
        "Two numbers describe how fast a language model answers: how many tokens of the prompt it takes in each second "
        "before the first word appears, and how many words it then writes each second. The first is bound by "
        "arithmetic, "
        "since all tokens of the prompt are worked on together; the second by memory, since every new token needs "
        "every "
        "weight once. Both must be measured on the same machine, warm, several times, and told with what they are "
        "compared to.\n\n";
    struct token_list tokens = {0};
    struct buffer text = {0};
    *ids = array_calloc(n, sizeof **ids);
    bool ok = *ids != NULL || error_memory(err, "prompt");
    if (!b->session.tokenizer) {
        uint64_t state = 1;
        for (size_t i = 0; i < n && ok; i++)
            (*ids)[i] = (uint32_t)(rng_next(&state) % b->session.model.graph.vocab_size);
        return ok;
    }
    while (ok && tokens.count < n) {
        for (size_t i = 0; i < n / 60 + 4; i++) buffer_puts(&text, paragraph);
        ok = !text.failed &&
             tokenizer_encode(b->session.tokenizer, text.data, text.length, TOKENIZE_SPECIAL, &tokens, err);
    }
    if (ok) memcpy(*ids, tokens.ids, n * sizeof **ids);
    token_list_free(&tokens);
    buffer_free(&text);
    return ok;
}

static bool make_prompts(struct bench *b, struct mx_error *err) {
    size_t wanted = (size_t)options_integer(b->options, OPT_PROMPT_TOKENS);
    const char *text = options_text(b->options, OPT_PROMPT);
    if (!wanted && !text) wanted = 512; /* of a synthetic model */
    b->n_deep = (size_t)options_integer(b->options, OPT_DEPTH);
    if (b->n_deep && !long_prompt(b, b->n_deep, &b->deep, err)) return false;
    if (wanted) {
        b->n_prompt = wanted;
        return long_prompt(b, wanted, &b->prompt, err);
    }
    struct token_list tokens = {0};
    if (!session_encode_prompt(&b->session, b->options, text, &tokens, err)) return false;
    b->prompt = tokens.ids;
    b->n_prompt = tokens.count;
    tokens.ids = NULL;
    token_list_free(&tokens);
    return true;
}

static bool make_synthetic(struct bench *b, const char *config, struct mx_error *err) {
    const char *base = getenv("TMPDIR");
    snprintf(b->synthetic, sizeof b->synthetic, "%s/mlxcel-bench-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(b->synthetic)) {
        b->synthetic[0] = '\0';
        return error_set(err, ERROR_IO, "cannot make a temporary folder for the synthetic model");
    }
    snprintf(b->session.path, sizeof b->session.path, "%s", b->synthetic);
    return synth_write(config, options_text(b->options, OPT_QUANT), 1, b->synthetic, err);
}

/* As soon as the files are mapped: then nothing stays behind however the program ends. */
static void remove_synthetic(struct bench *b) {
    char path[4200];
    static const char *const names[] = {"model.safetensors", "config.json"};
    for (size_t i = 0; i < 2 && b->synthetic[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", b->synthetic, names[i]);
        unlink(path);
    }
    if (b->synthetic[0]) rmdir(b->synthetic);
    b->synthetic[0] = '\0';
}

static bool open_model(struct bench *b, struct mx_error *err) {
    struct model_options m = {.max_sequences = (uint32_t)b->n_batch};
    struct engine_options e = {0};
    size_t prompt = (size_t)options_integer(b->options, OPT_PROMPT_TOKENS);
    size_t deep = (size_t)options_integer(b->options, OPT_DEPTH);
    if (prompt < 4096) prompt = 4096; /* a prompt given as text is not encoded yet */
    m.max_cells = (uint32_t)((prompt > deep ? prompt : deep) + b->n_tokens + b->n_warm + 1);
    uint64_t start = clock_now_ns();
    if (!load_model_options(b->options, &m, err) || !model_open(&b->session.model, b->session.path, &m, err))
        return false;
    b->load_s = clock_seconds_since(start);
    if (b->session.tokenizer) e.n_tokens = (uint32_t)tokenizer_vocab_size(b->session.tokenizer);
    b->session.engine = engine_create(&b->session.model, &e, err);
    return b->session.engine != NULL;
}

/* The largest mapped weight file, for the read wall. */
static bool open_walls(struct bench *b, struct mx_error *err) {
    const struct file_map *map = NULL;
    for (size_t i = 0; i < b->session.model.checkpoint.n_files; i++) {
        const struct file_map *other = &b->session.model.checkpoint.files[i].map;
        if (!map || other->size > map->size) map = other;
    }
    bool is_large = map && map->size >= (size_t)64 << 20;
    b->walls = walls_create(b->session.model.pool, (enum kernel_tier)b->session.model.options.tier,
                            is_large ? map->data : NULL, is_large ? map->size : 0, err);
    return b->walls != NULL;
}

static double peak_gb(void) {
    char line[200];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    return (double)kib * 1024e-9;
}

/* A prompt as text needs tokenizer and template; for --prompt-tokens random ids will do where a folder has none. */
static bool open_text(struct bench *b, struct mx_error *err) {
    struct mx_error ignored;
    if (options_is_set(b->options, OPT_PROMPT)) return session_open_text(&b->session, b->options, err);
    if (!load_model_path(b->options, b->session.path, sizeof b->session.path, err)) return false;
    b->session.tokenizer = tokenizer_open(b->session.path, &ignored);
    return true;
}

static bool run(struct bench *b, struct mx_error *err) {
    const char *config = options_text(b->options, OPT_SYNTHETIC);
    b->n_tokens = (size_t)options_integer(b->options, OPT_BENCH_TOKENS);
    b->n_warm = (size_t)options_integer(b->options, OPT_WARMUP_TOKENS);
    b->n_batch = (size_t)options_integer(b->options, OPT_BATCH);
    b->n_repeats = (size_t)options_integer(b->options, OPT_REPEAT);
    if (config && options_is_set(b->options, OPT_MODEL))
        return error_set(err, ERROR_USAGE, "give one of --model and --synthetic");
    if (config && options_is_set(b->options, OPT_PROMPT))
        return error_set(err, ERROR_USAGE,
                         "a synthetic model has no tokenizer: give --prompt-tokens instead of --prompt");
    if (!config && options_is_set(b->options, OPT_QUANT))
        return error_set(err, ERROR_USAGE, "--quant is for --synthetic: a checkpoint has its own format");
    if (!config && !options_is_set(b->options, OPT_PROMPT) && !options_is_set(b->options, OPT_PROMPT_TOKENS))
        return error_set(err, ERROR_USAGE, "give --prompt TEXT or --prompt-tokens N");
    if (config ? !make_synthetic(b, config, err) : !open_text(b, err)) return false;
    if (!open_model(b, err)) return false;
    remove_synthetic(b);
    if (!options_flag(b->options, OPT_JSON)) {
        printf("[Load] wall: %.3f s  peak: %.2f GB\n", b->load_s, peak_gb());
        fflush(stdout);
    }
    if (!make_prompts(b, err) || !open_walls(b, err)) return false;
    if (options_flag(b->options, OPT_PROCESSOR_TIME)) walls_count_processor_time(b->walls);
    if (b->n_warm && !run_pass(b, b->prompt, b->n_prompt, b->n_warm, err)) return false;
    for (size_t i = 0; i < b->n_repeats; i++)
        if (!measure(b, i, err)) return false;
    return true;
}

/* ---- output ---- */

static void cpu_name(char *name, size_t room) {
    char line[300];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, room, "unknown");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(name, room, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2);
            break;
        }
    if (file) fclose(file);
}

static void write_text(const struct bench *b, struct buffer *out) {
    double prefill = median(b->prefill_s, b->n_repeats), decode = median(b->decode_tok_s, b->n_repeats);
    double read = median(b->read_gb_s, b->n_repeats), int8 = median(b->int8_gop_s, b->n_repeats);
    buffer_printf(out, "[Profile Results]%s\n", b->n_repeats > 1 ? " (medians)" : "");
    buffer_printf(out, "  Prompt tokens:    %zu\n  Generated tokens: %zu\n", b->n_prompt, b->n_tokens);
    buffer_printf(out, "  Prefill:          %.2f ms (%.2f tok/s)\n", prefill * 1e3, (double)b->n_prompt / prefill);
    buffer_printf(out, "  Decode:           %.2f ms (%.2f tok/s)\n",
                  decode > 0 ? 1e3 * (double)((b->n_tokens - 1) * b->n_batch) / decode : 0.0, decode);
    if (b->n_deep)
        buffer_printf(out, "  Without depth:    %.2f tok/s; keys and values at %.1f GB/s (%.1f %% of the read wall)\n",
                      median(b->shallow_tok_s, b->n_repeats), median(b->depth_gb_s, b->n_repeats),
                      100 * median(b->depth_share, b->n_repeats));
    buffer_printf(out, "  Peak memory:      %.2f GB\n", peak_gb());
    buffer_printf(out, "  Read wall:        %.1f GB/s (%s); decode reaches %.1f %%\n", read, walls_read_way(b->walls),
                  100 * median(b->decode_share, b->n_repeats));
    buffer_printf(out, "  int8 wall:        %.0f GOP/s; prefill reaches %.1f %%\n", int8,
                  100 * median(b->prefill_share, b->n_repeats));
}

static void write_real(struct json_writer *w, const char *key, double value) {
    json_add_real_as(w, key, "%.6g", value);
}

static void write_row(struct json_writer *w, const struct bench *b, size_t i) {
    json_begin_object(w);
    write_real(w, "prefill_ms", b->prefill_s[i] * 1e3);
    write_real(w, "prefill_tok_s", (double)b->n_prompt / b->prefill_s[i]);
    write_real(w, "decode_tok_s", b->decode_tok_s[i]);
    write_real(w, "wall_read_gb_s", b->read_gb_s[i]);
    write_real(w, "wall_int8_gop_s", b->int8_gop_s[i]);
    write_real(w, "decode_wall_share", b->decode_share[i]);
    write_real(w, "prefill_wall_share", b->prefill_share[i]);
    if (b->n_deep) {
        write_real(w, "shallow_decode_tok_s", b->shallow_tok_s[i]);
        write_real(w, "depth_gb_s", b->depth_gb_s[i]);
        write_real(w, "depth_wall_share", b->depth_share[i]);
    }
    json_end_object(w);
}

static void write_json(const struct bench *b, struct buffer *out) {
    struct json_writer w = {.out = out, .indent = 1};
    const struct model *m = &b->session.model;
    char cpu[200];
    cpu_name(cpu, sizeof cpu);
    double head, products = row_products(&m->graph, &head);
    json_begin_object(&w);
    json_write_key(&w, "machine");
    json_begin_object(&w);
    json_add_string(&w, "cpu", cpu);
    json_add_count(&w, "threads", (size_t)m->options.n_threads);
    json_add_string(&w, "tier", kernel_tier_name((enum kernel_tier)m->options.tier));
    json_add_string(&w, "read_way", walls_read_way(b->walls));
    json_end_object(&w);
    json_write_key(&w, "build");
    json_begin_object(&w);
    json_add_string(&w, "version", MLXCEL_VERSION);
    json_add_string(&w, "compiler", __VERSION__);
    json_end_object(&w);
    json_write_key(&w, "flags");
    json_begin_object(&w);
    const char *synthetic = options_text(b->options, OPT_SYNTHETIC);
    json_add_string(&w, synthetic ? "synthetic" : "model", synthetic ? synthetic : b->session.path);
    if (synthetic) json_add_string(&w, "quant", options_text(b->options, OPT_QUANT));
    json_add_string(&w, "precision", m->options.precision == PRECISION_EXACT ? "exact" : "fast");
    json_add_count(&w, "prompt_tokens", b->n_prompt);
    json_add_count(&w, "generated_tokens", b->n_tokens);
    json_add_count(&w, "warmup_tokens", b->n_warm);
    json_add_count(&w, "batch", b->n_batch);
    json_add_count(&w, "depth", b->n_deep);
    json_add_count(&w, "repeat", b->n_repeats);
    json_add_string(&w, "time", options_flag(b->options, OPT_PROCESSOR_TIME) ? "processor" : "wall");
    json_end_object(&w);
    write_real(&w, "load_s", b->load_s);
    write_real(&w, "peak_memory_gb", peak_gb());
    write_real(&w, "weight_bytes_per_step", weight_bytes(&m->graph, b->n_batch));
    write_real(&w, "multiply_adds_per_prompt_token", products);
    json_write_key(&w, "results");
    json_begin_array(&w);
    for (size_t i = 0; i < b->n_repeats; i++) write_row(&w, b, i);
    json_end_array(&w);
    json_write_key(&w, "median");
    json_begin_object(&w);
    write_real(&w, "prefill_tok_s", (double)b->n_prompt / median(b->prefill_s, b->n_repeats));
    write_real(&w, "decode_tok_s", median(b->decode_tok_s, b->n_repeats));
    write_real(&w, "wall_read_gb_s", median(b->read_gb_s, b->n_repeats));
    write_real(&w, "wall_int8_gop_s", median(b->int8_gop_s, b->n_repeats));
    write_real(&w, "decode_wall_share", median(b->decode_share, b->n_repeats));
    write_real(&w, "prefill_wall_share", median(b->prefill_share, b->n_repeats));
    if (b->n_deep) {
        write_real(&w, "shallow_decode_tok_s", median(b->shallow_tok_s, b->n_repeats));
        write_real(&w, "depth_gb_s", median(b->depth_gb_s, b->n_repeats));
        write_real(&w, "depth_wall_share", median(b->depth_share, b->n_repeats));
    }
    json_end_object(&w);
    json_end_object(&w);
    buffer_putc(out, '\n');
}

int command_bench_decode(const struct options *options) {
    struct bench *b = calloc(1, sizeof *b);
    struct mx_error err = {0};
    struct buffer out = {0};
    int status;
    if (!b) {
        error_memory(&err, "benchmark");
        return command_fail(&err);
    }
    b->options = options;
    session_catch_interrupt();
    if (run(b, &err)) {
        if (options_flag(options, OPT_JSON))
            write_json(b, &out);
        else
            write_text(b, &out);
        status = command_print(&out);
    } else {
        status = command_fail(&err);
    }
    walls_destroy(b->walls);
    session_close(&b->session);
    remove_synthetic(b);
    free(b->prompt);
    free(b->deep);
    free(b);
    buffer_free(&out);
    return status;
}
