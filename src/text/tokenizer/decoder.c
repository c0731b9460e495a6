/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the description, and the driver of the steps (decoder_steps.c). */
#include "text/tokenizer/decoder.h"

#include "text/tokenizer/decoder_steps.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

#define MAX_STEPS   64
#define MAX_NESTING 16

bool decoder_add(struct decoder *decoder, const struct decoder_step *step, struct mx_error *err) {
    if (decoder->n_steps >= MAX_STEPS) return error_set(err, ERROR_LIMIT, "more than %d decoders", MAX_STEPS);
    if (!array_reserve(&decoder->steps, &decoder->capacity, decoder->n_steps + 1, sizeof *decoder->steps))
        return error_memory(err, "decoder");
    decoder->steps[decoder->n_steps++] = *step;
    return true;
}

void decoder_free(struct decoder *decoder) {
    for (size_t i = 0; i < decoder->n_steps; i++) regex_destroy(decoder->steps[i].regex);
    free(decoder->steps);
    *decoder = (struct decoder){0};
}

/* ---- reading ---- */

static bool load_text(const char **text, size_t *length, const struct json *json, const char *key, const char *fallback,
                      struct arena *arena, struct mx_error *err) {
    const struct json *value = json_get(json, key);
    if (!json_is_null(value) && !json_is_string(value))
        return error_set(err, ERROR_FORMAT, "'%s' of a decoder is %s, not a string", key, json_type_name(value));
    if (json_is_null(value) && !fallback) return error_set(err, ERROR_FORMAT, "a decoder without '%s'", key);
    *length = json_is_string(value) ? value->count : strlen(fallback);
    *text = arena_copy(arena, json_is_string(value) ? value->string : fallback, *length);
    return *text || error_memory(err, "decoder");
}

static bool load_character(uint32_t *character, const struct json *json, const char *key, struct mx_error *err) {
    const struct json *text = json_get(json, key);
    if (json_is_string(text) && text->count && utf8_decode(text->string, text->count, character) == text->count)
        return true;
    return error_set(err, ERROR_FORMAT, "'%s' of a decoder is not one character", key);
}

static bool load_none(struct decoder_step *step, const struct json *json, struct arena *arena, struct mx_error *err) {
    (void)step, (void)json, (void)arena, (void)err;
    return true;
}

static bool load_wordpiece(struct decoder_step *step, const struct json *json, struct arena *arena,
                           struct mx_error *err) {
    step->cleans_up = json_bool(json_get(json, "cleanup"), true);
    return load_text(&step->text, &step->length, json, "prefix", "##", arena, err);
}

static bool load_metaspace(struct decoder_step *step, const struct json *json, struct arena *arena,
                           struct mx_error *err) {
    (void)arena;
    step->drops_first = !json_string_is(json_get(json, "prepend_scheme"), "never") &&
                        json_bool(json_get(json, "add_prefix_space"), true);
    step->character = 0x2581;
    return json_is_null(json_get(json, "replacement")) || load_character(&step->character, json, "replacement", err);
}

static bool load_bpe(struct decoder_step *step, const struct json *json, struct arena *arena, struct mx_error *err) {
    return load_text(&step->text, &step->length, json, "suffix", "</w>", arena, err);
}

static bool load_ctc(struct decoder_step *step, const struct json *json, struct arena *arena, struct mx_error *err) {
    step->cleans_up = json_bool(json_get(json, "cleanup"), true);
    return load_text(&step->text, &step->length, json, "pad_token", "<pad>", arena, err) &&
           load_text(&step->content, &step->content_length, json, "word_delimiter_token", "|", arena, err);
}

static bool load_strip(struct decoder_step *step, const struct json *json, struct arena *arena, struct mx_error *err) {
    (void)arena;
    int64_t start = json_integer(json_get(json, "start"), 0), stop = json_integer(json_get(json, "stop"), 0);
    if (start < 0 || stop < 0 || start > INT32_MAX || stop > INT32_MAX)
        return error_set(err, ERROR_FORMAT, "'start' or 'stop' of a decoder is out of range");
    step->start = (size_t)start;
    step->stop = (size_t)stop;
    return load_character(&step->character, json, "content", err);
}

static bool load_replace(struct decoder_step *step, const struct json *json, struct arena *arena,
                         struct mx_error *err) {
    const struct json *pattern = json_get(json, "pattern"), *regex = json_get(pattern, "Regex");
    const struct json *literal = json_is_string(pattern) ? pattern : json_get(pattern, "String");
    if (!load_text(&step->content, &step->content_length, json, "content", NULL, arena, err)) return false;
    if (!json_is_string(literal) && !json_is_string(regex))
        return error_set(err, ERROR_FORMAT, "Replace needs a 'pattern' (String or Regex)");
    if (literal && literal->count) {
        step->text = arena_copy(arena, literal->string, literal->count);
        step->length = literal->count;
        return step->text || error_memory(err, "decoder");
    }
    step->regex = literal ? regex_compile("", 0, REGEX_ONIGURUMA, err)
                          : regex_compile(regex->string, regex->count, REGEX_ONIGURUMA, err);
    return step->regex != NULL;
}

static const struct {
    const char *name;
    enum decoder_kind kind;
    bool (*load)(struct decoder_step *step, const struct json *json, struct arena *arena, struct mx_error *err);
} kinds[] = {
    {"BPEDecoder", DECODE_BPE, load_bpe},
    {"ByteFallback", DECODE_BYTE_FALLBACK, load_none},
    {"ByteLevel", DECODE_BYTE_LEVEL, load_none},
    {"CTC", DECODE_CTC, load_ctc},
    {"Fuse", DECODE_FUSE, load_none},
    {"Metaspace", DECODE_METASPACE, load_metaspace},
    {"Replace", DECODE_REPLACE, load_replace},
    {"Strip", DECODE_STRIP, load_strip},
    {"WordPiece", DECODE_WORDPIECE, load_wordpiece},
};

/* A recursion, bounded by MAX_NESTING. */
static bool load_nested(struct decoder *decoder, const struct json *json, struct arena *arena, int depth,
                        struct mx_error *err) {
    const struct json *type = json_get(json, "type"), *list = json_get(json, "decoders");
    if (depth > MAX_NESTING) return error_set(err, ERROR_LIMIT, "decoders are nested too deeply");
    if (json_string_is(type, "Sequence")) {
        if (!json_is_array(list)) return error_set(err, ERROR_FORMAT, "a Sequence without 'decoders'");
        for (size_t i = 0; i < list->count; i++)
            if (!load_nested(decoder, &list->items[i], arena, depth + 1, err)) return false;
        return true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!json_string_is(type, kinds[i].name)) continue;
        struct decoder_step step = {.kind = kinds[i].kind};
        if (!kinds[i].load(&step, json, arena, err)) return false;
        if (decoder_add(decoder, &step, err)) return true;
        regex_destroy(step.regex);
        return false;
    }
    if (!json_is_string(type)) return error_set(err, ERROR_FORMAT, "a decoder without 'type'");
    return error_set(err, ERROR_UNSUPPORTED, "decoder '%.*s' is not known", (int)(type->count & 0xff), type->string);
}

bool decoder_load(struct decoder *decoder, const struct json *json, struct arena *arena, struct mx_error *err) {
    const struct decoder_step join = {.kind = DECODE_JOIN};
    if (json_is_null(json)) return decoder_add(decoder, &join, err);
    return load_nested(decoder, json, arena, 0, err);
}

/* ---- running ---- */

bool decoding_begin(struct decoding *decoding, const struct decoder *decoder, const struct vocab *eager_for,
                    struct mx_error *err) {
    *decoding = (struct decoding){.decoder = decoder, .eager_for = eager_for};
    decoding->states = calloc(decoder->n_steps + 1, sizeof *decoding->states);
    if (!decoding->states) return error_memory(err, "decoder");
    for (size_t i = 0; i < decoder->n_steps; i++)
        if (decoder->steps[i].regex) return regex_scratch_begin(&decoding->scratch, 0, err);
    return true;
}

void decoding_free(struct decoding *decoding) {
    for (size_t i = 0; decoding->states && i < decoding->decoder->n_steps; i++) {
        buffer_free(&decoding->states[i].held);
        buffer_free(&decoding->states[i].bytes);
        buffer_free(&decoding->states[i].work);
    }
    free(decoding->states);
    regex_scratch_free(&decoding->scratch);
    *decoding = (struct decoding){0};
}

bool decoding_push(struct decoding *decoding, const char *text, size_t length, enum token_nature nature,
                   struct buffer *out, struct mx_error *err) {
    decoding->out = out;
    decoding->err = err;
    decoding->nature = nature;
    return decoding_feed(decoding, 0, text, length, true) && (!out->failed || error_memory(err, "decoded text"));
}

bool decoding_finish(struct decoding *decoding, struct buffer *out, struct mx_error *err) {
    decoding->out = out;
    decoding->err = err;
    bool ok = true;
    for (size_t i = 0; i < decoding->decoder->n_steps && ok; i++) ok = decoding_finish_step(decoding, i);
    for (size_t i = 0; i < decoding->decoder->n_steps; i++) {
        struct decode_state *state = &decoding->states[i];
        struct decode_state fresh = {.held = state->held, .bytes = state->bytes, .work = state->work};
        *state = fresh;
        buffer_clear(&state->held);
        buffer_clear(&state->bytes);
    }
    return ok && (!out->failed || error_memory(err, "decoded text"));
}
