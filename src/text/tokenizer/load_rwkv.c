/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary of RWKV World: on each line an id, the token as Python writes a string or bytes, and its length. The
 * longest token is taken at each place. */
#include "text/tokenizer/core.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads n hexadecimal digits at *at. */
static bool read_hex(const char **at, const char *end, int n, uint32_t *value) {
    *value = 0;
    if (end - *at < n) return false;
    for (int i = 0; i < n; i++) {
        int digit = hex_digit(*(*at)++);
        if (digit < 0) return false;
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}

/* Appends what stands between the quotes of a Python literal. */
static bool unquote(const char *at, const char *end, bool is_bytes, struct buffer *out) {
    static const char letters[] = "nrtabfv0", meanings[] = "\n\r\t\a\b\f\v";
    while (at < end) {
        char c = *at++, code[4];
        uint32_t value;
        if (c != '\\') {
            buffer_putc(out, c);
            continue;
        }
        if (at >= end) return false;
        c = *at++;
        const char *letter = memchr(letters, c, sizeof letters - 1);
        if (c == 'x' || c == 'u' || c == 'U') {
            if (!read_hex(&at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &value)) return false;
            size_t n = is_bytes ? 1 : utf8_encode(value, code);
            if (is_bytes) code[0] = (char)value;
            if (!n) return false;
            buffer_append(out, code, n);
        } else if (letter) {
            buffer_putc(out, meanings[letter - letters]);
        } else if (c == '\\' || c == '\'' || c == '"') {
            buffer_putc(out, c);
        } else {
            return false;
        }
    }
    return true;
}

/* "257 ' a' 2" */
static bool read_line(struct tokenizer *t, const char *line, size_t length, struct buffer *bytes) {
    const char *at = line, *end = line + length;
    uint64_t id = 0, expected = 0;
    for (; at < end && *at >= '0' && *at <= '9' && id <= VOCAB_MAX_ID; at++) id = id * 10 + (uint64_t)(*at - '0');
    if (at == line || at >= end || *at++ != ' ' || id > VOCAB_MAX_ID) return false;
    const char *last = end;
    while (last > at && last[-1] != ' ') last--;
    for (const char *digit = last; digit < end; digit++) {
        if (*digit < '0' || *digit > '9' || expected > UINT32_MAX) return false;
        expected = expected * 10 + (uint64_t)(*digit - '0');
    }
    if (last == end || last <= at) return false;
    end = last - 1;
    bool is_bytes = at < end && *at == 'b';
    at += is_bytes;
    if (end - at < 2 || (*at != '\'' && *at != '"') || end[-1] != *at) return false;
    buffer_clear(bytes);
    return unquote(at + 1, end - 1, is_bytes, bytes) && !bytes->failed && bytes->length == expected && bytes->length &&
           !vocab_token(&t->vocab, (uint32_t)id) &&
           vocab_add(&t->vocab, bytes->data, bytes->length, (uint32_t)id, NULL);
}

static bool read_lines(struct tokenizer *t, const char *text, size_t size, struct mx_error *err) {
    struct buffer bytes = {0};
    size_t n_lines = 0;
    bool ok = true;
    for (size_t at = 0; at < size && ok; n_lines++) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t end = newline ? (size_t)(newline - text) : size, length = end - at;
        if (length && text[at + length - 1] == '\r') length--;
        if (length && !read_line(t, text + at, length, &bytes))
            ok = error_set(err, ERROR_FORMAT, "line %zu is no id, token and length", n_lines + 1);
        at = end + 1;
    }
    buffer_free(&bytes);
    return ok && (t->vocab.n_texts || error_set(err, ERROR_FORMAT, "the file holds no tokens"));
}

static bool build(struct tokenizer *t, struct mx_error *err) {
    struct trie_key *keys = array_alloc(t->vocab.size, sizeof *keys);
    const struct decoder_step step = {.kind = DECODE_BYTES};
    size_t n = 0;
    if (!keys) return error_memory(err, "vocabulary");
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        const struct vocab_token *token = vocab_token(&t->vocab, id);
        if (token) keys[n++] = (struct trie_key){token->text, token->length, id};
    }
    bool ok = trie_build(&t->greedy, keys, n, err) && decoder_add(&t->decoder, &step, err);
    free(keys);
    return ok;
}

bool tokenizer_load_greedy(struct tokenizer *t, const struct tokenizer_folder *folder, const char *path,
                           struct mx_error *err) {
    struct file_map map = {0};
    if (!file_map_open(&map, path, err)) return false;
    t->kind = MODEL_GREEDY;
    bool ok = read_lines(t, (const char *)map.data, map.size, err) && build(t, err);
    if (ok && file_map_is_damaged(&map)) ok = error_set(err, ERROR_IO, "the file was cut while it was read");
    file_map_close(&map);
    if (ok && !vocab_token(&t->vocab, 0)) t->role_ids[TOKEN_EOS] = 0;
    return ok && tokenizer_add_configured(t, folder, err) && tokenizer_finish_added(t, err);
}
