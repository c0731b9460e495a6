/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/access.h"

#include "base/file.h"
#include "base/memory.h"

#include <string.h>
#include <strings.h>

static bool add_key(struct access *a, const char *text, size_t length, struct mx_error *err) {
    if (!length) return true;
    if (!array_reserve(&a->keys, &a->keys_capacity, a->n_keys + 1, sizeof *a->keys)) return error_memory(err, "keys");
    char *copy = arena_copy(&a->arena, text, length);
    if (!copy) return error_memory(err, "keys");
    a->keys[a->n_keys++] = (struct api_key){copy, length};
    return true;
}

static bool read_file(struct access *a, const char *path, struct mx_error *err) {
    size_t length;
    char *text = file_read(path, 1 << 20, &length, err);
    if (!text) return error_prefix(err, "--api-key-file");
    size_t before = a->n_keys;
    bool ok = true;
    for (char *at = text; ok && *at;) {
        size_t n = strcspn(at, "\r\n"), kept = n;
        while (kept && (at[kept - 1] == ' ' || at[kept - 1] == '\t')) kept--;
        if (*at != '#') ok = add_key(a, at, kept, err);
        at += n;
        at += strspn(at, "\r\n");
    }
    free(text);
    if (ok && a->n_keys == before) return error_set(err, ERROR_USAGE, "--api-key-file: %s holds no key", path);
    return ok;
}

bool access_init(struct access *a, const char *const *lists, size_t n_lists, const char *file, const char *origins,
                 struct mx_error *err) {
    *a = (struct access){.origins = origins && *origins ? origins : NULL};
    for (size_t i = 0; i < n_lists; i++) {
        size_t before = a->n_keys;
        for (const char *at = lists[i]; *at;) {
            size_t n = strcspn(at, ",");
            if (!add_key(a, at, n, err)) return false;
            at += n + (at[n] == ',');
        }
        /* A script's variable without a value must not open the server to everybody. */
        if (a->n_keys == before) return error_set(err, ERROR_USAGE, "--api-key: '%s' holds no key", lists[i]);
    }
    return !file || read_file(a, file, err);
}

void access_free(struct access *a) {
    free(a->keys);
    arena_free(&a->arena);
}

static bool is_equal(const struct api_key *key, const char *text, size_t length) {
    unsigned difference = key->length != length;
    for (size_t i = 0; i < key->length; i++)
        difference |= (unsigned char)key->text[i] ^ (unsigned)(i < length ? (unsigned char)text[i] : 0u);
    return difference == 0;
}

enum key_check access_check_key(const struct access *a, const struct http_head *head, uint32_t *owner) {
    *owner = 0;
    if (!a->n_keys) return KEY_OK;
    const char *given = http_header(head, "authorization");
    if (given && !strncasecmp(given, "bearer ", 7)) given += 7;
    if (!given) given = http_header(head, "x-api-key");
    if (!given) return KEY_MISSING;
    size_t length = strlen(given);
    for (size_t i = 0; i < a->n_keys; i++)
        if (is_equal(&a->keys[i], given, length)) *owner = (uint32_t)i + 1;
    return *owner ? KEY_OK : KEY_WRONG;
}

/* The host of "scheme://host[:port]". */
static bool is_local(const char *origin) {
    const char *host = strstr(origin, "://");
    if (!host) return false;
    host += 3;
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    return (n == 9 && !strncasecmp(host, "localhost", 9)) || (n == 9 && !memcmp(host, "127.0.0.1", 9)) ||
           (n == 5 && !memcmp(host, "[::1]", 5));
}

const char *access_allowed_origin(const struct access *a, const struct http_head *head) {
    const char *origin = http_header(head, "origin");
    if (!origin || !a->origins) return NULL;
    for (const char *at = a->origins; *at;) {
        size_t n = strcspn(at, ", ");
        if (n == 1 && *at == '*') return "*";
        if (n == 9 && !memcmp(at, "localhost", 9) && is_local(origin)) return origin;
        if (n == strlen(origin) && !strncasecmp(at, origin, n)) return origin;
        at += n;
        at += strspn(at, ", ");
    }
    return NULL;
}

bool access_is_foreign(const struct access *a, const struct http_head *head) {
    const char *origin = http_header(head, "origin"), *host = http_header(head, "host");
    if (!origin || access_allowed_origin(a, head)) return false;
    const char *mine = strstr(origin, "://");
    return !mine || !host || strcasecmp(mine + 3, host) != 0;
}
