/* SPDX-License-Identifier: Apache-2.0 */
/* What tokenizer_config.json says about tokenizers whose own files do not: added tokens, and special tokens around a
 * text. */
#include "text/tokenizer/core.h"

#include "base/file.h"
#include "base/memory.h"

#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)64 << 20)

/* An added token whose id the file gives. One that the vocabulary holds keeps the vocabulary's id. */
static bool add_token(struct tokenizer *t, const struct json *content, int64_t id, const struct json *flags,
                      bool is_special, struct mx_error *err) {
    struct added_token token = {.has_id = true};
    if (!json_is_string(content) || !content->count) return true;
    if (id < 0 || id > VOCAB_MAX_ID) return error_set(err, ERROR_FORMAT, "an added token's id is out of range");
    token.id = (uint32_t)id;
    token.length = content->count;
    uint32_t known;
    if (!t->bpe.texts_are_bytes && vocab_find(&t->vocab, content->string, content->count, &known)) token.id = known;
    token.content = arena_copy(&t->arena, content->string, content->count);
    token.is_special = json_bool(json_get(flags, "special"), is_special);
    token.single_word = json_bool(json_get(flags, "single_word"), false);
    token.lstrip = json_bool(json_get(flags, "lstrip"), false);
    token.rstrip = json_bool(json_get(flags, "rstrip"), false);
    if (!token.content) return error_memory(err, "added tokens");
    return tokenizer_add_token(t, &token, err);
}

static int64_t id_of_key(const struct json_member *member) {
    int64_t id = 0;
    for (size_t i = 0; i < member->key_length; i++) {
        char c = member->key[i];
        if (c < '0' || c > '9' || id > VOCAB_MAX_ID) return -1;
        id = id * 10 + (c - '0');
    }
    return member->key_length ? id : -1;
}

bool tokenizer_add_list(struct tokenizer *t, const struct json *list, struct mx_error *err) {
    for (size_t i = 0; json_is_object(list) && i < list->count; i++) {
        const struct json_member *member = &list->members[i];
        const struct json content = {.type = JSON_STRING, .count = member->key_length, .string = member->key};
        if (!add_token(t, &content, json_integer(&member->value, -1), NULL, true, err)) return false;
    }
    return true;
}

/* {"<|im_start|>": 151644, ...} */
static bool read_added_file(struct tokenizer *t, const struct tokenizer_folder *folder, struct mx_error *err) {
    struct arena tree = {0};
    size_t length;
    const char *path = path_join(&t->arena, folder->path, "added_tokens.json");
    if (!path) return error_memory(err, "path");
    if (!file_exists(path)) return true;
    char *text = file_read(path, MAX_CONFIG_BYTES, &length, err);
    if (!text) return false;
    const struct json *list = json_parse(&tree, text, length, JSON_STRICT, 64, err);
    bool ok = list && tokenizer_add_list(t, list, err);
    if (!ok) error_prefix(err, "added_tokens.json");
    free(text);
    arena_free(&tree);
    return ok;
}

bool tokenizer_add_special(struct tokenizer *t, const char *text, uint32_t id, bool lstrip, struct mx_error *err) {
    struct added_token token = {.has_id = true, .id = id, .is_special = true, .lstrip = lstrip};
    token.length = (uint32_t)strlen(text);
    token.content = arena_copy(&t->arena, text, token.length);
    return token.content ? tokenizer_add_token(t, &token, err) : error_memory(err, "added tokens");
}

bool tokenizer_add_configured(struct tokenizer *t, const struct tokenizer_folder *folder, struct mx_error *err) {
    const struct json *list = json_get(folder->config, "added_tokens_decoder");
    if (!json_is_object(list)) return read_added_file(t, folder, err);
    for (size_t i = 0; i < list->count; i++) {
        const struct json *flags = &list->members[i].value;
        if (!add_token(t, json_get(flags, "content"), id_of_key(&list->members[i]), flags, false, err))
            return error_prefix(err, "tokenizer_config.json");
    }
    return true;
}

/* The token of a role: as the configuration names it, else as the vocabulary file does. */
static bool find_role(const struct tokenizer *t, const struct tokenizer_folder *folder, enum token_role role,
                      const char *key, struct template_token *token) {
    const struct json *value = json_get(folder->config, key);
    const char *text = NULL;
    size_t length = 0;
    if (json_is_object(value)) value = json_get(value, "content");
    if (json_is_string(value) && tokenizer_find(t, value->string, value->count, &token->id))
        return tokenizer_token_text(t, token->id, &token->text, &length) && (token->length = (uint32_t)length, true);
    if (t->role_ids[role] < 0) return false;
    token->id = (uint32_t)t->role_ids[role];
    if (!tokenizer_token_text(t, token->id, &text, &length)) return false;
    token->text = text;
    token->length = (uint32_t)length;
    return true;
}

bool tokenizer_surround(struct tokenizer *t, const struct tokenizer_folder *folder, bool adds_bos, bool adds_eos,
                        struct mx_error *err) {
    struct template_token bos = {0}, eos = {0};
    adds_bos = json_bool(json_get(folder->config, "add_bos_token"), adds_bos);
    adds_eos = json_bool(json_get(folder->config, "add_eos_token"), adds_eos);
    adds_bos = adds_bos && find_role(t, folder, TOKEN_BOS, "bos_token", &bos);
    adds_eos = adds_eos && find_role(t, folder, TOKEN_EOS, "eos_token", &eos);
    if (!adds_bos && !adds_eos) return true;
    return postprocessor_surround(&t->postprocessor, adds_bos ? &bos : NULL, adds_eos ? &eos : NULL, &t->arena, err);
}
