/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.model: the protocol buffer that SentencePiece writes. */
#include "text/tokenizer/core.h"
#include "text/tokenizer/protobuf.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Numbers of fields. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum {
    TRAINER_KIND = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_FALLBACK = 35,
    TRAINER_UNK_ID = 40,
    TRAINER_BOS_ID = 41,
    TRAINER_EOS_ID = 42,
    TRAINER_PAD_ID = 43,
    TRAINER_UNK_SURFACE = 44
};
enum { NORMALIZER_MAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_EXTRA_SPACES = 4, NORMALIZER_ESCAPES = 5 };

struct loading {
    struct tokenizer *t;
    struct sentencepiece *sp;
    float *scores; /* by id */
    size_t n_pieces, type_capacity, score_capacity;
    const char *unk_surface;
    size_t unk_surface_length;
    struct mx_error *err;
};

static struct protobuf message(const struct protobuf_field *field, const char *what) {
    return (struct protobuf){.at = field->bytes, .end = field->bytes + field->length, .what = what};
}

/* ---- reading ---- */

static bool read_piece(struct loading *l, const struct protobuf_field *piece) {
    struct protobuf m = message(piece, "a piece");
    struct protobuf_field field, text = {0};
    struct mx_error *err = l->err;
    float score = 0;
    uint64_t type = PIECE_NORMAL;
    uint32_t before;
    err->code = ERROR_NONE;
    while (protobuf_next(&m, &field, err)) {
        if (field.number == PIECE_TEXT) text = field;
        if (field.number == PIECE_SCORE) score = protobuf_float(&field);
        if (field.number == PIECE_TYPE) type = field.value;
    }
    if (err->code) return false;
    uint32_t id = (uint32_t)l->n_pieces;
    if (!text.bytes || !text.length || type < PIECE_NORMAL || type > PIECE_BYTE)
        return error_set(err, ERROR_FORMAT, "piece %u has no text, or an unknown type", id);
    if (!isfinite(score)) return error_set(err, ERROR_FORMAT, "the score of piece %u is no number", id);
    if (utf8_valid_prefix((const char *)text.bytes, text.length) < text.length)
        return error_set(err, ERROR_FORMAT, "piece %u is no UTF-8", id);
    if (vocab_find(&l->t->vocab, (const char *)text.bytes, text.length, &before))
        return error_set(err, ERROR_FORMAT, "piece %u is piece %u again", id, before);
    if (!vocab_add(&l->t->vocab, (const char *)text.bytes, text.length, id, err)) return false;
    if (!array_reserve(&l->sp->types, &l->type_capacity, l->n_pieces + 1, 1) ||
        !array_reserve(&l->scores, &l->score_capacity, l->n_pieces + 1, sizeof *l->scores))
        return error_memory(err, "vocabulary");
    l->sp->types[l->n_pieces] = (uint8_t)type;
    l->scores[l->n_pieces++] = score;
    return true;
}

/* Ids are 32-bit integers, negative ones for none. */
static int64_t id_of(const struct protobuf_field *field) { return (int32_t)(uint32_t)field->value; }

static bool read_trainer(struct loading *l, const struct protobuf_field *trainer) {
    struct protobuf m = message(trainer, "the trainer's part");
    struct protobuf_field field;
    l->err->code = ERROR_NONE;
    while (protobuf_next(&m, &field, l->err)) switch (field.number) {
        case TRAINER_KIND:
            if (field.value < SENTENCEPIECE_UNIGRAM || field.value > SENTENCEPIECE_CHAR)
                return error_set(l->err, ERROR_FORMAT, "unknown kind of model");
            l->sp->kind = (enum sentencepiece_kind)field.value;
            break;
        case TRAINER_SUFFIX: l->sp->spaces_end_words = field.value; break;
        case TRAINER_FALLBACK: l->sp->byte_fallback = field.value; break;
        case TRAINER_UNK_ID: l->sp->unk_id = id_of(&field); break;
        case TRAINER_BOS_ID: l->sp->bos_id = id_of(&field); break;
        case TRAINER_EOS_ID: l->sp->eos_id = id_of(&field); break;
        case TRAINER_PAD_ID: l->sp->pad_id = id_of(&field); break;
        case TRAINER_UNK_SURFACE:
            l->unk_surface = (const char *)field.bytes;
            l->unk_surface_length = field.length;
            break;
        default: break;
        }
    return !l->err->code;
}

static bool read_normalizer(struct loading *l, const struct protobuf_field *normalizer) {
    struct protobuf m = message(normalizer, "the normalizer's part");
    struct protobuf_field field;
    l->err->code = ERROR_NONE;
    while (protobuf_next(&m, &field, l->err)) switch (field.number) {
        case NORMALIZER_MAP:
            charsmap_free(&l->sp->charsmap);
            if (field.length && !charsmap_load(&l->sp->charsmap, field.bytes, field.length, l->err)) return false;
            break;
        case NORMALIZER_PREFIX: l->sp->adds_prefix = field.value; break;
        case NORMALIZER_EXTRA_SPACES: l->sp->removes_extra_spaces = field.value; break;
        case NORMALIZER_ESCAPES: l->sp->escapes_spaces = field.value; break;
        default: break;
        }
    return !l->err->code;
}

static bool read_model(struct loading *l, const unsigned char *data, size_t size) {
    struct protobuf m = {.at = data, .end = size ? data + size : data, .what = "the file"};
    struct protobuf_field field;
    l->err->code = ERROR_NONE;
    while (size && protobuf_next(&m, &field, l->err)) {
        bool ok = true;
        if (!field.bytes) continue;
        if (field.number == MODEL_PIECE) ok = read_piece(l, &field);
        if (field.number == MODEL_TRAINER) ok = read_trainer(l, &field);
        if (field.number == MODEL_NORMALIZER) ok = read_normalizer(l, &field);
        if (!ok) return false;
    }
    return !l->err->code;
}

/* ---- building ---- */

static bool check_ids(struct loading *l) {
    struct sentencepiece *sp = l->sp;
    int64_t *ids[] = {&sp->bos_id, &sp->eos_id, &sp->pad_id};
    sp->n_pieces = l->n_pieces;
    if (!l->n_pieces) return error_set(l->err, ERROR_FORMAT, "the file holds no pieces");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (*ids[i] < 0 || (size_t)*ids[i] >= l->n_pieces || sp->types[*ids[i]] != PIECE_CONTROL) *ids[i] = -1;
    /* The unknown piece is the one of that type. */
    sp->unk_id = -1;
    for (size_t id = 0; id < l->n_pieces && sp->unk_id < 0; id++)
        if (sp->types[id] == PIECE_UNKNOWN) sp->unk_id = (int64_t)id;
    return sp->unk_id >= 0 || error_set(l->err, ERROR_FORMAT, "the file has no unknown piece");
}

static bool add_user_defined(struct loading *l) {
    struct trie_key *keys = array_alloc(l->n_pieces, sizeof *keys);
    size_t n = 0;
    if (!keys) return error_memory(l->err, "vocabulary");
    for (uint32_t id = 0; id < l->n_pieces; id++) {
        const struct vocab_token *token = &l->t->vocab.tokens[id];
        if (l->sp->types[id] == PIECE_USER_DEFINED) keys[n++] = (struct trie_key){token->text, token->length, id};
    }
    bool ok = !n || trie_build(&l->sp->user_defined, keys, n, l->err);
    free(keys);
    return ok;
}

static bool build_unigram(struct loading *l) {
    struct unigram *u = &l->t->unigram;
    const uint8_t *types = l->sp->types;
    float lowest = FLT_MAX, highest = FLT_MIN;
    bool *skip = array_calloc(l->n_pieces, sizeof *skip);
    l->t->kind = MODEL_UNIGRAM;
    u->vocab = &l->t->vocab;
    u->scores = array_calloc(l->n_pieces, sizeof *u->scores);
    u->n_scores = l->n_pieces;
    if (!skip || !u->scores) {
        free(skip);
        return error_memory(l->err, "vocabulary");
    }
    for (size_t id = 0; id < l->n_pieces; id++) {
        if (types[id] != PIECE_NORMAL) continue;
        if (l->scores[id] < lowest) lowest = l->scores[id];
        if (l->scores[id] > highest) highest = l->scores[id];
    }
    for (size_t id = 0; id < l->n_pieces; id++) {
        float length = (float)l->t->vocab.tokens[id].length;
        u->scores[id] = types[id] == PIECE_USER_DEFINED ? (double)(length * highest) - 0.1 : (double)l->scores[id];
        skip[id] = types[id] != PIECE_NORMAL && types[id] != PIECE_USER_DEFINED;
    }
    u->unk_score = (double)(lowest - (float)UNIGRAM_UNKNOWN_PENALTY);
    u->unk_id = (uint32_t)l->sp->unk_id;
    u->byte_fallback = l->sp->byte_fallback;
    u->sums_in_f32 = true;
    bool ok = unigram_prepare(u, skip, l->err);
    free(skip);
    if (ok && u->byte_fallback && !u->has_all_bytes)
        return error_set(l->err, ERROR_FORMAT, "the model falls back to bytes, but lacks some of them");
    return ok;
}

/* Pieces by falling score. */
struct ranked {
    float score;
    uint32_t id;
};

static int compare_ranked(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* What can be a part of a merge: a character, or a piece that merges make. */
static bool find_part(const struct loading *l, const char *text, size_t length, uint32_t *id) {
    uint32_t c;
    if (!vocab_find(&l->t->vocab, text, length, id)) return false;
    uint8_t type = l->sp->types[*id];
    return type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_UNUSED ||
           utf8_decode(text, length, &c) == length;
}

/* The file holds no merges: whichever two parts make up a piece are joined, those of the best piece first. */
static bool add_merges(struct loading *l, uint32_t id, uint32_t rank) {
    const struct vocab_token *token = &l->t->vocab.tokens[id];
    for (size_t at = 1; at < token->length; at++) {
        uint32_t left, right;
        if (((unsigned char)token->text[at] & 0xc0) == 0x80) continue;
        if (!find_part(l, token->text, at, &left) || !find_part(l, token->text + at, token->length - at, &right))
            continue;
        if (!bpe_add_merge(&l->t->bpe, left, right, rank, id, l->err)) return false;
    }
    return true;
}

static bool build_bpe(struct loading *l) {
    struct bpe *bpe = &l->t->bpe;
    size_t n = 0;
    uint32_t rank = 0;
    l->t->kind = MODEL_BPE;
    bpe->vocab = &l->t->vocab;
    bpe->byte_fallback = l->sp->byte_fallback;
    bpe->fuse_unk = bpe->has_unk = true;
    bpe->unk_id = (uint32_t)l->sp->unk_id;
    if (!bpe_prepare(bpe, 2 * l->n_pieces, l->err)) return false;
    if (bpe->byte_fallback && !bpe->has_all_bytes)
        return error_set(l->err, ERROR_FORMAT, "the model falls back to bytes, but lacks some of them");
    struct ranked *ranked = array_alloc(l->n_pieces, sizeof *ranked);
    if (!ranked) return error_memory(l->err, "merges");
    for (uint32_t id = 0; id < l->n_pieces; id++) {
        uint8_t type = l->sp->types[id];
        if (type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_UNUSED)
            ranked[n++] = (struct ranked){l->scores[id], id};
    }
    if (n) qsort(ranked, n, sizeof *ranked, compare_ranked);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        if (i && ranked[i].score != ranked[i - 1].score) rank++;
        ok = add_merges(l, ranked[i].id, rank);
    }
    free(ranked);
    return ok;
}

/* Character and word models only look pieces up; bytes are found where BPE keeps them. */
static bool build_lookup(struct loading *l) {
    l->t->kind = MODEL_WORDLEVEL;
    l->t->bpe.vocab = &l->t->vocab;
    if (!bpe_prepare(&l->t->bpe, 0, l->err)) return false;
    if (l->sp->byte_fallback && !l->t->bpe.has_all_bytes)
        return error_set(l->err, ERROR_FORMAT, "the model falls back to bytes, but lacks some of them");
    return true;
}

static bool build_decoder(struct loading *l) {
    struct decoder_step step = {.kind = DECODE_SENTENCEPIECE};
    step.drops_first = l->sp->adds_prefix || l->sp->removes_extra_spaces;
    step.drops_all = l->sp->removes_extra_spaces;
    step.content_length = l->unk_surface ? l->unk_surface_length : 5;
    step.content = arena_copy(&l->t->arena, l->unk_surface ? l->unk_surface : " \xe2\x81\x87 ", step.content_length);
    if (!step.content) return error_memory(l->err, "decoder");
    if (utf8_valid_prefix(step.content, step.content_length) < step.content_length)
        return error_set(l->err, ERROR_FORMAT, "the text for unknown pieces is no UTF-8");
    return decoder_add(&l->t->decoder, &step, l->err);
}

static bool build(struct loading *l, const struct tokenizer_folder *folder) {
    struct tokenizer *t = l->t;
    const struct sentencepiece *sp = l->sp;
    if (!check_ids(l) || !add_user_defined(l)) return false;
    bool ok = sp->kind == SENTENCEPIECE_UNIGRAM ? build_unigram(l)
              : sp->kind == SENTENCEPIECE_BPE   ? build_bpe(l)
                                                : build_lookup(l);
    t->role_ids[TOKEN_BOS] = sp->bos_id;
    t->role_ids[TOKEN_EOS] = sp->eos_id;
    t->role_ids[TOKEN_PAD] = sp->pad_id;
    t->role_ids[TOKEN_UNK] = sp->unk_id;
    ok = ok && build_decoder(l) && tokenizer_add_configured(t, folder, l->err) && tokenizer_finish_added(t, l->err);
    /* Models of Llama's kind begin with BOS, those of T5's kind, which have none, end in EOS. */
    bool is_bpe = sp->kind == SENTENCEPIECE_BPE;
    return ok && tokenizer_surround(t, folder, is_bpe && sp->bos_id >= 0, !is_bpe && sp->bos_id < 0, l->err);
}

bool tokenizer_load_sentencepiece(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                                  struct mx_error *err) {
    struct file_map map = {0};
    struct mx_error own = {0};
    if (!file_map_open(&map, path, err)) return false;
    struct loading l = {.t = t, .err = err ? err : &own};
    l.sp = t->sentencepiece = calloc(1, sizeof *l.sp);
    if (!l.sp) {
        file_map_close(&map);
        return error_memory(err, "tokenizer");
    }
    *l.sp = (struct sentencepiece){.kind = SENTENCEPIECE_UNIGRAM,
                                   .adds_prefix = true,
                                   .removes_extra_spaces = true,
                                   .escapes_spaces = true,
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .pad_id = -1};
    bool ok = read_model(&l, map.data, map.size) && build(&l, folder);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    free(l.scores);
    file_map_close(&map);
    return ok;
}
