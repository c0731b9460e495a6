/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json, the format of the Hugging Face library. */
#include "text/tokenizer/core.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#include <string.h>

#define MAX_DEPTH 64

static bool read_id(const struct json *json, uint32_t *id, struct mx_error *err) {
    int64_t value = json_integer(json, -1);
    if (value < 0 || value > VOCAB_MAX_ID)
        return error_set(err, ERROR_FORMAT, "a token's id in the vocabulary is %s",
                         value < 0 ? "no number" : "too large");
    *id = (uint32_t)value;
    return true;
}

static bool load_vocab(struct tokenizer *t, const struct json *vocab, struct mx_error *err) {
    if (!json_is_object(vocab))
        return error_set(err, ERROR_FORMAT, "model.vocab is %s, not an object", json_type_name(vocab));
    if (!vocab_reserve(&t->vocab, vocab->count, vocab->count, err)) return false;
    for (size_t i = 0; i < vocab->count; i++) {
        const struct json_member *member = &vocab->members[i];
        uint32_t id = 0;
        if (!read_id(&member->value, &id, err) || !vocab_add(&t->vocab, member->key, member->key_length, id, err))
            return false;
    }
    return true;
}

static bool copy_optional(struct tokenizer *t, const struct json *json, const char **text, size_t *length,
                          struct mx_error *err) {
    if (!json_is_string(json)) return true;
    *length = json->count;
    *text = arena_copy(&t->arena, json->string, json->count);
    return *text || error_memory(err, "model");
}

/* ---- BPE ---- */

struct merge_text {
    const char *left, *right;
    size_t left_length, right_length;
};

static bool read_merge(const struct json *json, struct merge_text *merge, struct mx_error *err) {
    if (json_is_array(json) && json->count == 2 && json_is_string(&json->items[0]) && json_is_string(&json->items[1])) {
        *merge = (struct merge_text){json->items[0].string, json->items[1].string, json->items[0].count,
                                     json->items[1].count};
        return true;
    }
    const char *space = json_is_string(json) ? memchr(json->string, ' ', json->count) : NULL;
    if (!space || memchr(space + 1, ' ', json->count - (size_t)(space + 1 - json->string)))
        return error_set(err, ERROR_FORMAT, "a merge is not two tokens");
    *merge = (struct merge_text){json->string, space + 1, (size_t)(space - json->string),
                                 json->count - (size_t)(space + 1 - json->string)};
    return true;
}

static bool resolve_merge(struct tokenizer *t, const struct merge_text *merge, uint32_t rank, struct buffer *joined,
                          struct mx_error *err) {
    uint32_t left, right, result;
    size_t skip = t->bpe.prefix_length;
    if (!vocab_find(&t->vocab, merge->left, merge->left_length, &left) ||
        !vocab_find(&t->vocab, merge->right, merge->right_length, &right) || merge->right_length < skip)
        return error_set(err, ERROR_FORMAT, "merge %u: '%.*s' or '%.*s' is not in the vocabulary", rank,
                         (int)(merge->left_length & 0xff), merge->left, (int)(merge->right_length & 0xff),
                         merge->right);
    buffer_clear(joined);
    buffer_append(joined, merge->left, merge->left_length);
    buffer_append(joined, merge->right + skip, merge->right_length - skip);
    if (joined->failed) return error_memory(err, "merges");
    if (!vocab_find(&t->vocab, joined->data, joined->length, &result))
        return error_set(err, ERROR_FORMAT, "merge %u: '%.*s' is not in the vocabulary", rank,
                         (int)(joined->length & 0xff), joined->data);
    return bpe_add_merge(&t->bpe, left, right, rank, result, err);
}

static bool load_merges(struct tokenizer *t, const struct json *merges, struct mx_error *err) {
    if (!json_is_array(merges))
        return error_set(err, ERROR_FORMAT, "model.merges is %s, not an array", json_type_name(merges));
    if (!merges_reserve(&t->bpe.merges, merges->count, err)) return false;
    struct buffer joined = {0};
    bool ok = true;
    for (size_t i = 0; i < merges->count && ok; i++) {
        struct merge_text merge = {0};
        ok = read_merge(&merges->items[i], &merge, err) && resolve_merge(t, &merge, (uint32_t)i, &joined, err);
    }
    buffer_free(&joined);
    return ok;
}

static bool load_bpe(struct tokenizer *t, const struct json *model, struct mx_error *err) {
    struct bpe *bpe = &t->bpe;
    const struct json *unk = json_get(model, "unk_token");
    t->kind = MODEL_BPE;
    bpe->vocab = &t->vocab;
    bpe->ignore_merges = json_bool(json_get(model, "ignore_merges"), false);
    bpe->byte_fallback = json_bool(json_get(model, "byte_fallback"), false);
    bpe->fuse_unk = json_bool(json_get(model, "fuse_unk"), false);
    bpe->has_unk = json_is_string(unk);
    if (!bpe->has_unk || !vocab_find(&t->vocab, unk->string, unk->count, &bpe->unk_id)) bpe->unk_id = VOCAB_NONE;
    if (!copy_optional(t, json_get(model, "continuing_subword_prefix"), &bpe->prefix, &bpe->prefix_length, err) ||
        !copy_optional(t, json_get(model, "end_of_word_suffix"), &bpe->suffix, &bpe->suffix_length, err))
        return false;
    /* Where the pre-tokenizer ends in ByteLevel and every byte has its token, pieces may stay bytes. */
    bpe->works_on_bytes =
        pretokenizer_ends_in_bytelevel(&t->pretokenizer) && !bpe->prefix_length && !bpe->suffix_length;
    if (!bpe_prepare(bpe, err)) return false;
    if (bpe->works_on_bytes && !bpe->has_all_bytes) {
        bpe->works_on_bytes = false;
        if (!bpe_prepare(bpe, err)) return false;
    }
    t->pretokenizer.keeps_bytes = bpe->works_on_bytes;
    return load_merges(t, json_get(model, "merges"), err) && bpe_finish(bpe, err);
}

/* ---- the model and the rest ---- */

static bool load_model(struct tokenizer *t, const struct json *model, struct mx_error *err) {
    const struct json *type = json_get(model, "type");
    if (!json_is_object(model))
        return error_set(err, ERROR_FORMAT, "'model' is %s, not an object", json_type_name(model));
    if (json_string_is(type, "BPE") || (!type && json_get(model, "merges")))
        return load_vocab(t, json_get(model, "vocab"), err) && load_bpe(t, model, err);
    if (!json_is_string(type)) return error_set(err, ERROR_FORMAT, "'model' has no type");
    return error_set(err, ERROR_UNSUPPORTED, "model '%.*s' is not known", (int)(type->count & 0xff), type->string);
}

static bool load_added(struct tokenizer *t, const struct json *list, struct mx_error *err) {
    for (size_t i = 0; json_is_array(list) && i < list->count; i++) {
        const struct json *json = &list->items[i], *content = json_get(json, "content");
        if (!json_is_string(content)) return error_set(err, ERROR_FORMAT, "an added token without 'content'");
        if (!content->count) continue;
        struct added_token token = {.length = content->count};
        token.is_special = json_bool(json_get(json, "special"), false);
        token.is_normalized = json_bool(json_get(json, "normalized"), !token.is_special);
        token.single_word = json_bool(json_get(json, "single_word"), false);
        token.lstrip = json_bool(json_get(json, "lstrip"), false);
        token.rstrip = json_bool(json_get(json, "rstrip"), false);
        token.content = arena_copy(&t->arena, content->string, content->count);
        if (!token.content) return error_memory(err, "added tokens");
        if (!tokenizer_add_token(t, &token, err)) return false;
    }
    return true;
}

static bool load_parts(struct tokenizer *t, const struct json *root, struct mx_error *err) {
    if (!json_is_object(root)) return error_set(err, ERROR_FORMAT, "not a JSON object");
    return normalizer_load(&t->normalizer, json_get(root, "normalizer"), &t->arena, err) &&
           pretokenizer_load(&t->pretokenizer, json_get(root, "pre_tokenizer"), err) &&
           postprocessor_load(&t->postprocessor, json_get(root, "post_processor"), &t->arena, err) &&
           decoder_load(&t->decoder, json_get(root, "decoder"), &t->arena, err) &&
           load_model(t, json_get(root, "model"), err) && load_added(t, json_get(root, "added_tokens"), err) &&
           tokenizer_finish_added(t, err);
}

bool tokenizer_load_json(struct tokenizer *t, const char *path, struct mx_error *err) {
    struct file_map map = {0};
    struct arena tree = {0};
    if (!file_map_open(&map, path, err)) return false;
    const struct json *root = json_parse(&tree, (const char *)map.data, map.size, JSON_STRICT, MAX_DEPTH, err);
    bool ok = root && load_parts(t, root, err);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    arena_free(&tree);
    file_map_close(&map);
    return ok;
}
