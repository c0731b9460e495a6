/* SPDX-License-Identifier: Apache-2.0 */
/* Files of ranks: tiktoken's (a token in base64 and its rank on each line) and Mistral's tekken.json.
 *
 * A rank file says nothing about pattern and special tokens: they come from tiktoken_config.json ({"pat_str",
 * "special_tokens"}), else from the family that the file's name or its number of ranks tells, and special tokens also
 * from tokenizer_config.json. */
#include "text/tokenizer/base64.h"
#include "text/tokenizer/core.h"
#include "text/tokenizer/ranks.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

#define MAX_FILE_BYTES   ((size_t)256 << 20)
#define MAX_CONFIG_BYTES ((size_t)16 << 20)

/* ---- families ---- */

#define CONTRACTIONS   "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL           "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2_PATTERN   "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K_PATTERN CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAIL
#define QWEN_PATTERN   CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TAIL
#define O200K_PATTERN                                                                                                  \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" CONTRACTIONS           \
    "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" CONTRACTIONS         \
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define KIMI_PATTERN                                                                                                   \
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}"       \
    "\\p{M}&&[^\\p{Han}]]+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"  \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*" CONTRACTIONS "?|\\p{N}{1,3}" TAIL

/* Special tokens "text,text,..." with ids from `first` on; "text*N" stands for N of them, numbered where it has %. */
struct family {
    const char *file; /* of the rank file, or its end */
    uint32_t n_ranks; /* 0 = any */
    const char *pattern;
    uint32_t first;
    const char *specials;
};

static const struct family families[] = {
    {"qwen.tiktoken", 0, QWEN_PATTERN, 151643, "<|endoftext|>,<|im_start|>,<|im_end|>,<|extra_%|>*205"},
    {"hy.tiktoken", 0, QWEN_PATTERN, 127957, "<|endoftext|>,<|startoftext|>,<|bos|>,<|eos|>,<|pad|>,<|extra_%|>*205"},
    {"gpt2.tiktoken", 0, GPT2_PATTERN, 50256, "<|endoftext|>"},
    {"r50k_base.tiktoken", 0, GPT2_PATTERN, 50256, "<|endoftext|>"},
    {"p50k_base.tiktoken", 0, GPT2_PATTERN, 50256, "<|endoftext|>"},
    {"p50k_edit.tiktoken", 0, GPT2_PATTERN, 50281, "<|fim_prefix|>,<|fim_middle|>,<|fim_suffix|>"},
    {"cl100k_base.tiktoken", 0, CL100K_PATTERN, 100257, "<|endoftext|>,<|fim_prefix|>,<|fim_middle|>,<|fim_suffix|>"},
    {"o200k_base.tiktoken", 0, O200K_PATTERN, 199999, "<|endoftext|>"},
    {"", 128000, CL100K_PATTERN, 128000,
     "<|begin_of_text|>,<|end_of_text|>,<|reserved_special_token_0|>,<|reserved_special_token_1|>,"
     "<|finetune_right_pad_id|>,<|step_id|>,<|start_header_id|>,<|end_header_id|>,<|eom_id|>,<|eot_id|>,"
     "<|python_tag|>,<|image|>"},
    {"", 163584, KIMI_PATTERN, 0, ""},
    {"", 200000, O200K_PATTERN, 0, ""},
    {"", 0, CL100K_PATTERN, 0, ""},
};

static const struct family *find_family(const char *path, size_t n_ranks) {
    size_t length = strlen(path);
    const struct family *family = families;
    for (;; family++) {
        size_t n = strlen(family->file);
        if (n <= length && !strcmp(path + length - n, family->file) && (!family->n_ranks || family->n_ranks == n_ranks))
            return family;
    }
}

static bool add_numbered(struct tokenizer *t, const char *text, size_t length, uint32_t number, uint32_t id,
                         struct mx_error *err) {
    char token[64];
    const char *percent = memchr(text, '%', length);
    int head = percent ? (int)(percent - text) : (int)length;
    if (percent)
        snprintf(token, sizeof token, "%.*s%u%.*s", head, text, number, (int)length - head - 1, percent + 1);
    else
        snprintf(token, sizeof token, "%.*s", head, text);
    return tokenizer_add_special(t, token, id, false, err);
}

static bool add_family_tokens(struct tokenizer *t, const struct family *family, struct mx_error *err) {
    uint32_t id = family->first;
    for (const char *at = family->specials; *at;) {
        size_t length = strcspn(at, ",*");
        unsigned count = 1;
        const char *next = at + length;
        if (*next == '*') {
            count = (unsigned)strtoul(next + 1, NULL, 10);
            next += strcspn(next, ",");
        }
        for (unsigned i = 0; i < count; i++)
            if (!add_numbered(t, at, length, i, id++, err)) return false;
        at = next + (*next == ',');
    }
    /* Llama 3 fills up to 256 with reserved tokens. */
    for (uint32_t i = 2; family->n_ranks == 128000 && id < family->first + 256; i++, id++)
        if (!add_numbered(t, "<|reserved_special_token_%|>", 28, i, id, err)) return false;
    return true;
}

/* ---- what both kinds of file share ---- */

static bool finish(struct tokenizer *t, const struct tokenizer_folder *folder, const char *pattern, size_t length,
                   bool adds_bos, struct mx_error *err) {
    const struct decoder_step bytes = {.kind = DECODE_BYTES};
    static const struct {
        enum token_role role;
        const char *text;
    } roles[] = {
        {TOKEN_BOS, "<|begin_of_text|>"}, {TOKEN_BOS, "[BOS]"},         {TOKEN_BOS, "<s>"},
        {TOKEN_EOS, "<|end_of_text|>"},   {TOKEN_EOS, "[EOS]"},         {TOKEN_EOS, "</s>"},
        {TOKEN_EOS, "<|eos|>"},           {TOKEN_EOS, "<|endoftext|>"},
    };
    t->kind = MODEL_BPE;
    if (!ranks_build(&t->bpe, &t->vocab, err) || !pretokenizer_add_pattern(&t->pretokenizer, pattern, length, err) ||
        !decoder_add(&t->decoder, &bytes, err) || !tokenizer_add_configured(t, folder, err) ||
        !tokenizer_finish_added(t, err))
        return false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        uint32_t id;
        if (t->role_ids[roles[i].role] >= 0 || !tokenizer_find(t, roles[i].text, strlen(roles[i].text), &id)) continue;
        if (!tokenizer_is_added(t, id)) continue;
        t->role_ids[roles[i].role] = id;
        adds_bos = adds_bos || i == 0;
    }
    return tokenizer_surround(t, folder, adds_bos, false, err);
}

/* ---- tiktoken ---- */

/* "IQ== 0" */
static bool read_rank(struct tokenizer *t, const char *line, size_t length, struct buffer *bytes,
                      struct mx_error *err) {
    const char *space = memchr(line, ' ', length);
    uint64_t rank = 0;
    size_t head = space ? (size_t)(space - line) : length;
    buffer_clear(bytes);
    bool ok = space && head + 1 < length && base64_append(bytes, line, head);
    for (size_t i = head + 1; i < length && ok; i++) {
        ok = line[i] >= '0' && line[i] <= '9' && rank <= VOCAB_MAX_ID;
        rank = rank * 10 + (uint64_t)(line[i] - '0');
    }
    if (bytes->failed) return error_memory(err, "vocabulary");
    uint32_t before;
    if (!ok || rank > VOCAB_MAX_ID)
        return error_set(err, ERROR_FORMAT, "line '%.*s' is no token in base64 and its rank",
                         length > 60 ? 60 : (int)length, line);
    if (!bytes->length) return true; /* a place kept free */
    if (vocab_token(&t->vocab, (uint32_t)rank) || vocab_find(&t->vocab, bytes->data, bytes->length, &before))
        return error_set(err, ERROR_FORMAT, "rank %u, or its token, is there twice", (unsigned)rank);
    return vocab_add(&t->vocab, bytes->data, bytes->length, (uint32_t)rank, err);
}

static bool read_ranks(struct tokenizer *t, const char *text, size_t size, struct mx_error *err) {
    struct buffer bytes = {0};
    bool ok = true;
    for (size_t at = 0; at < size && ok;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t end = newline ? (size_t)(newline - text) : size, length = end - at;
        while (length && (text[at + length - 1] == '\r' || text[at + length - 1] == ' ')) length--;
        if (length) ok = read_rank(t, text + at, length, &bytes, err);
        at = end + 1;
    }
    buffer_free(&bytes);
    return ok && (t->vocab.n_texts || error_set(err, ERROR_FORMAT, "the file holds no ranks"));
}

static bool finish_tiktoken(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                            struct mx_error *err) {
    struct arena tree = {0};
    const struct json *config = NULL;
    const struct family *family = find_family(path, t->vocab.n_texts);
    const char *name = path_join(&tree, folder->path, "tiktoken_config.json");
    char *text = NULL;
    size_t length;
    bool ok = true;
    if (name && file_exists(name)) {
        text = file_read(name, MAX_CONFIG_BYTES, &length, err);
        config = text ? json_parse(&tree, text, length, JSON_STRICT, 16, err) : NULL;
        if (!config) ok = error_prefix(err, "tiktoken_config.json");
    }
    const struct json *pattern = json_get(config, "pat_str"), *specials = json_get(config, "special_tokens");
    if (ok)
        ok = json_is_object(specials)                           ? tokenizer_add_list(t, specials, err)
             : json_get(folder->config, "added_tokens_decoder") ? true
                                                                : add_family_tokens(t, family, err);
    if (ok)
        ok = json_is_string(pattern) ? finish(t, folder, pattern->string, pattern->count, false, err)
                                     : finish(t, folder, family->pattern, strlen(family->pattern), false, err);
    free(text);
    arena_free(&tree);
    return ok;
}

bool tokenizer_load_tiktoken(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                             struct mx_error *err) {
    struct file_map map = {0};
    if (!file_map_open(&map, path, err)) return false;
    bool ok = map.size <= MAX_FILE_BYTES || error_set(err, ERROR_LIMIT, "a rank file of %zu bytes", map.size);
    ok = ok && read_ranks(t, (const char *)map.data, map.size, err);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    file_map_close(&map);
    return ok && finish_tiktoken(t, folder, path, err);
}

/* Ranks begin with a token in base64 and a space; a SentencePiece model with a field's tag and length. */
bool tokenizer_load_model(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                          struct mx_error *err) {
    struct file_map map = {0};
    if (!file_map_open(&map, path, err)) return false;
    size_t n = 0;
    while (n < map.size && n < 64 && map.data[n] > ' ' && map.data[n] < 0x7f) n++;
    bool is_ranks = n && n < map.size && map.data[n] == ' ';
    file_map_close(&map);
    return is_ranks ? tokenizer_load_tiktoken(t, folder, path, err)
                    : tokenizer_load_sentencepiece(t, folder, path, err);
}

/* ---- tekken ---- */

static bool read_tekken_token(struct tokenizer *t, const struct json *item, uint32_t first, uint32_t limit,
                              struct buffer *bytes, struct mx_error *err) {
    const struct json *text = json_get(item, "token_bytes");
    int64_t rank = json_integer(json_get(item, "rank"), -1);
    uint32_t before;
    if (rank >= limit) return true;
    buffer_clear(bytes);
    if (rank < 0 || !json_is_string(text) || !base64_append(bytes, text->string, text->count) || !bytes->length)
        return bytes->failed ? error_memory(err, "vocabulary")
                             : error_set(err, ERROR_FORMAT, "an entry of 'vocab' without 'rank' or 'token_bytes'");
    uint32_t id = first + (uint32_t)rank;
    if (vocab_token(&t->vocab, id) || vocab_find(&t->vocab, bytes->data, bytes->length, &before))
        return error_set(err, ERROR_FORMAT, "rank %u, or its token, is there twice", (unsigned)rank);
    return vocab_add(&t->vocab, bytes->data, bytes->length, id, err);
}

static bool read_tekken_special(struct tokenizer *t, const struct json *item, uint32_t n_special,
                                struct mx_error *err) {
    const struct json *text = json_get(item, "token_str");
    int64_t rank = json_integer(json_get(item, "rank"), -1);
    if (rank < 0 || rank >= n_special || !json_is_string(text) || memchr(text->string, '\0', text->count))
        return error_set(err, ERROR_FORMAT, "an entry of 'special_tokens' without 'rank' or 'token_str'");
    const char *copy = json_string_copy(&t->arena, text);
    if (!copy) return error_memory(err, "added tokens");
    return !*copy || tokenizer_add_special(t, copy, (uint32_t)rank, false, err);
}

static bool read_tekken(struct tokenizer *t, const struct tokenizer_folder *folder, const struct json *root,
                        struct mx_error *err) {
    const struct json *config = json_get(root, "config"), *vocab = json_get(root, "vocab");
    const struct json *pattern = json_get(config, "pattern"), *specials = json_get(root, "special_tokens");
    int64_t n_special = json_integer(json_get(config, "default_num_special_tokens"), 1000);
    int64_t size = json_integer(json_get(config, "default_vocab_size"), 131072);
    if (!json_is_array(vocab) || !json_is_string(pattern))
        return error_set(err, ERROR_FORMAT, "no 'vocab', or no 'config.pattern'");
    if (n_special < 0 || n_special > size || size > VOCAB_MAX_ID)
        return error_set(err, ERROR_FORMAT, "a vocabulary of %lld tokens, %lld of them special", (long long)size,
                         (long long)n_special);
    struct buffer bytes = {0};
    bool ok = true;
    for (size_t i = 0; i < vocab->count && ok; i++)
        ok = read_tekken_token(t, &vocab->items[i], (uint32_t)n_special, (uint32_t)(size - n_special), &bytes, err);
    buffer_free(&bytes);
    for (size_t i = 0; ok && json_is_array(specials) && i < specials->count; i++)
        ok = read_tekken_special(t, &specials->items[i], (uint32_t)n_special, err);
    return ok && finish(t, folder, pattern->string, pattern->count, json_is_array(specials), err);
}

bool tokenizer_load_tekken(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                           struct mx_error *err) {
    struct file_map map = {0};
    struct arena tree = {0};
    if (!file_map_open(&map, path, err)) return false;
    const struct json *root = json_parse(&tree, (const char *)map.data, map.size, JSON_STRICT, 64, err);
    bool ok = root && read_tekken(t, folder, root, err);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    arena_free(&tree);
    file_map_close(&map);
    return ok;
}
