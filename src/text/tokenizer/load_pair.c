/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies as older tokenizers keep them: vocab.json + merges.txt (byte-level BPE), and vocab.txt (WordPiece).
 *
 * What surrounds the model is not in these files. It is known from the tokenizer's class (tokenizer_config.json), the
 * model's type (config.json), or tokens that give the family away; it is written here as tokenizer.json would have it. */
#include "text/tokenizer/core.h"
#include "text/tokenizer/merge_batch.h"

#include "base/file.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)256 << 20)

/* ---- families ---- */

struct family {
    const char *class;        /* the tokenizer's class begins with it, as the model's type does in lower case */
    const char *tokens;       /* or the vocabulary has all of these, separated by commas; NULL = never by tokens */
    const char *parts;        /* normalizer, pre_tokenizer, decoder */
    const char *suffix;       /* of the last token of a word */
    const char *specials;     /* separated by commas; "^" before one that takes spaces in front */
    const char *first, *last; /* tokens around a text, of Roberta's kind for pairs; NULL = none */
};

#define QWEN_PARTS                                                                                                     \
    "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"        \
    "\"Split\","                                                                                                       \
    "\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"          \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":"             \
    "\"Isolated\"},"                                                                                                   \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"},"  \
    "\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":false}}"
#define GPT2_PARTS                                                                                                     \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"     \
    "\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true,\"add_prefix_space\":false}}"
#define CLIP_PARTS                                                                                                     \
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\",\"pattern\":"    \
    "{\"Regex\":\"\\\\s+\"},\"content\":\" \"},{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\","   \
    "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|'"  \
    "s|'t|"                                                                                                            \
    "'re|'ve|'m|'ll|'d|[\\\\p{L}]+|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+\"},\"behavior\":\"Removed\",\"invert\":true}," \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]},\"decoder\":{\"type\":\"ByteLevel\"}}"

static const struct family families[] = {
    {"CLIP", "<|startoftext|>,the</w>", CLIP_PARTS, "</w>", "<|startoftext|>,<|endoftext|>", "<|startoftext|>",
     "<|endoftext|>"},
    {"Qwen", NULL, QWEN_PARTS, NULL, "<|endoftext|>,<|im_start|>,<|im_end|>", NULL, NULL},
    {"Roberta", "<s>,<pad>,</s>,<unk>,<mask>", GPT2_PARTS, NULL, "<s>,<pad>,</s>,<unk>,^<mask>", "<s>", "</s>"},
    {"Bart", NULL, GPT2_PARTS, NULL, "<s>,<pad>,</s>,<unk>,^<mask>", "<s>", "</s>"},
    {"", "", GPT2_PARTS, NULL, "<|endoftext|>,<|im_start|>,<|im_end|>,<s>,</s>,<pad>,<unk>", NULL, NULL},
};

static bool begins_with(const struct json *text, const char *start, bool in_lower_case) {
    size_t n = strlen(start);
    if (!json_is_string(text) || text->count < n) return false;
    for (size_t i = 0; i < n; i++) {
        char c = start[i];
        if (in_lower_case && c >= 'A' && c <= 'Z') c = (char)(c + 32);
        if (text->string[i] != c) return false;
    }
    return true;
}

static bool has_tokens(const struct tokenizer *t, const char *list) {
    uint32_t id;
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        if (!vocab_find(&t->vocab, at, n, &id)) return false;
        at += n + (at[n] == ',');
    }
    return true;
}

static const struct family *find_family(const struct tokenizer *t, const struct tokenizer_folder *folder) {
    const struct json *class = json_get(folder->config, "tokenizer_class");
    const struct json *type = json_get(folder->model, "model_type");
    const size_t n = sizeof families / sizeof *families;
    for (size_t i = 0; i + 1 < n && (class || type); i++)
        if (begins_with(class, families[i].class, false) || begins_with(type, families[i].class, true))
            return &families[i];
    for (size_t i = 0; i < n; i++)
        if (families[i].tokens && has_tokens(t, families[i].tokens)) return &families[i];
    return &families[n - 1];
}

static bool add_specials(struct tokenizer *t, const char *list, struct mx_error *err) {
    for (const char *at = list; *at;) {
        bool lstrip = *at == '^';
        at += lstrip;
        size_t n = strcspn(at, ",");
        uint32_t id;
        const char *text = arena_copy(&t->arena, at, n);
        if (!text) return error_memory(err, "added tokens");
        if (vocab_find(&t->vocab, at, n, &id) && !tokenizer_add_special(t, text, id, lstrip, err)) return false;
        at += n + (at[n] == ',');
    }
    return true;
}

/* Parts of a tokenizer.json, from text. */
static bool load_parts(struct tokenizer *t, const char *text, struct mx_error *err) {
    struct arena tree = {0};
    const struct json *root = json_parse(&tree, text, strlen(text), JSON_STRICT, 64, err);
    bool ok = root && tokenizer_load_parts(t, root, err);
    arena_free(&tree);
    return ok;
}

/* Writes the post-processor of a kind that has tokens around a text, as tokenizer.json would have it, and reads it. */
static bool surround(struct tokenizer *t, const char *type, const char *first, const char *last, struct mx_error *err) {
    struct arena tree = {0};
    struct buffer text = {0};
    uint32_t first_id, last_id;
    if (!vocab_find(&t->vocab, first, strlen(first), &first_id) || !vocab_find(&t->vocab, last, strlen(last), &last_id))
        return true;
    buffer_printf(&text, "{\"type\":\"%s\",\"sep\":[\"%s\",%u],\"cls\":[\"%s\",%u],\"add_prefix_space\":false}", type,
                  last, last_id, first, first_id);
    const struct json *json = text.failed ? NULL : json_parse(&tree, text.data, text.length, JSON_STRICT, 8, err);
    t->postprocessor = (struct postprocessor){0};
    bool ok = json && postprocessor_load(&t->postprocessor, json, &t->arena, err);
    if (text.failed) error_memory(err, "post-processor");
    buffer_free(&text);
    arena_free(&tree);
    return ok;
}

/* ---- vocab.json and merges.txt ---- */

static bool read_merges(struct tokenizer *t, const char *text, size_t size, struct mx_error *err) {
    struct merge_batch batch = {.t = t};
    bool ok = true;
    for (size_t at = 0; at < size && ok;) {
        const char *line = text + at, *newline = memchr(line, '\n', size - at);
        size_t length = newline ? (size_t)(newline - line) : size - at;
        at += length + 1;
        if (length && line[length - 1] == '\r') length--;
        if (!length || (length >= 8 && !memcmp(line, "#version", 8))) continue;
        const char *space = memchr(line, ' ', length);
        if (!space || memchr(space + 1, ' ', length - (size_t)(space + 1 - line))) {
            ok = error_set(err, ERROR_FORMAT, "merge %u is not two tokens", batch.rank + (uint32_t)batch.count);
            break;
        }
        const struct merge_text merge = {line, space + 1, (size_t)(space - line), length - (size_t)(space + 1 - line)};
        ok = merge_batch_add(&batch, &merge, err);
    }
    return merge_batch_finish(&batch, ok, err);
}

static size_t count_lines(const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += text[i] == '\n';
    return n;
}

static bool load_merges(struct tokenizer *t, const struct tokenizer_folder *folder, struct mx_error *err) {
    size_t size;
    const char *path = path_join(&t->arena, folder->path, "merges.txt");
    if (!path) return error_memory(err, "path");
    if (!file_exists(path)) return error_set(err, ERROR_IO, "there is no merges.txt beside it");
    char *text = file_read(path, MAX_FILE_BYTES, &size, err);
    bool ok = text && tokenizer_prepare_bpe(t, count_lines(text, size), err) &&
              (read_merges(t, text, size, err) || error_prefix(err, "merges.txt"));
    free(text);
    return ok;
}

bool tokenizer_load_pair(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                         struct mx_error *err) {
    struct file_map map = {0};
    struct arena tree = {0};
    if (!file_map_open(&map, path, err)) return false;
    const struct json *vocab = json_parse(&tree, (const char *)map.data, map.size, JSON_STRICT, 64, err);
    bool ok = vocab && tokenizer_load_vocab(t, vocab, err);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    arena_free(&tree);
    file_map_close(&map);
    if (!ok) return false;
    const struct family *family = find_family(t, folder);
    struct bpe *bpe = &t->bpe;
    t->kind = MODEL_BPE;
    bpe->vocab = &t->vocab;
    bpe->suffix = family->suffix;
    bpe->suffix_length = family->suffix ? strlen(family->suffix) : 0;
    if (family->suffix) bpe->has_unk = vocab_find(&t->vocab, "<|endoftext|>", 13, &bpe->unk_id);
    return load_parts(t, family->parts, err) && load_merges(t, folder, err) &&
           (!family->first || surround(t, "RobertaProcessing", family->first, family->last, err)) &&
           (json_get(folder->config, "added_tokens_decoder") ? true : add_specials(t, family->specials, err)) &&
           tokenizer_add_configured(t, folder, err) && tokenizer_finish_added(t, err);
}

/* ---- vocab.txt ---- */

static bool read_words(struct tokenizer *t, const char *text, size_t size, bool *has_upper_case, struct mx_error *err) {
    uint32_t id = 0;
    if (size && utf8_valid_prefix(text, size) < size) return error_set(err, ERROR_FORMAT, "the file is no UTF-8");
    for (size_t at = 0; at < size; id++) {
        const char *line = text + at, *newline = memchr(line, '\n', size - at);
        size_t length = newline ? (size_t)(newline - line) : size - at;
        at += length + 1;
        if (length && line[length - 1] == '\r') length--;
        for (size_t i = 0; i < length && line[0] != '['; i++)
            if (line[i] >= 'A' && line[i] <= 'Z') *has_upper_case = true;
        if (length && !vocab_add(&t->vocab, line, length, id, err)) return false;
    }
    return t->vocab.n_texts || error_set(err, ERROR_FORMAT, "the file holds no tokens");
}

bool tokenizer_load_words(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                          struct mx_error *err) {
    struct file_map map = {0};
    struct wordpiece *w = &t->wordpiece;
    bool has_upper_case = false;
    if (!file_map_open(&map, path, err)) return false;
    bool ok = read_words(t, (const char *)map.data, map.size, &has_upper_case, err);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    file_map_close(&map);
    if (!ok) return false;
    bool lowers = json_bool(json_get(folder->config, "do_lower_case"), !has_upper_case);
    bool strips = json_bool(json_get(folder->config, "strip_accents"), lowers);
    bool spaces_han = json_bool(json_get(folder->config, "tokenize_chinese_chars"), true);
    char parts[400];
    snprintf(parts, sizeof parts,
             "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":%s,\"strip_accents\":%s,\"handle_chinese_"
             "chars\":%s},"
             "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\"}}",
             lowers ? "true" : "false", strips ? "true" : "false", spaces_han ? "true" : "false");
    t->kind = MODEL_WORDPIECE;
    *w = (struct wordpiece){.vocab = &t->vocab, .prefix = "##", .prefix_length = 2, .max_characters = 100};
    if (!vocab_find(&t->vocab, "[UNK]", 5, &w->unk_id)) w->unk_id = VOCAB_NONE;
    return load_parts(t, parts, err) && surround(t, "BertProcessing", "[CLS]", "[SEP]", err) &&
           (json_get(folder->config, "added_tokens_decoder")
                ? true
                : add_specials(t, "[PAD],[UNK],[CLS],[SEP],[MASK]", err)) &&
           tokenizer_add_configured(t, folder, err) && tokenizer_finish_added(t, err);
}
