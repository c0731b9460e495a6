/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers against reference encodings and decodings, token by token: tokenizers made for single features (data/
 * tokenizers.tar.xz, always), and real ones when the shared folder is there. Each is also decoded as a stream.
 *
 *   text_tokenizer [NAME...]    only these */
#include "tests/text/tokenizer/vectors.h"

#include "tests/support/tap.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *const *wanted;
static int n_wanted;

static bool is_wanted(const char *name) {
    for (int i = 0; i < n_wanted; i++)
        if (!strcmp(wanted[i], name)) return true;
    return !n_wanted;
}

/* ---- one tokenizer ---- */

/* A tokenizer and the start of its vectors' paths. */
struct subject {
    const char *name, *folder;
    char vectors[3800];
    const char *ending; /* of the files: "" or ".xz" */
    enum vector_kind kind;
};

static bool read_part(const struct subject *s, const char *part, struct vector_file *file) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s.jsonl%s", s->vectors, part, s->ending);
    bool ok = vectors_read(file, path);
    if (!ok) vectors_free(file);
    return ok;
}

/* Text that is held back is no more than a character, where the decoder works on bytes or on whole tokens. */
static bool streams_at_once(const struct subject *s) {
    /* Decoders by which later tokens change earlier text. */
    static const char *const waiting[] = {"dec-", "hw-doc", "bpe-suffix", "wordpiece", "added-in-vocab"};
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
        if (!strncmp(s->name, waiting[i], strlen(waiting[i]))) return false;
    return true;
}

static void check_subject(const struct subject *s) {
    struct mx_error err = {0};
    struct vector_file file;
    struct tally tally = {.name = s->name}, streams = tally;
    struct tokenizer *t = tokenizer_open(s->folder, &err);
    if (!t) {
        tap_ok(false, "%s", s->name);
        tap_note("%s", err.message);
        return;
    }
    if (read_part(s, "", &file)) {
        compare_encodings(&tally, t, &file, s->kind);
        compare_parts(&tally, t, &file);
        compare_streams(&streams, t, &file, streams_at_once(s));
        if (s->kind != VECTORS_SPARSE) compare_token_bytes(&tally, t, &file);
        vectors_free(&file);
    }
    if (s->kind != VECTORS_PLAIN && read_part(s, ".pairs", &file)) {
        compare_pairs(&tally, t, &file);
        vectors_free(&file);
    }
    if (read_part(s, ".decode", &file)) {
        compare_decodings(&tally, t, &file);
        compare_streams(&streams, t, &file, false);
        vectors_free(&file);
    }
    tap_ok(tally.n_lines && !tally.n_wrong, "%s_equals_the_reference (%zu of %zu)", s->name,
           tally.n_lines - tally.n_wrong, tally.n_lines);
    tap_ok(streams.n_lines && !streams.n_wrong, "%s_streams (%zu of %zu)", s->name, streams.n_lines - streams.n_wrong,
           streams.n_lines);
    tokenizer_close(t);
}

/* ---- the sets ---- */

/* Unpacked once into the build folder. */
static bool unpack(const char *command_format, const char *from, const char *to) {
    char command[9000], mark[4096];
    snprintf(mark, sizeof mark, "%s/.complete", to);
    struct stat archive, done;
    bool is_fresh = stat(mark, &done) == 0 && (stat(from, &archive) != 0 || archive.st_mtime <= done.st_mtime);
    if (is_fresh) return true;
    snprintf(command, sizeof command, "mkdir -p '%s'", to);
    if (system(command) != 0) return false;
    snprintf(command, sizeof command, command_format, from, to);
    if (system(command) != 0) return false;
    return file_write_atomic(mark, "", 0, NULL);
}

static void check_synthetic(const char *folder) {
    struct arena arena = {0};
    char **names = NULL;
    size_t n = 0, n_checked = 0;
    tap_ok(unpack("tar -xJf '%s' -C '%s'", SOURCE_DIR "/tests/data/tokenizers.tar.xz", folder), "the_archive_unpacks");
    folder_list(&arena, folder, "", &names, &n, NULL);
    for (size_t i = 0; i < n; i++) {
        struct subject s = {
            .name = names[i], .folder = path_join(&arena, folder, names[i]), .ending = "", .kind = VECTORS_SPARSE};
        snprintf(s.vectors, sizeof s.vectors, "%s/vectors", s.folder);
        if (!file_is_directory(s.folder)) continue;
        n_checked++;
        if (is_wanted(names[i])) check_subject(&s);
    }
    tap_ok(n_checked == 176, "all_made_tokenizers_are_there (%zu)", n_checked);
    arena_free(&arena);
}

/* Tokenizers whose vectors are another's: the same vocabulary in older files. */
static const struct {
    const char *name, *vectors;
} aliases[] = {
    {"qwen2.5-pair", "qwen2.5"},
    {"bert-base-cased-vocab", "bert-base-cased"},
    {"roberta-base-pair", "roberta-base"},
};

static enum vector_kind kind_of(const char *name) {
    static const char *const plain[] = {"sp-", "tiktoken-", "tekken-", "rwkv-"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strncmp(name, plain[i], strlen(plain[i]))) return VECTORS_PLAIN;
    return VECTORS_JSON;
}

static void check_real(const char *shared, const char *folder) {
    struct arena arena = {0};
    char **names = NULL;
    size_t n = 0;
    const char *script = arena_printf(&arena, "%s/data/tokenizers/fetch.sh", shared);
    tap_ok(unpack("sh '%s' '%s' local >/dev/null 2>&1", script, folder), "the_shared_tokenizers_unpack");
    const char *pair = path_join(&arena, folder, "roberta-base-pair");
    char command[9000];
    snprintf(command, sizeof command,
             "mkdir -p '%s' && cp '%s/roberta-base/vocab.json' '%s/roberta-base/merges.txt' '%s'", pair, folder, folder,
             pair);
    tap_ok(system(command) == 0, "roberta_base_as_a_pair_of_files");
    folder_list(&arena, folder, "", &names, &n, NULL);
    for (size_t i = 0; i < n; i++) {
        struct subject s = {.name = names[i],
                            .folder = path_join(&arena, folder, names[i]),
                            .ending = ".xz",
                            .kind = kind_of(names[i])};
        const char *vectors = names[i];
        for (size_t k = 0; k < sizeof aliases / sizeof *aliases; k++)
            if (!strcmp(names[i], aliases[k].name)) vectors = aliases[k].vectors;
        snprintf(s.vectors, sizeof s.vectors, "%s/data/tokenizer-vectors/%s", shared, vectors);
        if (is_wanted(names[i]) && file_is_directory(s.folder)) check_subject(&s);
    }
    arena_free(&arena);
}

/* ---- marks ---- */

/* U+0D3C came with Unicode 10, when the reference's normalization forms had been made: a mark of class 0 to them, before
 * which others do not move. (PyPI tokenizers 0.23.3.) */
static void newer_marks_stay_in_place(const char *synthetic) {
    char folder[4200];
    struct token_list list = {0};
    struct buffer decoded = {0};
    snprintf(folder, sizeof folder, "%s/bpe-split-qwen", synthetic);
    struct tokenizer *t = tokenizer_open(folder, NULL);
    const char text[] = "o\xcc\x88\xcc\xa3\xe0\xb4\xbc", normal[] = "\xe1\xbb\x8d\xcc\x88\xe0\xb4\xbc";
    bool ok = t && tokenizer_encode(t, text, sizeof text - 1, 0, &list, NULL) &&
              tokenizer_decode(t, list.ids, list.count, false, &decoded, NULL) && decoded.length == sizeof normal - 1 &&
              !memcmp(decoded.data, normal, decoded.length);
    tap_ok(ok, "newer_marks_stay_in_place");
    tokenizer_close(t);
    token_list_free(&list);
    buffer_free(&decoded);
}

/* ---- long texts ---- */

/* SHA-256 of the ids as little-endian 32-bit numbers, in hexadecimal; 64 characters. */
static bool hash_ids(const struct token_list *list, char hash[65]) {
    char folder[4000], command[4200];
    bool ok = folder_make_temporary(folder, sizeof folder);
    snprintf(command, sizeof command, "%s/ids", folder);
    ok = ok && file_write_atomic(command, list->ids, list->count * sizeof *list->ids, NULL);
    snprintf(command, sizeof command, "sha256sum '%s/ids'", folder);
    FILE *pipe = ok ? popen(command, "r") : NULL;
    ok = pipe && fread(hash, 1, 64, pipe) == 64;
    hash[64] = '\0';
    if (pipe) pclose(pipe);
    folder_remove(folder);
    return ok;
}

static void check_long(const char *shared, const char *real, const char *which, const struct json_member *entry) {
    char path[4300], hash[65];
    struct arena arena = {0};
    struct token_list list = {0};
    struct vector_file file;
    const char *name = arena_copy(&arena, entry->key, entry->key_length);
    const struct json *expected = json_get(&entry->value, which);
    snprintf(path, sizeof path, "%s/data/tokenizer-vectors/speed/%s-1mb.txt.xz", shared, which);
    bool has_text = text_read(&file, path);
    struct tokenizer *t = tokenizer_open(path_join(&arena, real, name), NULL);
    unsigned flags = strncmp(name, "tiktoken-", 9) ? 0 : TOKENIZE_PLAIN;
    bool ok = has_text && t && tokenizer_encode(t, file.text, file.length, flags, &list, NULL) &&
              json_integer(json_get(expected, "tokens"), -1) == (int64_t)list.count && hash_ids(&list, hash) &&
              json_string_is(json_get(expected, "sha256_ids_u32le"), hash);
    tap_ok(ok, "%s_encodes_a_megabyte_of_%s_text", name, which);
    tokenizer_close(t);
    token_list_free(&list);
    vectors_free(&file);
    arena_free(&arena);
}

static void check_long_texts(const char *shared, const char *real) {
    struct arena arena = {0};
    size_t length;
    const char *path = arena_printf(&arena, "%s/data/tokenizer-vectors/speed/ids.json", shared);
    char *text = file_read(path, 1 << 20, &length, NULL);
    const struct json *root = text ? json_parse(&arena, text, length, JSON_STRICT, 16, NULL) : NULL;
    tap_ok(json_is_object(root) && root->count > 5, "the_hashes_of_long_texts_are_there");
    for (size_t i = 0; json_is_object(root) && i < root->count; i++) {
        check_long(shared, real, "english", &root->members[i]);
        check_long(shared, real, "mixed", &root->members[i]);
    }
    free(text);
    arena_free(&arena);
}

int main(int argc, char **argv) {
    wanted = argv + 1;
    n_wanted = argc - 1;
    const char *synthetic = BUILD_DIR "/tests/tokenizers-made", *real = BUILD_DIR "/tests/tokenizers-real";
    const char *shared = shared_folder();
    check_synthetic(synthetic);
    newer_marks_stay_in_place(synthetic);
    if (shared) {
        char vectors[4096];
        snprintf(vectors, sizeof vectors, "%s/data/tokenizer-vectors", shared);
        check_real(shared, real);
        if (is_wanted("long")) check_long_texts(shared, real);
        if (is_wanted("tables")) compare_unicode_tables(vectors, synthetic, real);
    } else {
        tap_skip("real_tokenizers_equal_the_reference", SHARED_ABSENT);
    }
    return tap_done();
}
