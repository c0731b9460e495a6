/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/http.h"

#include <string.h>
#include <strings.h>

size_t http_head_length(const char *text, size_t length) {
    const char *at = text, *end = text + length;
    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        if (at < end && *at == '\n') return (size_t)(at + 1 - text);
        if (at + 1 < end && at[0] == '\r' && at[1] == '\n') return (size_t)(at + 2 - text);
    }
    return 0;
}

/* RFC 9110, 5.6.2. */
static bool is_token_char(unsigned char c) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* NULL for a bad escape, or a NUL or control character in the result. */
static const char *percent_decode(struct arena *arena, const char *text, size_t length, bool plus_is_space) {
    char *out = arena_alloc(arena, length + 1);
    size_t n = 0;
    if (!out) return NULL;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '%') {
            int high = i + 2 < length + 0 ? hex_value(text[i + 1]) : -1, low = high >= 0 ? hex_value(text[i + 2]) : -1;
            if (low < 0) return NULL;
            c = (unsigned char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c < 32 || c == 127) return NULL;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return out;
}

/* One line without its end; *at moves behind it. */
static const char *next_line(const char **at, const char *end, size_t *length) {
    const char *start = *at, *stop = memchr(start, '\n', (size_t)(end - start));
    if (!stop) return NULL;
    *at = stop + 1;
    *length = (size_t)(stop - start);
    if (*length && start[*length - 1] == '\r') --*length;
    return start;
}

static int parse_target(const char *text, size_t length, struct http_head *head, struct arena *arena,
                        const char **reason) {
    *reason = "malformed request target";
    if (length > 7 && !strncasecmp(text, "http://", 7)) { /* absolute form */
        const char *slash = memchr(text + 7, '/', length - 7);
        length = slash ? length - (size_t)(slash - text) : 0;
        text = slash ? slash : "/";
        if (!length) length = 1;
    }
    if (length == 1 && *text == '*') text = "/";
    if (!length || *text != '/') return 400;
    const char *mark = memchr(text, '?', length);
    size_t n_path = mark ? (size_t)(mark - text) : length;
    head->path = percent_decode(arena, text, n_path, false);
    head->query = mark ? arena_copy(arena, mark + 1, length - n_path - 1) : "";
    if (!head->path || !head->query) return 400;
    for (const char *c = head->query; *c; c++)
        if ((unsigned char)*c <= 32 || *c == 127) return 400;
    return 0;
}

static int parse_request_line(const char *line, size_t length, struct http_head *head, struct arena *arena,
                              const char **reason) {
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {{"GET", METHOD_GET},
                   {"POST", METHOD_POST},
                   {"DELETE", METHOD_DELETE},
                   {"HEAD", METHOD_HEAD},
                   {"OPTIONS", METHOD_OPTIONS}};
    const char *space = memchr(line, ' ', length);
    *reason = "malformed request line";
    if (!space || space == line || (size_t)(space - line) > 32) return 400;
    for (const char *c = line; c < space; c++)
        if (!is_token_char((unsigned char)*c)) return 400;
    head->method = METHOD_OTHER;
    head->method_text = arena_copy(arena, line, (size_t)(space - line));
    if (!head->method_text) return 500;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i].name, head->method_text)) head->method = methods[i].method;
    const char *target = space + 1, *end = line + length, *second = memchr(target, ' ', (size_t)(end - target));
    if (!second || end - second != 9 || memcmp(second + 1, "HTTP/", 5) != 0) return 400;
    if (second[6] != '1' || second[7] != '.') {
        *reason = "only HTTP/1.0 and HTTP/1.1 are spoken here";
        return 505;
    }
    if (second[8] < '0' || second[8] > '9') return 400;
    head->minor_version = second[8] - '0';
    return parse_target(target, (size_t)(second - target), head, arena, reason);
}

static int add_header(const char *line, size_t length, struct http_head *head, struct arena *arena,
                      const char **reason) {
    const char *colon = memchr(line, ':', length);
    *reason = "malformed header line";
    if (!colon || colon == line) return 400;
    if (head->n_headers == HTTP_MAX_HEADERS) {
        *reason = "too many header lines";
        return 431;
    }
    char *name = arena_copy(arena, line, (size_t)(colon - line));
    if (!name) return 500;
    for (char *c = name; *c || c < name + (colon - line); c++) {
        if (!is_token_char((unsigned char)*c)) return 400;
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    }
    const char *value = colon + 1, *end = line + length;
    while (value < end && (*value == ' ' || *value == '\t')) value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) end--;
    for (const char *c = value; c < end; c++)
        if (((unsigned char)*c < 32 && *c != '\t') || *c == 127) return 400;
    const char *copy = arena_copy(arena, value, (size_t)(end - value));
    if (!copy) return 500;
    head->headers[head->n_headers++] = (struct http_header){name, copy};
    return 0;
}

static bool list_names(const char *list, const char *word) {
    size_t n = strlen(word);
    while (*list) {
        list += strspn(list, " \t,");
        size_t length = strcspn(list, " \t,");
        if (length == n && !strncasecmp(list, word, n)) return true;
        list += length;
    }
    return false;
}

/* How the body is framed and whether the connection goes on. */
static int read_framing(struct http_head *head, const char **reason) {
    bool has_length = false, is_closing = false, stays = false;
    for (size_t i = 0; i < head->n_headers; i++) {
        const char *name = head->headers[i].name, *value = head->headers[i].value;
        if (!strcmp(name, "content-length")) {
            uint64_t n = 0;
            *reason = "malformed Content-Length";
            if (!*value || strspn(value, "0123456789") != strlen(value) || strlen(value) > 18) return 400;
            for (const char *c = value; *c; c++) n = n * 10 + (uint64_t)(*c - '0');
            if (has_length && n != head->content_length) return 400;
            head->content_length = n;
            has_length = true;
        } else if (!strcmp(name, "transfer-encoding")) {
            *reason = "only the transfer encoding 'chunked' is understood";
            if (head->is_chunked || strcasecmp(value, "chunked") != 0) return 501;
            head->is_chunked = true;
        } else if (!strcmp(name, "connection")) {
            is_closing |= list_names(value, "close");
            stays |= list_names(value, "keep-alive");
        } else if (!strcmp(name, "expect")) {
            *reason = "unknown expectation";
            if (strcasecmp(value, "100-continue") != 0) return 417;
            head->expects_continue = head->minor_version > 0;
        }
    }
    *reason = "Content-Length and Transfer-Encoding exclude each other";
    if (has_length && head->is_chunked) return 400;
    head->keeps_alive = !is_closing && (head->minor_version > 0 || stays);
    return 0;
}

int http_parse_head(const char *text, size_t length, struct http_head *head, struct arena *arena, const char **reason) {
    const char *at = text, *end = text + length, *line;
    size_t n;
    *head = (struct http_head){.method_text = "?", .path = "", .query = ""};
    *reason = "malformed request";
    line = next_line(&at, end, &n);
    if (!line) return 400;
    int status = parse_request_line(line, n, head, arena, reason);
    while (!status && (line = next_line(&at, end, &n)) != NULL && n) status = add_header(line, n, head, arena, reason);
    if (!status) status = read_framing(head, reason);
    *reason = status ? *reason : "";
    if (!status && head->minor_version > 0 && !http_header(head, "host")) {
        *reason = "the Host header is missing";
        return 400;
    }
    return status;
}

const char *http_header(const struct http_head *head, const char *name) {
    for (size_t i = 0; i < head->n_headers; i++)
        if (!strcmp(head->headers[i].name, name)) return head->headers[i].value;
    return NULL;
}

const char *http_query(const struct http_head *head, const char *name, struct arena *arena) {
    size_t n = strlen(name);
    for (const char *at = head->query; *at;) {
        size_t length = strcspn(at, "&");
        if (length >= n && !memcmp(at, name, n) && (length == n || at[n] == '='))
            return length == n ? "" : percent_decode(arena, at + n + 1, length - n - 1, true);
        at += length + (at[length] == '&');
    }
    return NULL;
}

/* ---- chunked bodies ---- */

static bool take_size_char(struct http_chunked *d, char c) {
    if (++d->line_length > 256) return false;
    int digit = d->in_extension ? -1 : hex_value(c);
    if (digit >= 0) {
        if (d->left >> 56) return false;
        d->left = d->left * 16 + (uint64_t)digit;
        d->has_digit = true;
        return true;
    }
    if (!d->has_digit) return false;
    if (c == '\n') {
        d->state = d->left ? CHUNK_DATA : CHUNK_TRAILER;
        d->line_is_empty = true;
        return true;
    }
    if (c == '\r') return true;
    if (c != ';' && c != ' ' && c != '\t' && !d->in_extension) return false;
    d->in_extension = true;
    return true;
}

static bool take_trailer_char(struct http_chunked *d, char c) {
    if (++d->n_trailer_bytes > 8192) return false;
    if (c == '\n') {
        if (d->line_is_empty) d->state = CHUNK_DONE;
        d->line_is_empty = true;
    } else if (c != '\r') {
        d->line_is_empty = false;
    }
    return true;
}

static void begin_size_line(struct http_chunked *d) {
    d->state = CHUNK_SIZE;
    d->left = 0;
    d->line_length = 0;
    d->has_digit = d->in_extension = d->after_cr = false;
}

size_t http_chunked_feed(struct http_chunked *d, const char *data, size_t length, struct buffer *body, size_t max_body,
                         int *status) {
    size_t at = 0;
    *status = 0;
    while (at < length && d->state != CHUNK_DONE && !*status) {
        char c = data[at];
        switch (d->state) {
        case CHUNK_SIZE:
            if (!take_size_char(d, c))
                *status = 400;
            else if (d->left > max_body)
                *status = 413;
            at++;
            break;
        case CHUNK_DATA: {
            size_t n = length - at < d->left ? length - at : (size_t)d->left;
            if (n > max_body - body->length || body->length > max_body)
                *status = 413;
            else if (!buffer_append(body, data + at, n))
                *status = 500;
            at += n;
            d->left -= n;
            if (!d->left) d->state = CHUNK_DATA_END;
            break;
        }
        case CHUNK_DATA_END:
            if (c == '\n')
                begin_size_line(d);
            else if (c != '\r' || d->after_cr)
                *status = 400;
            else
                d->after_cr = true;
            at++;
            break;
        case CHUNK_TRAILER:
            if (!take_trailer_char(d, c)) *status = 400;
            at++;
            break;
        case CHUNK_DONE: break;
        }
    }
    return at;
}

const char *http_reason(int status) {
    static const struct {
        int status;
        const char *text;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {411, "Length Required"},
                   {413, "Content Too Large"},
                   {417, "Expectation Failed"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].text;
    return "Status";
}
