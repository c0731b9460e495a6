/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/text/tokenizer/vectors.h"

#include "tests/support/tap.h"

#include "base/file.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NOTES = 3 };

/* ---- files ---- */

static char *read_compressed(const char *path, size_t *length) {
    struct buffer text = {0}, command = {0};
    buffer_printf(&command, "xz -dc '%s'", path);
    FILE *pipe = popen(command.data, "r");
    size_t n = 1;
    while (pipe && n && buffer_reserve(&text, 1 << 16)) {
        n = fread(text.data + text.length, 1, 1 << 16, pipe);
        text.length += n;
        text.data[text.length] = '\0';
    }
    bool ok = pipe && pclose(pipe) == 0;
    buffer_free(&command);
    *length = text.length;
    if (ok) return buffer_take(&text);
    buffer_free(&text);
    return NULL;
}

bool text_read(struct vector_file *file, const char *path) {
    size_t n = strlen(path);
    *file = (struct vector_file){0};
    if (!file_exists(path)) return false;
    file->text = n > 3 && !strcmp(path + n - 3, ".xz") ? read_compressed(path, &file->length)
                                                       : file_read(path, (size_t)1 << 30, &file->length, NULL);
    return file->text != NULL;
}

bool vectors_read(struct vector_file *file, const char *path) {
    size_t length, room = 1;
    if (!text_read(file, path)) return false;
    length = file->length;
    for (size_t i = 0; i < length; i++) room += file->text[i] == '\n';
    file->lines = calloc(room, sizeof *file->lines);
    for (char *line = file->text, *end; file->lines && line < file->text + length; line = end + 1) {
        end = memchr(line, '\n', (size_t)(file->text + length - line));
        if (!end) end = file->text + length;
        if (end == line) continue;
        const struct json *value = json_parse(&file->arena, line, (size_t)(end - line), JSON_STRICT, 64, NULL);
        if (!value) return false;
        file->lines[file->n_lines++] = value;
    }
    return file->n_lines > 0;
}

void vectors_free(struct vector_file *file) {
    free(file->text);
    free(file->lines);
    arena_free(&file->arena);
    *file = (struct vector_file){0};
}

void tally_line(struct tally *tally, const struct json *line, const char *what) {
    tally->n_lines++;
    if (!what) return;
    tally->n_wrong++;
    if (tally->n_notes++ >= MAX_NOTES) return;
    struct buffer text = {0};
    json_write_value(&(struct json_writer){.out = &text}, line);
    tap_note("%s: %s: %.900s", tally->name, what, text.data ? text.data : "");
    buffer_free(&text);
}

/* ---- comparing ---- */

static bool same_ids(const uint32_t *ids, size_t n, const struct json *expected) {
    if (!json_is_array(expected) || expected->count != n) return false;
    for (size_t i = 0; i < n; i++)
        if (json_integer(&expected->items[i], -1) != ids[i]) return false;
    return true;
}

static bool same_text(const char *text, size_t length, const struct json *expected) {
    return json_is_string(expected) && expected->count == length &&
           (!length || !memcmp(expected->string, text, length));
}

static bool same_tokens(const struct token_list *list, const struct json *expected) {
    if (!json_is_array(expected) || expected->count != list->count) return false;
    for (size_t i = 0; i < list->count; i++)
        if (!same_text(list->texts.data + list->spans[i].text_start, list->spans[i].text_length, &expected->items[i]))
            return false;
    return true;
}

static bool same_offsets(const struct token_list *list, const struct json *expected) {
    if (!json_is_array(expected) || expected->count != list->count) return false;
    for (size_t i = 0; i < list->count; i++)
        if (json_integer(json_at(&expected->items[i], 0), -1) != list->spans[i].start ||
            json_integer(json_at(&expected->items[i], 1), -1) != list->spans[i].end)
            return false;
    return true;
}

static bool same_types(const struct token_list *list, const struct json *expected) {
    for (size_t i = 0; i < list->count; i++)
        if (json_integer(json_at(expected, i), 0) != list->spans[i].type_id) return false;
    return true;
}

static bool same_bytes(const struct tokenizer *t, const struct token_list *list, const struct json *expected) {
    for (size_t i = 0; i < list->count; i++) {
        const struct json *hex = json_at(expected, i);
        const char *bytes;
        size_t n;
        if (!json_is_string(hex) || !tokenizer_token_bytes(t, list->ids[i], &bytes, &n) || hex->count != 2 * n)
            return false;
        for (size_t k = 0; k < n; k++) {
            char digits[3];
            snprintf(digits, sizeof digits, "%02x", (unsigned char)bytes[k]);
            if (memcmp(digits, hex->string + 2 * k, 2) != 0) return false;
        }
    }
    return true;
}

/* Without offsets wanted the ids are the same. */
static bool same_without_offsets(const struct tokenizer *t, const char *text, size_t length, unsigned flags,
                                 struct token_list *list, const struct json *expected) {
    return tokenizer_encode(t, text, length, flags, list, NULL) && same_ids(list->ids, list->count, expected);
}

static const char *decode_and_compare(const struct tokenizer *t, const struct json *line, struct buffer *text) {
    const struct json *ids = json_get(line, "ids"), *skipped = json_get(line, "decoded_skip_special");
    size_t n = ids ? ids->count : 0;
    uint32_t *list = calloc(n + 1, sizeof *list);
    const char *wrong = list ? NULL : "memory";
    for (size_t i = 0; list && i < n; i++) list[i] = (uint32_t)json_integer(&ids->items[i], 0);
    for (int skips = 0; skips < 2 && !wrong; skips++) {
        const struct json *expected = skips && skipped ? skipped : json_get(line, "decoded");
        buffer_clear(text);
        if (!tokenizer_decode(t, list, n, skips, text, NULL))
            wrong = "decoding fails";
        else if (expected && (!skips || skipped) && !same_text(text->data, text->length, expected))
            wrong = skips ? "decoded_skip_special" : "decoded";
    }
    free(list);
    return wrong;
}

/* Padding is not done here: what it added is left out. A truncated text is not compared. */
static bool is_padded_or_cut(const struct json *line) {
    const struct json *mask = json_get(line, "attention_mask"), *rest = json_get(line, "overflowing");
    for (size_t i = 0; mask && i < mask->count; i++)
        if (!json_integer(&mask->items[i], 1)) return true;
    return rest && rest->count;
}

static const char *compare_encoding(const struct tokenizer *t, const struct json *line, enum vector_kind kind,
                                    struct token_list *list, struct buffer *decoded) {
    const struct json *text = json_get(line, "text"), *ids = json_get(line, "ids");
    const struct json *no_special = json_get(line, "ids_no_special"), *ordinary = json_get(line, "ids_ordinary");
    unsigned flags = TOKENIZE_OFFSETS | (kind == VECTORS_PLAIN ? 0u : TOKENIZE_SPECIAL);
    const char *s = text->string;
    bool ok = tokenizer_encode(t, s, text->count, flags, list, NULL);
    const struct json *error = json_get(line, "error");
    if (error && json_string_is(error, "panic in the reference library")) return NULL;
    if (error) return ok ? "no error" : NULL;
    if (!ok) return "encoding fails";
    if (is_padded_or_cut(line)) return NULL;
    if (!same_ids(list->ids, list->count, ids)) return "ids";
    if (json_get(line, "tokens") && !same_tokens(list, json_get(line, "tokens"))) return "tokens";
    if (json_get(line, "offsets") && !same_offsets(list, json_get(line, "offsets"))) return "offsets";
    if (!same_types(list, json_get(line, "type_ids"))) return "type_ids";
    if (json_get(line, "bytes") && !same_bytes(t, list, json_get(line, "bytes"))) return "bytes";
    if (!same_without_offsets(t, s, text->count, flags & ~(unsigned)TOKENIZE_OFFSETS, list, ids)) return "ids alone";
    bool is_cut = json_get(line, "attention_mask"); /* the text without special tokens may have been */
    if (!is_cut && (no_special || kind == VECTORS_JSON))
        if (!same_without_offsets(t, s, text->count, 0, list, no_special)) return "ids_no_special";
    if (kind == VECTORS_PLAIN && json_get(line, "bytes"))
        if (!same_without_offsets(t, s, text->count, TOKENIZE_PLAIN, list, ordinary ? ordinary : ids))
            return "ids_ordinary";
    return decode_and_compare(t, line, decoded);
}

void compare_encodings(struct tally *tally, const struct tokenizer *t, const struct vector_file *file,
                       enum vector_kind kind) {
    struct token_list list = {0};
    struct buffer decoded = {0};
    for (size_t i = 0; i < file->n_lines; i++)
        if (json_is_string(json_get(file->lines[i], "text")))
            tally_line(tally, file->lines[i], compare_encoding(t, file->lines[i], kind, &list, &decoded));
    token_list_free(&list);
    buffer_free(&decoded);
}

static const char *compare_pair(const struct tokenizer *t, const struct json *line, struct token_list *list) {
    const struct json *a = json_get(line, "text"), *b = json_get(line, "pair"), *ids = json_get(line, "ids");
    const struct json *mask = json_get(line, "special_tokens_mask"), *no_special = json_get(line, "ids_no_special");
    if (is_padded_or_cut(line)) return NULL;
    if (no_special && (!tokenizer_encode_pair(t, a->string, a->count, b->string, b->count, 0, list, NULL) ||
                       !same_ids(list->ids, list->count, no_special)))
        return "ids_no_special";
    if (!tokenizer_encode_pair(t, a->string, a->count, b->string, b->count, TOKENIZE_SPECIAL | TOKENIZE_OFFSETS, list,
                               NULL))
        return "encoding fails";
    if (!same_ids(list->ids, list->count, ids)) return "ids";
    if (!same_tokens(list, json_get(line, "tokens"))) return "tokens";
    if (!same_offsets(list, json_get(line, "offsets"))) return "offsets";
    if (!same_types(list, json_get(line, "type_ids"))) return "type_ids";
    for (size_t i = 0; mask && i < list->count; i++)
        if ((json_integer(json_at(mask, i), 0) != 0) != list->spans[i].is_special) return "special_tokens_mask";
    return NULL;
}

void compare_pairs(struct tally *tally, const struct tokenizer *t, const struct vector_file *file) {
    struct token_list list = {0};
    for (size_t i = 0; i < file->n_lines; i++)
        if (!json_get(file->lines[i], "error"))
            tally_line(tally, file->lines[i], compare_pair(t, file->lines[i], &list));
    token_list_free(&list);
}

/* ---- decoding ---- */

/* text without spaces, which decoders treat each in their way at the ends of a text. */
static void squeeze(const struct buffer *text, struct buffer *out) {
    buffer_clear(out);
    for (size_t i = 0; i < text->length; i++)
        if (text->data[i] != ' ') buffer_putc(out, text->data[i]);
}

static const char *compare_bytes(const struct tokenizer *t, const struct json *ids, struct buffer text[4]) {
    uint32_t list[300];
    size_t n = 0;
    if (ids->count > 300) return NULL;
    for (size_t i = 0; i < 4; i++) buffer_clear(&text[i]);
    for (; n < ids->count; n++) {
        const char *bytes;
        size_t length;
        list[n] = (uint32_t)json_integer(&ids->items[n], 0);
        if (tokenizer_is_special(t, list[n])) return NULL;
        if (tokenizer_token_bytes(t, list[n], &bytes, &length)) buffer_append(&text[0], bytes, length);
    }
    if (!tokenizer_decode(t, list, n, false, &text[1], NULL)) return "decoding fails";
    squeeze(&text[0], &text[2]);
    squeeze(&text[1], &text[3]);
    if (!text[2].length && !text[3].length) return NULL;
    if (utf8_valid_prefix(text[2].data ? text[2].data : "", text[2].length) < text[2].length) return NULL;
    bool is_same = text[2].length == text[3].length && !memcmp(text[2].data, text[3].data, text[2].length);
    return is_same ? NULL : "the bytes of the tokens are not the text";
}

void compare_token_bytes(struct tally *tally, const struct tokenizer *t, const struct vector_file *file) {
    struct buffer text[4] = {{0}};
    for (size_t i = 0; i < file->n_lines; i++) {
        const struct json *ids = json_get(file->lines[i], "ids_no_special");
        if (!ids) ids = json_get(file->lines[i], "ids");
        if (json_is_array(ids) && !json_get(file->lines[i], "error"))
            tally_line(tally, file->lines[i], compare_bytes(t, ids, text));
    }
    for (size_t i = 0; i < 4; i++) buffer_free(&text[i]);
}

void compare_decodings(struct tally *tally, const struct tokenizer *t, const struct vector_file *file) {
    struct buffer decoded = {0};
    for (size_t i = 0; i < file->n_lines; i++) {
        const struct json *line = file->lines[i];
        if (!json_is_array(json_get(line, "ids")) || json_get(line, "error")) continue;
        tally_line(tally, line, decode_and_compare(t, line, &decoded));
    }
    buffer_free(&decoded);
}

/* text without the U+FFFD at its end, which stand for what is not complete. */
static size_t settled_length(const struct buffer *text) {
    size_t n = text->length;
    while (n >= 3 && !memcmp(text->data + n - 3, "\xef\xbf\xbd", 3)) n -= 3;
    return n;
}

/* Byte tokens in the place of plain characters, as no tokenizer for real text has them: they wait for their run's end. */
static bool has_spelled_characters(const struct tokenizer *t, const uint32_t *ids, size_t n) {
    const char *text;
    size_t length;
    for (size_t i = 0; i < n; i++)
        if (tokenizer_token_text(t, ids[i], &text, &length) && length == 6 && !memcmp(text, "<0x", 3) && text[3] < '8')
            return true;
    return false;
}

static const char *compare_stream(const struct tokenizer *t, struct detokenizer *stream, const struct json *ids,
                                  bool skips, bool is_prompt, struct buffer text[2]) {
    size_t n = ids->count;
    uint32_t *list = calloc(n + 1, sizeof *list);
    const char *wrong = list ? NULL : "memory";
    for (size_t i = 0; i < n && list; i++) list[i] = (uint32_t)json_integer(&ids->items[i], 0);
    buffer_clear(&text[0]);
    is_prompt = is_prompt && !has_spelled_characters(t, list, n);
    for (size_t i = 0; i < n && !wrong; i++) {
        if (!detokenizer_push(stream, list[i], &text[0], NULL)) wrong = "pushing fails";
        if (utf8_valid_prefix(text[0].data, text[0].length) != text[0].length) wrong = "a piece is cut in a character";
        if (!is_prompt || wrong) continue;
        buffer_clear(&text[1]);
        if (!tokenizer_decode(t, list, i + 1, skips, &text[1], NULL)) wrong = "decoding fails";
        if (text[0].length < settled_length(&text[1])) wrong = "more is held back than a character";
    }
    buffer_clear(&text[1]);
    if (!detokenizer_finish(stream, &text[0], NULL) || !tokenizer_decode(t, list, n, skips, &text[1], NULL))
        wrong = "finishing fails";
    else if (!wrong && (text[0].length != text[1].length ||
                        (text[0].length && memcmp(text[0].data, text[1].data, text[0].length) != 0)))
        wrong = "the pieces are not the decoded text";
    free(list);
    return wrong;
}

/* A run of byte tokens that begins with good characters and turns out to be none at its end: the whole run counts as
 * broken, but the characters have been shown by then. No tokenizer writes such a run. */
static bool has_late_break(const struct json *line) {
    const struct json *decoded = json_get(line, "decoded");
    return decoded && memmem(decoded->string, decoded->count, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9);
}

void compare_streams(struct tally *tally, const struct tokenizer *t, const struct vector_file *file, bool is_prompt) {
    struct buffer text[2] = {{0}};
    for (int skips = 0; skips < 2; skips++) {
        struct detokenizer *stream = detokenizer_create(t, skips, NULL);
        for (size_t i = 0; i < file->n_lines && stream; i++) {
            const struct json *ids = json_get(file->lines[i], "ids");
            if (!json_is_array(ids) || json_get(file->lines[i], "error")) continue;
            /* Decoding every beginning of a long list takes quadratic time. */
            bool is_checked = is_prompt && ids->count < 200;
            const char *wrong = compare_stream(t, stream, ids, skips, is_checked, text);
            bool is_excused = wrong && !is_prompt && has_late_break(file->lines[i]) && tally->n_excused < 4;
            tally->n_excused += is_excused;
            tally_line(tally, file->lines[i], is_excused ? NULL : wrong);
        }
        detokenizer_destroy(stream);
    }
    buffer_free(&text[0]);
    buffer_free(&text[1]);
}
