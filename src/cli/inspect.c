/* SPDX-License-Identifier: Apache-2.0 */
/* `mlxcel inspect`: what a model is and needs, from its config.json alone; with weights also what the loader did not use.
 * `mlxcel arch`: the table of families. */
#include "cli/commands.h"
#include "cli/load.h"

#include "base/file.h"
#include "base/memory.h"
#include "models/models.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct report {
    struct config config;
    struct checkpoint checkpoint;
    struct graph graph;
    bool has_weights;
    uint64_t parameters, active_parameters, weight_bytes, bytes_by_format[N_WEIGHT_FORMATS + 1],
        parameters_by_role[N_ROLES];
    uint64_t kv_bytes_token, kv_bytes_window, state_bytes; /* f16 pages; windows at their most */
    uint32_t context, batch;
    uint64_t plan_weights, plan_kv, plan_state, plan_work, plan_total, available;
    struct buffer unused, unread; /* names, one a line */
    size_t n_unused, n_unread;
};

enum { VECTOR_FORMAT = N_WEIGHT_FORMATS };

static const char *const role_names[N_ROLES] = {"embedding", "attention", "mlp",  "experts",
                                                "router",    "recurrent", "head", "vectors"};

/* How many of a model's experts one token uses, by the graph's routers. */
static uint32_t experts_used(const struct graph *g) {
    for (size_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == OP_ROUTE) return g->ops[i].router.top_k;
    return 0;
}

static void count_weights(struct report *r) {
    uint32_t used = experts_used(&r->graph);
    for (size_t i = 0; i < r->graph.weights.n; i++) {
        const struct weight *w = r->graph.weights.list[i];
        if (w->is_repeat) continue;
        uint64_t n = (uint64_t)w->n_rows * w->n_cols, all = n * (w->n_experts ? w->n_experts : 1);
        r->parameters += all;
        r->active_parameters += w->n_experts ? n * used : all;
        r->parameters_by_role[w->role] += all;
        r->weight_bytes += w->stored_bytes;
        r->bytes_by_format[w->matrices ? (int)w->matrices->format : (int)VECTOR_FORMAT] += w->stored_bytes;
    }
}

static void plan_memory(struct report *r) {
    const struct graph *g = &r->graph;
    for (size_t i = 0; i < g->n_groups; i++) {
        uint64_t page = cache_group_page_bytes(&g->groups[i], KV_F16);
        if (g->groups[i].policy == CACHE_FULL)
            r->kv_bytes_token += page / PAGE_CELLS;
        else
            r->kv_bytes_window += model_pages_for(&g->groups[i], r->context, 512) * page;
        r->plan_kv += (uint64_t)model_pages_for(&g->groups[i], r->context, 512) * page * r->batch;
    }
    r->state_bytes = g->state_floats * 4;
    r->plan_state = r->state_bytes * r->batch;
    r->plan_weights = r->weight_bytes;
    uint32_t widest = 0;
    for (size_t i = 0; i < g->n_values; i++)
        if (!g->values[i].is_output_domain && g->values[i].width > widest) widest = g->values[i].width;
    /* Buffers of a step of 512 rows: about four of the widest, and logits of 16 rows. */
    r->plan_work = 4ull * 512 * widest * 4 + 16ull * g->vocab_size * 4;
    r->plan_total = r->plan_weights + r->plan_kv + r->plan_state + r->plan_work;
    r->available = memory_available();
}

static void note_unused(void *context, const struct tensor *tensor) {
    struct report *r = context;
    r->n_unused++;
    buffer_printf(&r->unused, "%s\n", tensor->name);
}

static void note_unread(void *context, const char *key, size_t length) {
    struct report *r = context;
    r->n_unread++;
    buffer_printf(&r->unread, "%.*s\n", (int)length, key);
}

/* ---- output ---- */

static const char *size_text(uint64_t bytes, char *text, size_t room) {
    if (bytes >= 1ull << 30)
        snprintf(text, room, "%.2f GiB", (double)bytes / 0x1p30);
    else if (bytes >= 1 << 20)
        snprintf(text, room, "%.1f MiB", (double)bytes / 0x1p20);
    else if (bytes >= 1 << 10)
        snprintf(text, room, "%.1f KiB", (double)bytes / 0x1p10);
    else
        snprintf(text, room, "%llu bytes", (unsigned long long)bytes);
    return text;
}

static void row(struct buffer *out, const char *name, uint64_t bytes) {
    char text[40];
    buffer_printf(out, "  %-28s %s\n", name, size_text(bytes, text, sizeof text));
}

static void list_lines(struct buffer *out, const char *title, size_t n, const struct buffer *lines) {
    if (!n) return;
    buffer_printf(out, "%s (%zu):\n", title, n);
    for (const char *at = lines->data; at && *at;) {
        size_t length = strcspn(at, "\n");
        buffer_printf(out, "  %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static const char *format_name(int format) { return format == VECTOR_FORMAT ? "vectors" : weight_formats[format].name; }

static void write_table(const struct report *r, struct buffer *out) {
    const struct graph *g = &r->graph;
    buffer_printf(out, "model          %s, %u layers, hidden size %u, vocabulary %u, context %u\n",
                  config_string_or((struct config *)(uintptr_t)&r->config, "model_type", "?"), g->n_layers,
                  g->hidden_size, g->vocab_size, g->context_length);
    buffer_printf(out, "parameters     %.3f billion", (double)r->parameters / 1e9);
    if (r->active_parameters != r->parameters)
        buffer_printf(out, " (%.3f billion for one token)", (double)r->active_parameters / 1e9);
    const char *part = config_other_part(&r->config);
    buffer_puts(out, "\nsupported      yes");
    if (part) buffer_printf(out, ", its text part (%s is not used)", part);
    buffer_puts(out, "\n\nparameters by part\n");
    for (int i = 0; i < N_ROLES; i++)
        if (r->parameters_by_role[i])
            buffer_printf(out, "  %-28s %.1f million\n", role_names[i], (double)r->parameters_by_role[i] / 1e6);
    buffer_puts(out, "weights by format\n");
    for (int i = 0; i <= VECTOR_FORMAT; i++)
        if (r->bytes_by_format[i]) row(out, format_name(i), r->bytes_by_format[i]);
    buffer_puts(out, "caches\n");
    for (size_t i = 0; i < g->n_groups; i++) {
        const struct cache_group *c = &g->groups[i];
        buffer_printf(out, "  %u layers, %u heads of %u/%u, %s", c->n_entries, c->n_heads, c->key_dim, c->value_dim,
                      c->policy == CACHE_FULL     ? "every position"
                      : c->policy == CACHE_WINDOW ? "window "
                                                  : "chunks of ");
        if (c->policy != CACHE_FULL) buffer_printf(out, "%u", c->window);
        buffer_putc(out, '\n');
    }
    row(out, "a token (f16)", r->kv_bytes_token);
    if (r->kv_bytes_window) row(out, "windows of a sequence", r->kv_bytes_window);
    if (r->state_bytes) row(out, "state of a sequence", r->state_bytes);
    for (size_t i = 0; i < g->n_ropes; i++)
        if (g->ropes[i].kind != ROPE_PLAIN)
            buffer_printf(out, "  rope depends on the length: %s beyond %u positions\n",
                          g->ropes[i].kind == ROPE_LONG ? "other factors" : "a growing base",
                          g->ropes[i].original_length);
    buffer_printf(out, "memory for %u sequence%s of %u tokens\n", r->batch, r->batch == 1 ? "" : "s", r->context);
    row(out, "weights", r->plan_weights);
    row(out, "keys and values", r->plan_kv);
    if (r->plan_state) row(out, "recurrent state", r->plan_state);
    row(out, "working buffers", r->plan_work);
    row(out, "total", r->plan_total);
    row(out, "available now", r->available);
    buffer_printf(out, "  %s\n", r->plan_total <= r->available ? "fits" : "does not fit");
    list_lines(out, "tensors that are not used", r->n_unused, &r->unused);
    list_lines(out, "config keys that are not known", r->n_unread, &r->unread);
}

static void write_lines(struct json_writer *w, const char *key, const struct buffer *lines) {
    json_write_key(w, key);
    json_begin_array(w);
    for (const char *at = lines->data; at && *at;) {
        size_t length = strcspn(at, "\n");
        json_write_string_n(w, at, length);
        at += length + (at[length] == '\n');
    }
    json_end_array(w);
}

static void write_json(struct report *r, struct buffer *out) {
    struct json_writer w = {.out = out, .indent = 2};
    json_begin_object(&w);
    json_add_string(&w, "model_type", config_string_or(&r->config, "model_type", "?"));
    json_add_bool(&w, "supported", true); /* what is not ends in an error */
    const char *part = config_other_part(&r->config);
    json_write_key(&w, "unused_part");
    if (part)
        json_write_string(&w, part);
    else
        json_write_null(&w);
    json_add_count(&w, "layers", r->graph.n_layers);
    json_add_count(&w, "hidden_size", r->graph.hidden_size);
    json_add_count(&w, "vocab_size", r->graph.vocab_size);
    json_add_count(&w, "context_length", r->graph.context_length);
    json_add_count(&w, "parameters", r->parameters);
    json_add_count(&w, "active_parameters", r->active_parameters);
    json_write_key(&w, "parameters_by_part");
    json_begin_object(&w);
    for (int i = 0; i < N_ROLES; i++)
        if (r->parameters_by_role[i]) json_add_count(&w, role_names[i], r->parameters_by_role[i]);
    json_end_object(&w);
    json_add_count(&w, "weight_bytes", r->weight_bytes);
    json_write_key(&w, "weight_bytes_by_format");
    json_begin_object(&w);
    for (int i = 0; i <= VECTOR_FORMAT; i++)
        if (r->bytes_by_format[i]) json_add_count(&w, format_name(i), r->bytes_by_format[i]);
    json_end_object(&w);
    json_add_count(&w, "kv_bytes_per_token", r->kv_bytes_token);
    json_add_count(&w, "window_bytes_per_sequence", r->kv_bytes_window);
    json_add_count(&w, "state_bytes_per_sequence", r->state_bytes);
    json_write_key(&w, "memory");
    json_begin_object(&w);
    json_add_count(&w, "sequences", r->batch);
    json_add_count(&w, "tokens", r->context);
    json_add_count(&w, "weights", r->plan_weights);
    json_add_count(&w, "kv", r->plan_kv);
    json_add_count(&w, "state", r->plan_state);
    json_add_count(&w, "buffers", r->plan_work);
    json_add_count(&w, "total", r->plan_total);
    json_add_count(&w, "available", r->available);
    json_add_bool(&w, "fits", r->plan_total <= r->available);
    json_end_object(&w);
    json_add_bool(&w, "has_weights", r->has_weights);
    write_lines(&w, "unused_tensors", &r->unused);
    write_lines(&w, "unknown_config_keys", &r->unread);
    json_end_object(&w);
    buffer_putc(out, '\n');
}

/* Whether the folder holds weight files at all. */
static bool has_weight_files(const char *path) {
    struct arena arena = {0};
    char **names;
    size_t n = 0;
    bool found = file_is_directory(path) && folder_list(&arena, path, ".safetensors", &names, &n, NULL) && n;
    arena_free(&arena);
    return found;
}

static bool inspect(struct report *r, const struct options *options, struct buffer *out, struct mx_error *err) {
    char path[4096];
    if (!load_model_path(options, path, sizeof path, err) || !config_open(&r->config, path, err)) return false;
    r->has_weights = has_weight_files(path);
    if (r->has_weights && !checkpoint_open(&r->checkpoint, path, err)) return false;
    if (!model_build(&r->graph, &r->config, r->has_weights ? &r->checkpoint : NULL, err)) return false;
    checkpoint_report(&r->checkpoint);
    r->batch = (uint32_t)options_integer(options, OPT_BATCH);
    r->context = (uint32_t)options_integer(options, OPT_CONTEXT);
    if (r->context > r->graph.context_length) r->context = r->graph.context_length;
    count_weights(r);
    plan_memory(r);
    weights_unused(&r->graph.weights, note_unused, r);
    config_unread(&r->config, note_unread, r);
    if (options_flag(options, OPT_JSON))
        write_json(r, out);
    else
        write_table(r, out);
    return !out->failed || error_memory(err, "report");
}

int command_inspect(const struct options *options) {
    struct report r = {0};
    struct buffer out = {0};
    struct mx_error err = {0};
    int status = inspect(&r, options, &out, &err) ? command_print(&out) : command_fail(&err);
    buffer_free(&r.unused);
    buffer_free(&r.unread);
    buffer_free(&out);
    graph_free(&r.graph);
    checkpoint_close(&r.checkpoint);
    config_close(&r.config);
    return status;
}

int command_arch(const struct options *options) {
    (void)options;
    struct buffer out = {0};
    size_t n = 0;
    int name_width = 0, type_width = 0;
    for (const struct family *f = families; f->name; f++, n++) {
        int name = (int)strlen(f->name), types = (int)strlen(f->model_types);
        name_width = name > name_width ? name : name_width;
        type_width = types > type_width ? types : type_width;
    }
    buffer_printf(&out, "Supported model families (%zu):\n\n%-*s  %-*s  %s\n", n, name_width, "family", type_width,
                  "model_type", "made of");
    for (const struct family *f = families; f->name; f++)
        buffer_printf(&out, "%-*s  %-*s  %s\n", name_width, f->name, type_width, f->model_types, f->blocks);
    buffer_puts(&out, "\nweight formats:");
    for (int i = 0; i < N_WEIGHT_FORMATS; i++) buffer_printf(&out, " %s", weight_formats[i].name);
    buffer_putc(&out, '\n');
    int status = command_print(&out);
    buffer_free(&out);
    return status;
}
