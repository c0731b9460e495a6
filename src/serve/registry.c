/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/registry.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

#include <limits.h>
#include <string.h>

/* ---- names ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool list_has(const char *list, const char *name, size_t length) {
    while (list && *list) {
        size_t n = strcspn(list, ",");
        if (n == length && !memcmp(list, name, n)) return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* The name itself, an alias, the folder's path, or any of these with ollama's ":latest". */
static bool answers_to(const struct registry_entry *e, const char *name) {
    size_t n = strlen(name);
    if (n > 7 && !strcmp(name + n - 7, ":latest")) n -= 7;
    return (strlen(e->name) == n && !memcmp(e->name, name, n)) || list_has(e->aliases, name, n) ||
           !strcmp(e->path, name);
}

static struct registry_entry *find(struct registry *r, const char *name) {
    if (!name || !*name) return r->n_entries ? &r->entries[0] : NULL;
    for (size_t i = 0; i < r->n_entries; i++)
        if (answers_to(&r->entries[i], name)) return &r->entries[i];
    return NULL;
}

/* ---- loading, with the lock held but for the work itself ---- */

static size_t count_loaded(const struct registry *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        n += r->entries[i].state == ENTRY_LOADED || r->entries[i].state == ENTRY_LOADING ||
             r->entries[i].state == ENTRY_UNLOADING;
    return n;
}

static void unload(struct registry *r, struct registry_entry *e) {
    struct served *served = e->served;
    e->state = ENTRY_UNLOADING;
    e->served = NULL;
    pthread_mutex_unlock(&r->lock);
    served_close(served);
    pthread_mutex_lock(&r->lock);
    e->state = ENTRY_UNLOADED;
    pthread_cond_broadcast(&r->changed);
}

/* Unloads what was not used for the longest time. False when everything is in use. */
static bool make_room(struct registry *r) {
    struct registry_entry *oldest = NULL;
    for (size_t i = 0; i < r->n_entries; i++) {
        struct registry_entry *e = &r->entries[i];
        if (e->state != ENTRY_LOADED || e->n_users || e->is_pinned) continue;
        if (!oldest || e->used_ns < oldest->used_ns) oldest = e;
    }
    if (oldest) unload(r, oldest);
    return oldest != NULL;
}

static bool load(struct registry *r, struct registry_entry *e, struct problem *problem) {
    struct mx_error err = {0};
    while (r->options->max_models && count_loaded(r) >= r->options->max_models)
        if (!make_room(r))
            return problem_set(problem, 503, "model", "all %u models that may be loaded are in use",
                               r->options->max_models);
    e->state = ENTRY_LOADING;
    pthread_mutex_unlock(&r->lock);
    struct served *served = served_open(r->options, r->is_shared, r->metrics, r->after_step, e->path, e->name, &err);
    pthread_mutex_lock(&r->lock);
    e->served = served;
    e->state = served ? ENTRY_LOADED : ENTRY_FAILED;
    e->failure = err;
    e->used_ns = clock_now_ns();
    pthread_cond_broadcast(&r->changed);
    return served || problem_set(problem, 500, "model", "model '%s' cannot be loaded: %s", e->name, err.message);
}

/* Waits for changes that are under way, and loads where needed. */
static bool bring_up(struct registry *r, struct registry_entry *e, struct problem *problem) {
    while (e->state == ENTRY_LOADING || e->state == ENTRY_UNLOADING) pthread_cond_wait(&r->changed, &r->lock);
    return e->state == ENTRY_LOADED || load(r, e, problem);
}

static struct registry_entry *look_up(struct registry *r, const char *name, struct problem *problem) {
    struct registry_entry *e = find(r, name);
    if (e) return e;
    problem_set(problem, 404, "model", "the model '%.200s' does not exist here; GET /v1/models lists those that do",
                name ? name : "");
    problem->code = "model_not_found";
    return NULL;
}

struct served *registry_acquire(struct registry *r, const char *name, struct problem *problem) {
    pthread_mutex_lock(&r->lock);
    struct registry_entry *e = look_up(r, name, problem);
    struct served *served = NULL;
    if (e && e->state != ENTRY_LOADED && !r->options->autoload)
        problem_set(problem, 503, "model", "model '%s' is not loaded", e->name);
    else if (e && bring_up(r, e, problem)) {
        served = e->served;
        e->n_users++;
        e->used_ns = clock_now_ns();
    }
    pthread_mutex_unlock(&r->lock);
    return served;
}

void registry_release(struct registry *r, struct served *served) {
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].served == served) {
            r->entries[i].n_users--;
            r->entries[i].used_ns = clock_now_ns();
        }
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

bool registry_load(struct registry *r, const char *name, struct problem *problem) {
    pthread_mutex_lock(&r->lock);
    struct registry_entry *e = look_up(r, name, problem);
    bool ok = e && bring_up(r, e, problem);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* Whether nobody uses it, or soon nobody does: an answer's last byte leaves a moment before its request is forgotten. */
static bool becomes_unused(struct registry *r, const struct registry_entry *e) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    int status = 0;
    while (e->n_users && !status) status = pthread_cond_timedwait(&r->changed, &r->lock, &until);
    return !e->n_users;
}

bool registry_unload(struct registry *r, const char *name, struct problem *problem) {
    pthread_mutex_lock(&r->lock);
    struct registry_entry *e = look_up(r, name, problem);
    bool ok = e != NULL;
    if (ok && e->state == ENTRY_LOADED) {
        ok = becomes_unused(r, e) || problem_set(problem, 409, "model", "model '%s' is answering requests", e->name);
        if (ok && e->state == ENTRY_LOADED) unload(r, e);
    }
    pthread_mutex_unlock(&r->lock);
    return ok;
}

void registry_visit(struct registry *r, void (*visit)(void *context, struct registry_entry *entry), void *context) {
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n_entries; i++) visit(context, &r->entries[i]);
    pthread_mutex_unlock(&r->lock);
}

bool registry_is_healthy(struct registry *r, uint64_t now_ns) {
    bool ok = true;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].state == ENTRY_LOADED) ok = ok && served_is_healthy(r->entries[i].served, now_ns);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* ---- life ---- */

static bool add(struct registry *r, const char *path, const char *name, const char *aliases, struct mx_error *err) {
    struct registry_entry *e = &r->entries[r->n_entries++];
    e->path = strdup(path);
    e->name = strdup(name);
    e->aliases = aliases ? strdup(aliases) : NULL;
    return (e->path && e->name && (!aliases || e->aliases)) || error_memory(err, "models");
}

/* The folder's own name, also where the path ends in "/" or is ".". */
static bool add_first(struct registry *r, struct mx_error *err) {
    char real[PATH_MAX];
    const char *path = r->options->model_path, *alias = r->options->alias;
    if (!realpath(path, real)) return error_set(err, ERROR_IO, "%s: there is no such folder", path);
    char name[256];
    const char *folder = last_part(real);
    size_t n = alias ? strcspn(alias, ",") : strlen(folder);
    if (!n || n >= sizeof name) return error_set(err, ERROR_USAGE, "--alias: '%s' is no name", alias ? alias : folder);
    memcpy(name, alias ? alias : folder, n);
    name[n] = '\0';
    struct buffer aliases = {0};
    buffer_printf(&aliases, "%s,%s", folder, alias ? alias : folder);
    bool ok = !aliases.failed && add(r, path, name, aliases.data, err);
    buffer_free(&aliases);
    return ok;
}

/* Each folder with a config.json. */
static bool add_folder(struct registry *r, struct mx_error *err) {
    struct arena arena = {0};
    char **names;
    size_t n;
    bool ok = folder_list(&arena, r->options->models_dir, "", &names, &n, err);
    struct registry_entry *grown = ok ? realloc(r->entries, (r->n_entries + n + 1) * sizeof *grown) : NULL;
    if (ok && !grown) ok = error_memory(err, "models");
    if (grown) {
        r->entries = grown;
        memset(r->entries + r->n_entries, 0, (n + 1) * sizeof *grown);
    }
    for (size_t i = 0; ok && i < n; i++) {
        char *folder = path_join(&arena, r->options->models_dir, names[i]);
        char *config = folder ? path_join(&arena, folder, "config.json") : NULL;
        if (!config)
            ok = error_memory(err, "models");
        else if (file_exists(config) && !find(r, names[i]))
            ok = add(r, folder, names[i], NULL, err);
    }
    arena_free(&arena);
    return ok;
}

bool registry_open(struct registry *r, const struct server_options *options, bool is_shared, struct metrics *metrics,
                   struct step_hook after_step, struct mx_error *err) {
    *r = (struct registry){.options = options, .is_shared = is_shared, .metrics = metrics, .after_step = after_step};
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->entries = array_calloc(1, sizeof *r->entries);
    if (!r->entries) return error_memory(err, "models");
    if (options->model_path && !add_first(r, err)) return false;
    if (options->models_dir && !add_folder(r, err)) return false;
    if (!r->n_entries) return error_set(err, ERROR_USAGE, "%s holds no model", options->models_dir);
    if (!options->model_path) return true;
    struct registry_entry *e = &r->entries[0];
    e->is_pinned = true;
    e->served = served_open(options, is_shared, metrics, after_step, e->path, e->name, err);
    e->state = e->served ? ENTRY_LOADED : ENTRY_FAILED;
    return e->served != NULL;
}

void registry_close(struct registry *r) {
    for (size_t i = 0; i < r->n_entries; i++) {
        struct registry_entry *e = &r->entries[i];
        served_close(e->served);
        free(e->name);
        free(e->path);
        free(e->aliases);
    }
    free(r->entries);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
}
