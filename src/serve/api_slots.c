/* SPDX-License-Identifier: Apache-2.0 */
/* POST /slots/ID?action=save|restore|erase: conversations on disk.
 *
 * A file holds the conversation's tokens. Keys and values are not written: restoring computes them again into the prefix
 * cache, equal to the bit to what they were, so that the file is small and fits any settings. */
#include "serve/api_native.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "serve/server_parts.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = "mlxcels1";

struct slot_header {
    char magic[8];
    uint32_t vocab_size, n_tokens;
};

struct slot_extra {
    uint32_t slot;
    const char *name;
    size_t n_tokens, n_bytes;
};

/* The slot in the path, and the file's path in the arena where the action wants one. */
static bool find_slot(struct exchange *x, uint32_t *slot, struct problem *problem) {
    char *end;
    unsigned long n = strtoul(x->path_rest, &end, 10);
    if (end == x->path_rest || *end || n >= x->server->options->n_parallel)
        return problem_set(problem, 400, "id_slot", "'%.40s' is no slot; there are %u", x->path_rest,
                           x->server->options->n_parallel);
    *slot = (uint32_t)n;
    return true;
}

static bool find_file(struct exchange *x, const char **name, char **path, struct problem *problem) {
    const struct json *body = fields_parse_body(x, problem), *value = body ? field_get(body, "filename") : NULL;
    if (!body) return false;
    if (!x->server->options->slot_save_path)
        return problem_set(problem, 501, NULL, "slots are saved only with --slot-save-path");
    if (!json_is_string(value) || !path_is_plain_name(value->string, value->count) || value->count > 200)
        return problem_set(problem, 400, "filename", "'filename' must be a plain file name");
    *name = json_string_copy(&x->arena, value);
    *path = *name ? path_join(&x->arena, x->server->options->slot_save_path, *name) : NULL;
    return *path || problem_set(problem, 400, "filename", "'filename' must be a plain file name");
}

static void answer(struct exchange *x, const char *action, uint32_t slot, const char *name, size_t n_tokens,
                   size_t n_bytes, double ms) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    bool saves = !strcmp(action, "save");
    json_begin_object(&w);
    json_add_integer(&w, "id_slot", slot);
    json_add_string(&w, "filename", name);
    json_add_count(&w, saves ? "n_saved" : "n_restored", n_tokens);
    json_add_count(&w, saves ? "n_written" : "n_read", n_bytes);
    json_write_key(&w, "timings");
    json_begin_object(&w);
    json_add_real_as(&w, saves ? "save_ms" : "restore_ms", "%.3f", ms);
    json_end_object(&w);
    json_end_object(&w);
    exchange_reply_json(x, 200, &out);
}

static bool save(struct exchange *x, struct served *served, uint32_t slot, struct problem *problem) {
    const char *name;
    char *path;
    struct mx_error err;
    size_t n;
    if (!find_file(x, &name, &path, problem)) return false;
    uint32_t *tokens = served_copy_slot(served, slot, &n);
    if (!tokens) return problem_set(problem, 400, "id_slot", "slot %u is empty", slot);
    struct slot_header header = {.vocab_size = served->model.graph.vocab_size, .n_tokens = (uint32_t)n};
    struct buffer file = {0};
    memcpy(header.magic, magic, sizeof magic);
    buffer_append(&file, &header, sizeof header);
    buffer_append(&file, tokens, n * sizeof *tokens);
    bool ok = file.failed ? problem_set(problem, 500, NULL, "out of memory")
                          : file_write_atomic(path, file.data, file.length, &err) ||
                                problem_set(problem, 500, NULL, "the slot cannot be saved: %s", err.message);
    if (ok) answer(x, "save", slot, name, n, file.length, (double)(clock_now_ns() - x->arrived_ns) * 1e-6);
    free(tokens);
    buffer_free(&file);
    return ok;
}

/* ---- restoring: a request of one token, whose prompt goes into the prefix cache ---- */

static void end_restore(struct generation *g) {
    const struct slot_extra *e = g->extra;
    answer(g->exchange, "restore", e->slot, e->name, e->n_tokens, e->n_bytes,
           (double)(g->ended_ns - g->exchange->arrived_ns) * 1e-6);
}

static const struct answer_writer restore_writer = {.end = end_restore, .extra_bytes = sizeof(struct slot_extra)};

static bool read_tokens(struct generation *g, const char *path, struct slot_extra *e, struct problem *problem) {
    uint32_t vocab = g->served->model.graph.vocab_size;
    struct slot_header header = {0};
    struct mx_error err;
    char *file = file_read(path, 64 << 20, &e->n_bytes, &err);
    if (!file) return problem_set(problem, 404, "filename", "the slot cannot be read: %s", err.message);
    bool ok = e->n_bytes >= sizeof header;
    if (ok) memcpy(&header, file, sizeof header);
    ok = ok && !memcmp(header.magic, magic, sizeof magic) && header.n_tokens &&
         e->n_bytes == sizeof header + (size_t)header.n_tokens * sizeof(uint32_t);
    uint32_t *tokens = ok ? array_alloc(header.n_tokens, sizeof *tokens) : NULL;
    if (tokens) memcpy(tokens, file + sizeof header, header.n_tokens * sizeof *tokens);
    free(file);
    if (!ok) return problem_set(problem, 400, "filename", "this is no saved slot");
    if (!tokens) return problem_set(problem, 500, NULL, "out of memory");
    for (uint32_t i = 0; i < header.n_tokens; i++) ok = ok && tokens[i] < vocab;
    if (!ok || header.vocab_size != vocab)
        ok = problem_set(problem, 400, "filename", "the slot was saved from another model");
    e->n_tokens = header.n_tokens;
    ok = ok && generation_add_prompt(g, tokens, header.n_tokens, problem);
    free(tokens);
    return ok;
}

static bool restore(struct exchange *x, const char *model, uint32_t slot, struct problem *problem) {
    const char *name;
    char *path;
    if (!find_file(x, &name, &path, problem)) return false;
    struct generation *g = generation_create(x, model, &restore_writer, problem);
    if (!g) return false;
    struct slot_extra *e = g->extra;
    *e = (struct slot_extra){.slot = slot, .name = name};
    g->max_tokens = 1;
    g->slot = slot;
    g->remembers_prompt_only = true;
    return read_tokens(g, path, e, problem) && generation_submit(g, problem);
}

static void erase(struct exchange *x, struct served *served, uint32_t slot) {
    struct buffer out = {0};
    size_t n;
    free(served_copy_slot(served, slot, &n));
    served_keep_slot(served, slot, NULL, 0);
    buffer_printf(&out, "{\"id_slot\":%u,\"n_erased\":%zu}", slot, n);
    exchange_reply_json(x, 200, &out);
}

void api_slot_action(struct exchange *x) {
    const char *action = http_query(&x->head, "action", &x->arena), *model = http_query(&x->head, "model", &x->arena);
    struct problem problem;
    uint32_t slot = 0;
    bool ok = find_slot(x, &slot, &problem);
    if (ok && action && !strcmp(action, "restore")) {
        ok = restore(x, model, slot, &problem);
    } else if (ok && action && (!strcmp(action, "save") || !strcmp(action, "erase"))) {
        struct served *served = registry_acquire(&x->server->registry, model, &problem);
        ok = served != NULL;
        if (ok && *action == 's')
            ok = save(x, served, slot, &problem);
        else if (ok)
            erase(x, served, slot);
        if (served) registry_release(&x->server->registry, served);
    } else if (ok) {
        ok = problem_set(&problem, 400, "action", "'action' must be save, restore or erase");
    }
    if (!ok) api_fail(x, &problem);
}
