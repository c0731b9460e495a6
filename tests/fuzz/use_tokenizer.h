/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the tokenizer of a folder and uses it on some texts. Beside memory errors it finds ids that depend on whether
 * offsets are wanted, offsets outside the text, decoded text that is no UTF-8 or not the same in pieces. */
#ifndef MLXCEL_TESTS_FUZZ_USE_TOKENIZER_H
#define MLXCEL_TESTS_FUZZ_USE_TOKENIZER_H

#include "tests/fuzz/files.h"

#include "text/tokenizer.h"

#include "base/utf8.h"

static inline void check_decoding(const struct tokenizer *t, const uint32_t *ids, size_t n, bool may_break_late) {
    struct buffer whole = {0}, pieces = {0};
    struct mx_error err = {0};
    struct detokenizer *stream = detokenizer_create(t, true, &err);
    bool ok = stream && tokenizer_decode(t, ids, n, true, &whole, &err);
    for (size_t i = 0; i < n && ok; i++) ok = detokenizer_push(stream, ids[i], &pieces, &err);
    ok = ok && detokenizer_finish(stream, &pieces, &err);
    if (ok) {
        expect(utf8_valid_prefix(whole.data ? whole.data : "", whole.length) == whole.length);
        bool is_same =
            whole.length == pieces.length && (!whole.length || !memcmp(whole.data, pieces.data, whole.length));
        expect(is_same || (may_break_late && memmem(whole.data, whole.length, "\xef\xbf\xbd", 3)));
    } else {
        expect_message(&err);
    }
    detokenizer_destroy(stream);
    buffer_free(&whole);
    buffer_free(&pieces);
}

static inline void check_encoding(const struct tokenizer *t, const char *text, size_t length) {
    struct token_list list = {0}, plain = {0};
    struct mx_error err = {0};
    bool ok = tokenizer_encode(t, text, length, TOKENIZE_SPECIAL | TOKENIZE_OFFSETS, &list, &err);
    if (!ok) expect_message(&err);
    if (ok && utf8_valid_prefix(text, length) == length) {
        expect(tokenizer_encode(t, text, length, TOKENIZE_SPECIAL, &plain, &err));
        expect(plain.count == list.count);
        for (size_t i = 0; i < list.count; i++) {
            const struct token_span *span = &list.spans[i];
            expect(plain.ids[i] == list.ids[i]);
            expect(span->text_start <= list.texts.length && span->text_length <= list.texts.length - span->text_start);
        }
    }
    if (ok) check_decoding(t, list.ids, list.count, false);
    token_list_free(&list);
    token_list_free(&plain);
}

static inline void use_tokenizer(const char *text, size_t length) {
    static const char sample[] =
        "Hello, the World's  end \xc3\xa9\xcc\x81 \xe4\xbd\xa0\xe5\xa5\xbd 123\n\xf0\x9f\x98\x80</s><unk>";
    struct mx_error err = {0};
    struct tokenizer *t = tokenizer_open(fuzz_folder(), &err);
    if (!t) {
        expect_message(&err);
        return;
    }
    check_encoding(t, sample, sizeof sample - 1);
    check_encoding(t, text, length);
    uint32_t ids[64];
    size_t n = 0;
    for (; n < 64 && n < length; n++) ids[n] = (unsigned char)text[n] * 3u % (uint32_t)(tokenizer_vocab_size(t) + 1);
    check_decoding(t, ids, n, true);
    const char *bytes;
    size_t n_bytes;
    for (uint32_t id = 0; id < 300; id++) tokenizer_token_bytes(t, id, &bytes, &n_bytes);
    tokenizer_close(t);
}

#endif
