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

int main(int argc, char **argv) {
    wanted = argv + 1;
    n_wanted = argc - 1;
    const char *synthetic = BUILD_DIR "/tests/tokenizers-made", *real = BUILD_DIR "/tests/tokenizers-real";
    const char *shared = shared_folder();
    check_synthetic(synthetic);
    if (shared) {
        char vectors[4096];
        snprintf(vectors, sizeof vectors, "%s/data/tokenizer-vectors", shared);
        check_real(shared, real);
        if (is_wanted("tables")) compare_unicode_tables(vectors, synthetic, real);
    } else {
        tap_skip("real_tokenizers_equal_the_reference", SHARED_ABSENT);
    }
    return tap_done();
}
