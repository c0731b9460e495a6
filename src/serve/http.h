/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 (RFC 9110, 9112) as bytes: request heads, chunked bodies, response heads. Nothing here reads or writes.
 *
 * The parser is strict where leniency has led to request smuggling elsewhere: one Content-Length or chunked, never both;
 * no folded lines; no space before a colon. Lines may end in LF alone. */
#ifndef MLXCEL_SERVE_HTTP_H
#define MLXCEL_SERVE_HTTP_H

#include "base/arena.h"
#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_MAX_HEADERS = 100 };

/* Bits, so that a route can name a set. */
enum http_method {
    METHOD_GET = 1,
    METHOD_POST = 2,
    METHOD_DELETE = 4,
    METHOD_HEAD = 8,
    METHOD_OPTIONS = 16,
    METHOD_OTHER = 32,
};

struct http_header {
    const char *name, *value; /* NUL-terminated; the name in lower case */
};

struct http_head {
    enum http_method method;
    const char *method_text;
    const char *path;  /* percent-decoded, begins with '/' */
    const char *query; /* as sent; "" when there is none */
    int minor_version; /* of HTTP/1 */
    struct http_header headers[HTTP_MAX_HEADERS];
    size_t n_headers;
    bool keeps_alive, is_chunked, expects_continue;
    uint64_t content_length;
};

/* The length of a request head with its empty line, 0 when text[0 .. length) does not hold all of it. */
size_t http_head_length(const char *text, size_t length);
/* Parses a whole head; strings go into the arena. Returns 0, or the status of the answer with *reason set. */
int http_parse_head(const char *text, size_t length, struct http_head *head, struct arena *arena, const char **reason);

/* The value of a header (name in lower case), or NULL. */
const char *http_header(const struct http_head *head, const char *name);
/* The percent-decoded value of a query parameter in the arena, or NULL. */
const char *http_query(const struct http_head *head, const char *name, struct arena *arena);

/* Decoder of a chunked body. Start from {0}. */
struct http_chunked {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER, CHUNK_DONE } state;
    uint64_t left;      /* of the chunk */
    size_t line_length; /* of the size line or trailer so far */
    bool has_digit, in_extension, line_is_empty, after_cr;
    size_t n_trailer_bytes;
};

/* Decodes what it can of data[0 .. length) into body, which may not grow past max_body. Returns the number of bytes used;
 * *status is 0, or 400 or 413. */
size_t http_chunked_feed(struct http_chunked *decoder, const char *data, size_t length, struct buffer *body,
                         size_t max_body, int *status);

const char *http_reason(int status);

#endif
