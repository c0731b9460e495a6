/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json, the format of the Hugging Face library. */
#include "text/tokenizer/core.h"
#include "text/tokenizer/merge_batch.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#include <math.h>
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

bool tokenizer_load_vocab(struct tokenizer *t, const struct json *vocab, struct mx_error *err) {
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

static bool load_merges(struct tokenizer *t, const struct json *merges, struct mx_error *err) {
    if (!json_is_array(merges))
        return error_set(err, ERROR_FORMAT, "model.merges is %s, not an array", json_type_name(merges));
    struct merge_batch batch = {.t = t};
    bool ok = true;
    for (size_t i = 0; i < merges->count && ok; i++) {
        struct merge_text merge = {0};
        ok = read_merge(&merges->items[i], &merge, err) && merge_batch_add(&batch, &merge, err);
    }
    return merge_batch_finish(&batch, ok, err);
}

bool tokenizer_prepare_bpe(struct tokenizer *t, size_t n_merges, struct mx_error *err) {
    struct bpe *bpe = &t->bpe;
    /* Where the pre-tokenizer ends in ByteLevel and every byte has its token, pieces may stay bytes. */
    bpe->works_on_bytes =
        pretokenizer_ends_in_bytelevel(&t->pretokenizer) && !bpe->prefix_length && !bpe->suffix_length;
    if (!bpe_prepare(bpe, n_merges, err)) return false;
    if (bpe->works_on_bytes && !bpe->has_all_bytes) {
        bpe->works_on_bytes = false;
        if (!bpe_prepare(bpe, n_merges, err)) return false;
    }
    t->pretokenizer.keeps_bytes = bpe->works_on_bytes;
    return true;
}

static bool load_bpe(struct tokenizer *t, const struct json *model, struct mx_error *err) {
    struct bpe *bpe = &t->bpe;
    const struct json *unk = json_get(model, "unk_token");
    bpe->vocab = &t->vocab;
    bpe->ignore_merges = json_bool(json_get(model, "ignore_merges"), false);
    bpe->byte_fallback = json_bool(json_get(model, "byte_fallback"), false);
    bpe->fuse_unk = json_bool(json_get(model, "fuse_unk"), false);
    bpe->has_unk = json_is_string(unk);
    if (!bpe->has_unk || !vocab_find(&t->vocab, unk->string, unk->count, &bpe->unk_id)) bpe->unk_id = VOCAB_NONE;
    if (!copy_optional(t, json_get(model, "continuing_subword_prefix"), &bpe->prefix, &bpe->prefix_length, err) ||
        !copy_optional(t, json_get(model, "end_of_word_suffix"), &bpe->suffix, &bpe->suffix_length, err))
        return false;
    const struct json *merges = json_get(model, "merges");
    return tokenizer_prepare_bpe(t, json_is_array(merges) ? merges->count : 0, err) && load_merges(t, merges, err);
}

/* ---- Unigram ---- */

/* The reference reads a score as an integer of all its digits, rounded, over a power of ten, which may miss the nearest
 * double by one bit; sums that are nearly equal depend on it. The digits are those of the shortest decimal. */
static double reread_score(double score) {
    long double power = 1e12L;
    double magnitude = fabs(score);
    if (!(magnitude > 1e-6) || magnitude >= 1e6) return score;
    for (int k = 12; k < 19; k++, power *= 10) {
        long double digits = roundl((long double)magnitude * power);
        if (digits >= 0x1p63L) break;
        if ((double)(digits / power) != magnitude) continue;
        double result = (double)digits / (double)power;
        return score < 0 ? -result : result;
    }
    return score;
}

static bool load_scored_token(struct tokenizer *t, const struct json *pair, uint32_t id, struct mx_error *err) {
    const struct json *text = json_at(pair, 0), *score = json_at(pair, 1);
    uint32_t before;
    if (!json_is_string(text) || !json_is_number(score))
        return error_set(err, ERROR_FORMAT, "model.vocab: item %u is not a token and its score", id);
    /* Of equal tokens the last one counts in encoding, and all of them in decoding. */
    struct vocab_token kept = {0};
    bool is_known = vocab_find(&t->vocab, text->string, text->count, &before);
    if (is_known) kept = t->vocab.tokens[before];
    if (!vocab_add(&t->vocab, text->string, text->count, id, err)) return false;
    if (is_known) t->vocab.tokens[before] = kept;
    t->unigram.scores[id] = reread_score(json_number(score, 0));
    return true;
}

static bool load_unigram(struct tokenizer *t, const struct json *model, struct mx_error *err) {
    struct unigram *u = &t->unigram;
    const struct json *list = json_get(model, "vocab"), *unk = json_get(model, "unk_id");
    double lowest = INFINITY;
    if (!json_is_array(list))
        return error_set(err, ERROR_FORMAT, "model.vocab is %s, not an array", json_type_name(list));
    if (!vocab_reserve(&t->vocab, list->count, list->count, err)) return false;
    u->vocab = &t->vocab;
    u->scores = array_calloc(list->count, sizeof *u->scores);
    u->n_scores = list->count;
    if (!u->scores) return error_memory(err, "vocabulary");
    for (uint32_t id = 0; id < list->count; id++) {
        if (!load_scored_token(t, &list->items[id], id, err)) return false;
        if (u->scores[id] < lowest) lowest = u->scores[id];
    }
    int64_t unk_id = json_integer(unk, -1);
    if (!json_is_null(unk) && (unk_id < 0 || unk_id >= list->count))
        return error_set(err, ERROR_FORMAT, "model.unk_id is no token");
    u->unk_id = json_is_null(unk) ? VOCAB_NONE : (uint32_t)unk_id;
    u->unk_score = lowest - UNIGRAM_UNKNOWN_PENALTY;
    u->byte_fallback = json_bool(json_get(model, "byte_fallback"), false);
    return unigram_prepare(u, NULL, err);
}

/* ---- WordPiece and WordLevel ---- */

static bool load_words(struct tokenizer *t, const struct json *model, struct mx_error *err) {
    struct wordpiece *w = &t->wordpiece;
    const struct json *unk = json_get(model, "unk_token"), *prefix = json_get(model, "continuing_subword_prefix");
    bool whole_words = t->kind == MODEL_WORDLEVEL;
    int64_t most = json_integer(json_get(model, "max_input_chars_per_word"), 100);
    if (!tokenizer_load_vocab(t, json_get(model, "vocab"), err)) return false;
    w->vocab = &t->vocab;
    w->whole_words = whole_words;
    w->max_characters = most < 0 ? 0 : (size_t)most;
    w->prefix = "##";
    w->prefix_length = 2;
    if (!copy_optional(t, prefix, &w->prefix, &w->prefix_length, err)) return false;
    const char *unk_text = json_is_string(unk) ? unk->string : whole_words ? "<unk>" : "[UNK]";
    size_t unk_length = json_is_string(unk) ? unk->count : 5;
    if (!vocab_find(&t->vocab, unk_text, unk_length, &w->unk_id)) w->unk_id = VOCAB_NONE;
    return true;
}

/* ---- the model and the rest ---- */

/* Old files leave the type out. */
static enum model_kind kind_of(const struct json *model) {
    static const struct {
        const char *name;
        enum model_kind kind;
    } names[] = {
        {"BPE", MODEL_BPE}, {"Unigram", MODEL_UNIGRAM}, {"WordLevel", MODEL_WORDLEVEL}, {"WordPiece", MODEL_WORDPIECE}};
    const struct json *type = json_get(model, "type");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_string_is(type, names[i].name)) return names[i].kind;
    if (type) return MODEL_NONE;
    if (json_get(model, "merges")) return MODEL_BPE;
    if (json_is_array(json_get(model, "vocab"))) return MODEL_UNIGRAM;
    return json_get(model, "max_input_chars_per_word") ? MODEL_WORDPIECE : MODEL_WORDLEVEL;
}

static bool load_model(struct tokenizer *t, const struct json *model, struct mx_error *err) {
    const struct json *type = json_get(model, "type");
    if (!json_is_object(model))
        return error_set(err, ERROR_FORMAT, "'model' is %s, not an object", json_type_name(model));
    t->kind = kind_of(model);
    switch (t->kind) {
    case MODEL_BPE: return tokenizer_load_vocab(t, json_get(model, "vocab"), err) && load_bpe(t, model, err);
    case MODEL_UNIGRAM: return load_unigram(t, model, err);
    case MODEL_WORDPIECE:
    case MODEL_WORDLEVEL: return load_words(t, model, err);
    default: break;
    }
    if (!json_is_string(type)) return error_set(err, ERROR_FORMAT, "the model's type is no string");
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

bool tokenizer_load_parts(struct tokenizer *t, const struct json *root, struct mx_error *err) {
    if (!json_is_object(root)) return error_set(err, ERROR_FORMAT, "not a JSON object");
    return normalizer_load(&t->normalizer, json_get(root, "normalizer"), &t->arena, err) &&
           pretokenizer_load(&t->pretokenizer, json_get(root, "pre_tokenizer"), err) &&
           postprocessor_load(&t->postprocessor, json_get(root, "post_processor"), &t->arena, err) &&
           decoder_load(&t->decoder, json_get(root, "decoder"), &t->arena, err);
}

static bool load_root(struct tokenizer *t, const struct json *root, struct mx_error *err) {
    return tokenizer_load_parts(t, root, err) && load_model(t, json_get(root, "model"), err) &&
           load_added(t, json_get(root, "added_tokens"), err) && tokenizer_finish_added(t, err);
}

bool tokenizer_load_json(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                         struct mx_error *err) {
    (void)folder;
    struct file_map map = {0};
    struct arena tree = {0};
    if (!file_map_open(&map, path, err)) return false;
    const struct json *root = json_parse(&tree, (const char *)map.data, map.size, JSON_STRICT, MAX_DEPTH, err);
    bool ok = root && load_root(t, root, err);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    arena_free(&tree);
    file_map_close(&map);
    return ok;
}
