/* SPDX-License-Identifier: Apache-2.0 */
#include "format/checkpoint.h"

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"

#include <string.h>

#define INDEX_NAME "model.safetensors.index.json"
enum { MAX_INDEX_BYTES = 256 << 20 };

static void close_files(struct checkpoint *c) {
    for (size_t i = 0; i < c->n_files; i++) safetensors_close(&c->files[i]);
    free(c->files);
    map_free(&c->by_name);
    c->files = NULL;
    c->n_files = 0;
}

/* Whether the index says that the tensor lies in another file than this one. */
static bool is_elsewhere(const struct checkpoint *c, const struct tensor *tensor) {
    uint64_t shard;
    return map_get(&c->index, tensor->name, strlen(tensor->name), &shard) &&
           strcmp((const char *)(uintptr_t)shard, tensor->file->name) != 0;
}

/* Opens the named files and enters their tensors; of equal names the one that the index means, else the later one. */
static bool open_files(struct checkpoint *c, char **names, size_t n, bool obey_index, struct mx_error *err) {
    c->files = array_calloc(n, sizeof *c->files);
    if (!c->files) return error_memory(err, c->folder);
    for (size_t i = 0; i < n; i++) {
        if (!safetensors_open(&c->files[i], c->folder, names[i], err)) return false;
        c->n_files++;
        if (c->files[i].is_mlx) c->is_mlx = true;
    }
    size_t total = 0;
    for (size_t i = 0; i < n; i++) total += c->files[i].n_tensors;
    if (!map_reserve(&c->by_name, total)) return error_memory(err, c->folder);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < c->files[i].n_tensors; j++) {
            const struct tensor *tensor = &c->files[i].tensors[j];
            if (obey_index && is_elsewhere(c, tensor)) continue;
            if (!map_put(&c->by_name, tensor->name, strlen(tensor->name), (uintptr_t)tensor, NULL))
                return error_memory(err, c->folder);
        }
    return true;
}

/* Reads the weight map into c->index and the distinct shard names, sorted, into *names. */
static bool read_index(struct checkpoint *c, const char *text, size_t length, char ***names, size_t *n_names,
                       struct mx_error *err) {
    const struct json *root = json_parse(&c->arena, text, length, JSON_REJECT_DUPLICATES, 16, err);
    if (!root) return error_prefix(err, INDEX_NAME);
    const struct json *weights = json_get(root, "weight_map");
    if (!json_is_object(weights)) return error_set(err, ERROR_FORMAT, INDEX_NAME ": has no weight_map object");
    struct map shards = {0};
    bool ok = true;
    *names = arena_calloc(&c->arena, weights->count, sizeof **names);
    *n_names = 0;
    if (!*names || !map_reserve(&c->index, weights->count)) ok = error_memory(err, INDEX_NAME);
    for (uint32_t i = 0; i < weights->count && ok; i++) {
        const struct json_member *m = &weights->members[i];
        if (!json_is_string(&m->value) || !path_is_plain_name(m->value.string, m->value.count)) {
            ok = error_set(err, ERROR_FORMAT, INDEX_NAME ": '%.*s' is not the name of a file in the folder",
                           json_is_string(&m->value) ? (int)(m->value.count < 200 ? m->value.count : 200) : 1,
                           json_is_string(&m->value) ? m->value.string : "?");
            break;
        }
        uint64_t shard = 0;
        if (!map_get(&shards, m->value.string, m->value.count, &shard)) {
            char *name = arena_copy(&c->arena, m->value.string, m->value.count);
            shard = (uintptr_t)name;
            if (!name || !map_put(&shards, name, m->value.count, shard, NULL))
                ok = error_memory(err, INDEX_NAME);
            else
                (*names)[(*n_names)++] = name;
        }
        if (ok && !map_put(&c->index, m->key, m->key_length, shard, NULL)) ok = error_memory(err, INDEX_NAME);
    }
    map_free(&shards);
    return ok;
}

/* False when a tensor of the index was not where the index says. */
static bool index_is_true(const struct checkpoint *c) {
    for (size_t i = 0; i < c->index.capacity; i++) {
        const struct map_entry *entry = &c->index.entries[i];
        if (entry->key && !map_get(&c->by_name, entry->key, entry->length, NULL)) return false;
    }
    return true;
}

static bool all_exist(struct checkpoint *c, char **names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *path = path_join(&c->arena, c->folder, names[i]);
        if (path && file_exists(path)) continue;
        c->absent = names[i];
        return false;
    }
    return true;
}

static bool open_with_index(struct checkpoint *c, bool *is_open, struct mx_error *err) {
    char *path = path_join(&c->arena, c->folder, INDEX_NAME);
    if (!path) return error_memory(err, c->folder);
    if (!file_exists(path)) return true;
    size_t length;
    char *text = file_read(path, MAX_INDEX_BYTES, &length, err);
    if (!text) return false;
    char *copy = arena_copy(&c->arena, text, length);
    free(text);
    if (!copy) return error_memory(err, INDEX_NAME);
    char **names = NULL;
    size_t n_names = 0;
    if (!read_index(c, copy, length, &names, &n_names, err)) return false;
    if (all_exist(c, names, n_names)) {
        if (!open_files(c, names, n_names, true, err)) return false;
        if (index_is_true(c)) {
            *is_open = true;
            return true;
        }
        close_files(c);
    }
    c->is_stale = true;
    return true;
}

static bool open_all(struct checkpoint *c, struct mx_error *err) {
    bool is_open = false;
    if (!file_is_directory(c->folder)) {
        return error_set(err, ERROR_IO, "%s: %s", c->folder,
                         file_exists(c->folder) ? "is a file, expected a checkpoint folder" : "no such folder");
    }
    if (!open_with_index(c, &is_open, err)) return false;
    if (is_open) return true;
    char **names = NULL;
    size_t n = 0;
    if (!folder_list(&c->arena, c->folder, ".safetensors", &names, &n, err)) return false;
    if (!n)
        return error_set(err, ERROR_IO, "%s: holds no *.safetensors file%s%s%s", c->folder,
                         c->absent ? " (" INDEX_NAME " names " : "", c->absent ? c->absent : "", c->absent ? ")" : "");
    return open_files(c, names, n, false, err);
}

bool checkpoint_open(struct checkpoint *c, const char *folder, struct mx_error *err) {
    *c = (struct checkpoint){0};
    c->folder = arena_copy(&c->arena, folder, strlen(folder));
    bool ok = c->folder ? open_all(c, err) : error_memory(err, folder);
    if (!ok) checkpoint_close(c);
    return ok;
}

void checkpoint_close(struct checkpoint *c) {
    close_files(c);
    map_free(&c->index);
    arena_free(&c->arena);
    *c = (struct checkpoint){0};
}

const struct tensor *checkpoint_find(const struct checkpoint *c, const char *name) {
    uint64_t found;
    return map_get(&c->by_name, name, strlen(name), &found) ? (const struct tensor *)(uintptr_t)found : NULL;
}

bool checkpoint_missing(const struct checkpoint *c, const char *name, struct mx_error *err) {
    uint64_t shard;
    if (map_get(&c->index, name, strlen(name), &shard))
        return error_set(err, ERROR_FORMAT, "%s: tensor '%s' is missing (the index says it is in %s)", c->folder, name,
                         (const char *)(uintptr_t)shard);
    return error_set(err, ERROR_FORMAT, "%s: tensor '%s' is missing", c->folder, name);
}

void checkpoint_report(const struct checkpoint *c) {
    if (c->is_stale)
        log_line(LOG_WARNING, "%s: " INDEX_NAME " is stale (%s%s): all *.safetensors of the folder were looked at",
                 c->folder, c->absent ? c->absent : "a tensor is not in the file it names",
                 c->absent ? " is missing" : "");
}

bool checkpoint_is_damaged(const struct checkpoint *c, struct mx_error *err) {
    for (size_t i = 0; i < c->n_files; i++)
        if (file_map_is_damaged(&c->files[i].map)) {
            error_set(err, ERROR_IO, "%s/%s: the file was cut while it was in use", c->folder, c->files[i].name);
            return true;
        }
    return false;
}

size_t checkpoint_bytes(const struct checkpoint *c) {
    size_t bytes = 0;
    for (size_t i = 0; i < c->n_files; i++) bytes += c->files[i].map.size;
    return bytes;
}
