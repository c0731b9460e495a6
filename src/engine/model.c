/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/model.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* Models have a handful; so many that looking each up takes long are a fault of the file. */
enum { MAX_STOP_IDS = 4096 };

static bool add_stop_ids(struct model *m, const struct json *value, struct mx_error *err) {
    uint32_t n = json_is_array(value) ? value->count : 1;
    if (n > MAX_STOP_IDS)
        return error_set(err, ERROR_LIMIT, "eos_token_id lists %u tokens, at most %d are read", n, MAX_STOP_IDS);
    for (uint32_t i = 0; i < n; i++) {
        int64_t id = json_integer(json_is_array(value) ? &value->items[i] : value, -1);
        if (id < 0 || id > INT32_MAX || model_is_stop_id(m, (uint32_t)id)) continue;
        uint32_t *grown = realloc(m->stop_ids, (m->n_stop_ids + 1) * sizeof *grown);
        if (!grown) return error_memory(err, "stop ids");
        m->stop_ids = grown;
        m->stop_ids[m->n_stop_ids++] = (uint32_t)id;
    }
    return true;
}

static double number_or(const struct json *object, const char *key, double fallback) {
    double x = json_number(json_get(object, key), fallback);
    return x >= 0 && x < 1e9 ? x : fallback;
}

static void read_denoising(struct model *m, const struct json *root) {
    struct denoising *d = &m->denoising;
    double usual = m->graph.diffusion.kind == DIFFUSION_MASK ? m->graph.diffusion.block_length : 48;
    d->max_steps = (uint32_t)number_or(root, "max_denoising_steps", usual);
    if (!d->max_steps) d->max_steps = 1;
    d->t_min = number_or(root, "t_min", 0.4);
    d->t_max = number_or(root, "t_max", 0.8);
    d->entropy_bound = number_or(json_get(root, "sampler_config"), "entropy_bound", 0.1);
    d->entropy_bound = number_or(root, "entropy_bound", d->entropy_bound);
    d->stops_early = json_get(root, "stability_threshold") || json_get(root, "confidence_threshold");
    d->stability = (uint32_t)number_or(root, "stability_threshold", 1);
    d->confidence = number_or(root, "confidence_threshold", 0.005);
}

/* generation_config.json is optional; what is wrong in it is an error all the same. */
static bool read_generation_config(struct model *m, struct mx_error *err) {
    struct arena arena = {0};
    char *path = path_join(&arena, m->folder, "generation_config.json"), *text = NULL;
    size_t length;
    bool ok = path != NULL || error_memory(err, m->folder);
    read_denoising(m, NULL);
    if (ok && file_exists(path)) {
        text = file_read(path, 1 << 20, &length, err);
        const struct json *root = text ? json_parse(&arena, text, length, JSON_ALLOW_NAN, 64, err) : NULL;
        ok = root != NULL;
        if (text && !root) error_prefix(err, "%s", path);
        if (ok) read_denoising(m, root);
        ok = ok && add_stop_ids(m, json_get(root, "eos_token_id"), err);
    }
    ok = ok && add_stop_ids(m, json_get(m->config.root, "eos_token_id"), err) &&
         add_stop_ids(m, json_get(m->config.text, "eos_token_id"), err);
    free(text);
    arena_free(&arena);
    return ok;
}

uint32_t model_pages_for(const struct cache_group *group, uint32_t cells, uint32_t max_rows) {
    if (group->policy != CACHE_FULL && cells > (uint64_t)group->window + max_rows) cells = group->window + max_rows;
    /* A window may begin and a step may end inside a page. */
    return cells / PAGE_CELLS + (group->policy == CACHE_FULL ? 1 : 2);
}

static void fill_defaults(struct model *m) {
    struct model_options *o = &m->options;
    uint32_t context = m->graph.context_length;
    if (o->tier < 0) o->tier = (int)kernels_best_tier();
    if (o->n_threads <= 0) o->n_threads = pool_default_threads();
    if (!o->max_sequences) o->max_sequences = 1;
    if (!o->max_cells) o->max_cells = context;
    uint32_t block = m->graph.diffusion.block_length;
    if (block) o->max_cells += block; /* a block may reach beyond the last token that is wanted */
    if (!o->max_rows) o->max_rows = 512;
    if (o->max_rows > o->max_cells && o->max_sequences == 1) o->max_rows = o->max_cells;
    if (!o->max_outputs) o->max_outputs = o->max_sequences < 16 ? 16 : o->max_sequences;
    if (o->max_rows < block) o->max_rows = block;
    if (o->max_outputs < block) o->max_outputs = block;
    if (o->max_outputs > o->max_rows) o->max_outputs = o->max_rows;
}

static bool compile(struct model *m, struct mx_error *err) {
    size_t n_groups = m->graph.n_groups;
    uint32_t *n_pages = array_calloc(n_groups, sizeof *n_pages);
    if (!n_pages) return error_memory(err, "page counts");
    const struct model_options *o = &m->options;
    uint32_t n_states = m->graph.state_floats ? o->max_sequences + o->n_snapshots : 0;
    uint64_t state_bytes = m->graph.state_floats * 4 * n_states, page_bytes = 0;
    enum kv_format format = o->precision == PRECISION_EXACT ? KV_F32 : KV_F16;
    for (size_t g = 0; g < n_groups; g++) {
        n_pages[g] = model_pages_for(&m->graph.groups[g], o->max_cells, o->max_rows) * o->max_sequences;
        /* A snapshot may hold back the pages of one window. */
        if (m->graph.groups[g].policy == CACHE_FULL)
            n_pages[g] += o->n_cache_pages;
        else
            n_pages[g] += o->n_snapshots * (m->graph.groups[g].window / PAGE_CELLS + 2);
        page_bytes += n_pages[g] * cache_group_page_bytes(&m->graph.groups[g], format);
    }
    bool ok = true;
    if (o->cache_bytes && page_bytes + state_bytes > o->cache_bytes) {
        double share = o->cache_bytes > state_bytes ? (double)(o->cache_bytes - state_bytes) / (double)page_bytes : 0;
        for (size_t g = 0; g < n_groups && ok; g++) {
            uint32_t least = model_pages_for(&m->graph.groups[g], PAGE_CELLS, o->max_rows);
            n_pages[g] = (uint32_t)(share * n_pages[g]);
            if (n_pages[g] < least)
                ok = error_set(err, ERROR_MEMORY, "a cache budget of %llu bytes is too small for this model",
                               (unsigned long long)o->cache_bytes);
        }
    }
    struct backend_options options = {.precision = o->precision,
                                      .tier = (enum kernel_tier)o->tier,
                                      .pool = m->pool,
                                      .max_rows = o->max_rows,
                                      .max_outputs = o->max_outputs,
                                      .n_pages = n_pages,
                                      .n_state_slots = n_states};
    ok = ok && (m->compiled = m->backend->compile(&m->plan, &options, err)) != NULL &&
         store_init(&m->store, (uint32_t)n_groups, n_pages, n_states, err);
    free(n_pages);
    return ok;
}

bool model_open(struct model *m, const char *folder, const struct model_options *options, struct mx_error *err) {
    *m = (struct model){.options = *options, .backend = &cpu_backend};
    m->folder = strdup(folder);
    bool ok = m->folder != NULL || error_memory(err, folder);
    ok = ok && config_open(&m->config, folder, err) && checkpoint_open(&m->checkpoint, folder, err) &&
         model_build(&m->graph, &m->config, &m->checkpoint, err) && read_generation_config(m, err);
    if (ok) {
        fill_defaults(m);
        ok = plan_create(&m->plan, &m->graph, FUSE_ALL & ~m->options.disabled_fusions, err) &&
             (m->pool = pool_create(m->options.n_threads, err)) != NULL && compile(m, err);
    }
    m->is_open = true;
    const char *part = ok ? config_other_part(&m->config) : NULL;
    if (ok) checkpoint_report(&m->checkpoint);
    if (part) log_line(LOG_INFO, "%s: only the text part of the model runs (%s is not used)", folder, part);
    if (!ok) model_close(m);
    return ok;
}

void model_close(struct model *m) {
    if (!m->is_open) return;
    if (m->compiled) m->backend->release(m->compiled);
    store_free(&m->store);
    pool_destroy(m->pool);
    plan_free(&m->plan);
    graph_free(&m->graph);
    checkpoint_close(&m->checkpoint);
    config_close(&m->config);
    free(m->stop_ids);
    free(m->folder);
    *m = (struct model){0};
}

bool model_is_stop_id(const struct model *m, uint32_t id) {
    for (size_t i = 0; i < m->n_stop_ids; i++)
        if (m->stop_ids[i] == id) return true;
    return false;
}
