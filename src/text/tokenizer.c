/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a tokenizer, its vocabulary, and the public calls. */
#include "text/tokenizer.h"

#include "text/tokenizer/core.h"

#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"

#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)64 << 20)

/* ---- added tokens ---- */

static bool is_same_token(const struct added_token *a, const struct added_token *b) {
    return a->length == b->length && !memcmp(a->content, b->content, a->length);
}

bool tokenizer_add_token(struct tokenizer *t, const struct added_token *token, struct mx_error *err) {
    if (!array_reserve(&t->added, &t->added_capacity, t->n_added + 1, sizeof *t->added))
        return error_memory(err, "added tokens");
    t->added[t->n_added++] = *token;
    return true;
}

/* A content that the vocabulary holds keeps its id; any other gets the next free one. What the file says its id is does
 * not count. */
static bool number_added(struct tokenizer *t, struct map *by_content, struct mx_error *err) {
    int64_t highest = -1;
    int64_t n_model = (int64_t)t->vocab.n_texts;
    for (size_t i = 0; i < t->n_added; i++) {
        struct added_token *token = &t->added[i];
        uint64_t before;
        if (map_get(by_content, token->content, token->length, &before))
            token->id = t->added[before].id;
        else if (!token->has_id && !vocab_find(&t->vocab, token->content, token->length, &token->id))
            token->id = (uint32_t)(highest >= n_model ? highest + 1 : n_model);
        if (token->id > VOCAB_MAX_ID) return error_set(err, ERROR_LIMIT, "token id %u is too large", token->id);
        if (!map_put(by_content, token->content, token->length, i, NULL)) return error_memory(err, "added tokens");
        if (token->id > highest) highest = token->id;
    }
    return true;
}

static bool index_added(struct tokenizer *t, struct mx_error *err) {
    t->n_ids = t->vocab.size;
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id >= t->n_ids) t->n_ids = (size_t)t->added[i].id + 1;
    t->added_by_id = array_alloc(t->n_ids, sizeof *t->added_by_id);
    if (!t->added_by_id) return error_memory(err, "vocabulary");
    memset(t->added_by_id, 0xff, t->n_ids * sizeof *t->added_by_id);
    for (size_t i = 0; i < t->n_added; i++) t->added_by_id[t->added[i].id] = (uint32_t)i;
    return true;
}

/* The spelling of a normalized token in normalized text, in the arena. */
static bool normalize_content(struct tokenizer *t, const struct added_token *token, const char **text, size_t *length,
                              struct mx_error *err) {
    struct aligned content = {0}, spare = {0};
    struct regex_scratch scratch = {0};
    aligned_set(&content, token->content, token->length, 0, false);
    bool ok = regex_scratch_begin(&scratch, token->length, err) &&
              normalizer_apply(&t->normalizer, &scratch, &content, &spare, 0, err);
    if (ok) {
        *length = content.length;
        *text = arena_copy(&t->arena, content.text, content.length);
        if (!*text) ok = error_memory(err, "added tokens");
    }
    aligned_free(&content);
    aligned_free(&spare);
    regex_scratch_free(&scratch);
    return ok;
}

static bool add_pattern(struct tokenizer *t, uint32_t index, struct mx_error *err) {
    const struct added_token *token = &t->added[index];
    if (!token->is_normalized) return added_set_add(&t->raw_added, token->content, token->length, index, err);
    const char *text;
    size_t length;
    return normalize_content(t, token, &text, &length, err) &&
           added_set_add(&t->normalized_added, text, length, index, err);
}

bool tokenizer_finish_added(struct tokenizer *t, struct mx_error *err) {
    struct map by_content = {0};
    bool ok = number_added(t, &by_content, err) && index_added(t, err);
    /* Special tokens first: of equal spellings the first counts. */
    for (int special = 1; special >= 0 && ok; special--)
        for (size_t i = 0; i < t->n_added && ok; i++)
            if (t->added[i].is_special == (special == 1)) ok = add_pattern(t, (uint32_t)i, err);
    map_free(&by_content);
    added_set_finish(&t->raw_added);
    added_set_finish(&t->normalized_added);
    return ok;
}

/* ---- opening ---- */

/* "bos_token": "<s>" or {"content": "<s>", ...} */
static void read_roles(struct tokenizer *t, const struct json *config) {
    static const char *const keys[N_TOKEN_ROLES] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    for (int role = 0; role < N_TOKEN_ROLES; role++) {
        const struct json *value = json_get(config, keys[role]);
        if (json_is_object(value)) value = json_get(value, "content");
        const char *text = json_string_copy(&t->arena, value);
        uint32_t id;
        if (!text) continue;
        t->role_texts[role] = text;
        t->role_ids[role] = tokenizer_find(t, text, strlen(text), &id) ? (int64_t)id : -1;
    }
}

/* A JSON file of the folder; NULL without an error when there is none, or it is none of ours to judge. */
static const struct json *read_json(struct tokenizer *t, struct arena *tree, const char *folder, const char *name,
                                    bool is_needed, struct mx_error *err) {
    struct mx_error own = {0};
    size_t length;
    const char *path = path_join(tree, folder, name);
    if (!path || !file_exists(path)) return NULL;
    char *text = file_read(path, MAX_CONFIG_BYTES, &length, &own), *copy = text ? arena_copy(tree, text, length) : NULL;
    free(text);
    const struct json *json = copy ? json_parse(tree, copy, length, JSON_ALLOW_NAN, 64, &own) : NULL;
    (void)t;
    if (json || !is_needed) return json;
    *err = own;
    if (!copy && text) error_memory(err, name);
    error_prefix(err, "%s", name);
    return NULL;
}

static const struct {
    const char *name; /* "x*y" = the first file that begins with x and ends in y */
    tokenizer_loader *load;
} files[] = {
    {"tokenizer.json", tokenizer_load_json},
    {"tokenizer.model", tokenizer_load_model},
    {"spiece.model", tokenizer_load_sentencepiece},
    {"sentencepiece.bpe.model", tokenizer_load_sentencepiece},
    {"tekken.json", tokenizer_load_tekken},
    {"tiktoken.model", tokenizer_load_tiktoken},
    {"*.tiktoken", tokenizer_load_tiktoken},
    {"vocab.json", tokenizer_load_pair},
    {"vocab.txt", tokenizer_load_words},
    {"rwkv_vocab*.txt", tokenizer_load_greedy},
};

/* The file of that name or pattern; NULL = none. */
static const char *find_file(struct arena *arena, const char *folder, const char *name) {
    char **names = NULL;
    size_t n = 0;
    const char *path = path_join(arena, folder, name);
    const char *star = strchr(name, '*');
    if (!star) return path && file_exists(path) ? path : NULL;
    if (!folder_list(arena, folder, star + 1, &names, &n, NULL)) return NULL;
    for (size_t i = 0; i < n; i++)
        if (!strncmp(names[i], name, (size_t)(star - name))) return path_join(arena, folder, names[i]);
    return NULL;
}

static bool load_folder(struct tokenizer *t, const char *path, struct mx_error *err) {
    struct arena tree = {0};
    struct tokenizer_folder folder = {.path = path};
    bool ok = true, is_found = false;
    struct mx_error own = {0};
    folder.config = read_json(t, &tree, path, "tokenizer_config.json", true, &own);
    folder.model = read_json(t, &tree, path, "config.json", false, &own);
    if (own.code) ok = error_set(err, own.code, "%s", own.message);
    for (size_t i = 0; ok && !is_found && i < sizeof files / sizeof *files; i++) {
        const char *file = find_file(&tree, path, files[i].name);
        if (!file) continue;
        is_found = true;
        ok = files[i].load(t, &folder, file, err) || error_prefix(err, "%s", strrchr(file, '/') + 1);
    }
    if (ok && is_found) read_roles(t, folder.config);
    if (ok && !is_found) ok = error_set(err, ERROR_IO, "%s holds no tokenizer.json and no other tokenizer file", path);
    arena_free(&tree);
    return ok;
}

struct tokenizer *tokenizer_open(const char *folder, struct mx_error *err) {
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t || pthread_mutex_init(&t->lock, NULL) != 0) {
        free(t);
        error_memory(err, "tokenizer");
        return NULL;
    }
    for (int role = 0; role < N_TOKEN_ROLES; role++) t->role_ids[role] = -1;
    if (load_folder(t, folder, err)) return t;
    tokenizer_close(t);
    return NULL;
}

void tokenizer_close(struct tokenizer *t) {
    if (!t) return;
    while (t->idle) {
        struct encoder *next = t->idle->next;
        encoder_free(t->idle);
        t->idle = next;
    }
    pthread_mutex_destroy(&t->lock);
    token_bytes_destroy(t->token_bytes);
    bpe_free(&t->bpe);
    unigram_free(&t->unigram);
    trie_free(&t->greedy);
    if (t->sentencepiece) sentencepiece_free(t->sentencepiece);
    free(t->sentencepiece);
    normalizer_free(&t->normalizer);
    pretokenizer_free(&t->pretokenizer);
    decoder_free(&t->decoder);
    added_set_free(&t->raw_added);
    added_set_free(&t->normalized_added);
    free(t->added);
    free(t->added_by_id);
    vocab_free(&t->vocab);
    arena_free(&t->arena);
    free(t);
}

/* ---- encoding ---- */

void token_list_free(struct token_list *list) {
    free(list->ids);
    free(list->spans);
    buffer_free(&list->texts);
    *list = (struct token_list){0};
}

static bool encode_texts(const struct tokenizer *t, const char *const texts[2], const size_t lengths[2], int n_texts,
                         unsigned flags, struct token_list *out, struct mx_error *err) {
    struct encoder *e = encoder_take(t, err);
    if (!e) return false;
    bool ok = true;
    for (int i = 0; i < n_texts && ok; i++) ok = encoder_run(t, e, texts[i], lengths[i], flags, &e->texts[i], err);
    ok = ok && postprocessor_apply(&t->postprocessor, e->texts, n_texts, flags, out, err);
    encoder_give_back(t, e);
    if (!ok) out->count = 0;
    return ok;
}

bool tokenizer_encode(const struct tokenizer *t, const char *text, size_t length, unsigned flags,
                      struct token_list *out, struct mx_error *err) {
    const char *const texts[2] = {text, NULL};
    const size_t lengths[2] = {length, 0};
    return encode_texts(t, texts, lengths, 1, flags, out, err);
}

bool tokenizer_encode_pair(const struct tokenizer *t, const char *text, size_t length, const char *pair,
                           size_t pair_length, unsigned flags, struct token_list *out, struct mx_error *err) {
    const char *const texts[2] = {text, pair};
    const size_t lengths[2] = {length, pair_length};
    return encode_texts(t, texts, lengths, 2, flags, out, err);
}

/* ---- the vocabulary ---- */

size_t tokenizer_vocab_size(const struct tokenizer *t) { return t->n_ids; }

static const struct added_token *added_by_id(const struct tokenizer *t, uint32_t id) {
    return id < t->n_ids && t->added_by_id[id] != UINT32_MAX ? &t->added[t->added_by_id[id]] : NULL;
}

bool tokenizer_find(const struct tokenizer *t, const char *text, size_t length, uint32_t *id) {
    const struct added_token wanted = {.content = text, .length = (uint32_t)length};
    if (vocab_find(&t->vocab, text, length, id)) return true;
    for (size_t i = 0; i < t->n_added; i++)
        if (is_same_token(&t->added[i], &wanted)) return *id = t->added[i].id, true;
    return false;
}

bool tokenizer_token_text(const struct tokenizer *t, uint32_t id, const char **text, size_t *length) {
    const struct added_token *added = added_by_id(t, id);
    const struct vocab_token *token = added ? NULL : vocab_token(&t->vocab, id);
    if (!added && !token) return false;
    *text = added ? added->content : token->text;
    *length = added ? added->length : token->length;
    return true;
}

bool tokenizer_is_special(const struct tokenizer *t, uint32_t id) {
    const struct added_token *added = added_by_id(t, id);
    const struct sentencepiece *sp = t->sentencepiece;
    if (!added && sp && id < sp->n_pieces) return sp->types[id] == PIECE_CONTROL;
    return added && added->is_special;
}

bool tokenizer_is_added(const struct tokenizer *t, uint32_t id) { return added_by_id(t, id) != NULL; }

int64_t tokenizer_role_id(const struct tokenizer *t, enum token_role role) { return t->role_ids[role]; }
const char *tokenizer_role_text(const struct tokenizer *t, enum token_role role) { return t->role_texts[role]; }

const char *tokenizer_kind(const struct tokenizer *t) {
    static const char *const names[] = {[MODEL_NONE] = "none",           [MODEL_BPE] = "BPE",
                                        [MODEL_UNIGRAM] = "Unigram",     [MODEL_WORDPIECE] = "WordPiece",
                                        [MODEL_WORDLEVEL] = "WordLevel", [MODEL_GREEDY] = "RWKV"};
    return names[t->kind];
}
