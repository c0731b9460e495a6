/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: HTTP requests as bytes. A head is found at the same place however much follows it; what is accepted has the
 * members that the server relies on; a chunked body does not depend on where its pieces are cut. */
#include "serve/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool claim) {
    if (!claim) abort();
}

static void check_head(const char *text, size_t length) {
    struct http_head head;
    struct arena arena = {0};
    const char *reason = NULL;
    int status = http_parse_head(text, length, &head, &arena, &reason);
    expect(status ? status >= 400 && reason && *reason : head.path[0] == '/');
    for (size_t i = 0; !status && i < head.n_headers; i++) {
        expect(*head.headers[i].name && !strpbrk(head.headers[i].name, " :\r\n\t"));
        expect(!strpbrk(head.headers[i].value, "\r\n"));
    }
    expect(status || !head.is_chunked || !head.content_length);
    if (!status) http_query(&head, "model", &arena);
    arena_free(&arena);
}

static int decode(const char *text, size_t length, size_t piece, struct buffer *body, size_t *used) {
    struct http_chunked decoder = {0};
    int status = 0;
    *used = 0;
    while (*used < length && decoder.state != CHUNK_DONE && !status) {
        size_t n = length - *used < piece ? length - *used : piece;
        *used += http_chunked_feed(&decoder, text + *used, n, body, 1000, &status);
        expect(body->length <= 1000);
    }
    return decoder.state == CHUNK_DONE ? 200 : status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    size_t head = http_head_length(text, size), used_whole, used_bytes;
    struct buffer whole = {0}, bytes = {0};
    if (head) {
        expect(head <= size && http_head_length(text, head) == head && http_head_length(text, head - 1) == 0);
        check_head(text, head);
    }
    int first = decode(text, size, size + 1, &whole, &used_whole), second = decode(text, size, 1, &bytes, &used_bytes);
    expect(first == second);
    expect(first != 200 || (used_whole == used_bytes && whole.length == bytes.length &&
                            (!whole.length || !memcmp(whole.data, bytes.data, whole.length))));
    buffer_free(&whole);
    buffer_free(&bytes);
    return 0;
}
