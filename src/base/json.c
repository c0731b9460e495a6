/* SPDX-License-Identifier: Apache-2.0 */
/* The reader. One loop over the input with an explicit stack: values of open containers wait on `pending`, and are
 * copied into the arena as one array when their container closes. */
#include "base/json.h"

#include "base/map.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct container {
    size_t first; /* index in pending of its first child */
    bool is_object;
};

struct parser {
    struct arena *arena;
    const char *start, *at, *end;
    int flags, max_depth;
    struct mx_error *err;
    struct json_member *pending; /* children of all open containers; keys unused in arrays */
    size_t n_pending, pending_capacity;
    struct container *stack;
    size_t depth, stack_capacity;
    locale_t c_locale; /* for strtod_l, made when first needed */
};

static bool fail_at(struct parser *p, const char *where, const char *what) {
    size_t line = 1, column = 1;
    for (const char *c = p->start; c < where; c++) {
        column++;
        if (*c == '\n') {
            line++;
            column = 1;
        }
    }
    return error_set(p->err, ERROR_FORMAT, "line %zu, column %zu: %s", line, column, what);
}

static bool fail(struct parser *p, const char *what) { return fail_at(p, p->at, what); }

static void skip_space(struct parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')) p->at++;
}

/* True for 8 bytes that are all printable ASCII other than '"' and '\\'. */
static bool is_plain_word(const char *bytes) {
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t w;
    memcpy(&w, bytes, 8);
    uint64_t quote = w ^ ones * '"', backslash = w ^ ones * '\\';
    uint64_t special = (w - ones * 0x20) | (quote - ones) | (backslash - ones) | w;
    return !(special & high);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool read_hex4(struct parser *p, uint32_t *value) {
    if (p->end - p->at < 4) return fail(p, "\\u needs four hexadecimal digits");
    *value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p->at[i]);
        if (digit < 0) return fail(p, "\\u needs four hexadecimal digits");
        *value = *value << 4 | (uint32_t)digit;
    }
    p->at += 4;
    return true;
}

/* After "\u": one code point, from a surrogate pair where need be. */
static bool read_unicode_escape(struct parser *p, uint32_t *code_point) {
    const char *where = p->at - 2;
    if (!read_hex4(p, code_point)) return false;
    if (*code_point >= 0xdc00 && *code_point < 0xe000) return fail_at(p, where, "a low surrogate stands alone");
    if (*code_point < 0xd800 || *code_point >= 0xdc00) return true;
    uint32_t low;
    if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u')
        return fail_at(p, where, "a high surrogate stands alone");
    p->at += 2;
    if (!read_hex4(p, &low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return fail_at(p, where, "a high surrogate stands alone");
    *code_point = 0x10000 + ((*code_point - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool read_escape(struct parser *p, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p->at >= p->end) return fail(p, "the text ends inside a string");
    char c = *p->at++;
    if (c == 'u') {
        uint32_t code_point;
        if (!read_unicode_escape(p, &code_point)) return false;
        *out += utf8_encode(code_point, *out);
        return true;
    }
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) {
        p->at--;
        return fail(p, "unknown escape in a string");
    }
    *(*out)++ = to[found - from];
    return true;
}

/* Advances over plain characters; stops at '"', '\\' or the end. */
static bool skip_plain(struct parser *p) {
    for (;;) {
        while (p->end - p->at >= 8 && is_plain_word(p->at)) p->at += 8;
        if (p->at >= p->end) return fail(p, "the text ends inside a string");
        unsigned char c = (unsigned char)*p->at;
        if (c == '"' || c == '\\') return true;
        if (c < 0x20) return fail(p, "control character in a string");
        uint32_t code_point;
        size_t n = utf8_decode(p->at, (size_t)(p->end - p->at), &code_point);
        if (!n) return fail(p, "invalid UTF-8");
        p->at += n;
    }
}

/* At the character after the opening quote. An escape never gets longer by decoding, so the decoded text fits into the
 * room of the raw one. */
static bool read_string(struct parser *p, const char **text, uint32_t *length) {
    const char *first = p->at;
    if (!skip_plain(p)) return false;
    size_t n = (size_t)(p->at - first);
    *text = first;
    if (*p->at == '\\') {
        const char *close = p->at;
        while (close < p->end && *close != '"') close += *close == '\\' && close + 1 < p->end ? 2 : 1;
        char *copy = arena_alloc(p->arena, (size_t)(close - first));
        if (!copy) return error_memory(p->err, "JSON string");
        memcpy(copy, first, n);
        char *out = copy + n;
        while (*p->at != '"') {
            p->at++;
            if (!read_escape(p, &out)) return false;
            const char *plain = p->at;
            if (!skip_plain(p)) return false;
            memcpy(out, plain, (size_t)(p->at - plain));
            out += p->at - plain;
        }
        *text = copy;
        n = (size_t)(out - copy);
    }
    p->at++;
    if (n > UINT32_MAX) return fail(p, "string of more than 4 GiB");
    *length = (uint32_t)n;
    return true;
}

/* Numbers whose digits are exact in a double and whose power of ten is exact need one correctly rounded operation
 * (Clinger 1990); the rest goes through strtod in the "C" locale. */
static bool slow_real(struct parser *p, const char *first, double *value) {
    char small[64], *text = small;
    size_t n = (size_t)(p->at - first);
    if (!p->c_locale) p->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (n >= sizeof small) text = malloc(n + 1);
    if (!p->c_locale || !text) {
        if (text != small) free(text);
        return error_memory(p->err, "JSON number");
    }
    memcpy(text, first, n);
    text[n] = '\0';
    *value = strtod_l(text, NULL, p->c_locale);
    if (text != small) free(text);
    return true;
}

static bool read_number(struct parser *p, struct json *value) {
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *first = p->at;
    bool negative = *p->at == '-', is_integer = true;
    if (negative) p->at++;
    uint64_t digits = 0;
    int n_digits = 0, exponent = 0;
    const char *whole = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        if (digits || *p->at != '0') n_digits++;
        if (n_digits <= 19) digits = digits * 10 + (uint64_t)(*p->at - '0');
        p->at++;
    }
    if (p->at == whole) return fail_at(p, first, "expected a value");
    if (*whole == '0' && p->at - whole > 1) return fail_at(p, whole, "number with a leading zero");
    if (p->at < p->end && *p->at == '.') {
        is_integer = false;
        const char *fraction = ++p->at;
        while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
            if (digits || *p->at != '0') n_digits++;
            if (n_digits <= 19) {
                digits = digits * 10 + (uint64_t)(*p->at - '0');
                exponent--;
            }
            p->at++;
        }
        if (p->at == fraction) return fail(p, "expected a digit after the decimal point");
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        is_integer = false;
        p->at++;
        bool down = p->at < p->end && *p->at == '-';
        if (p->at < p->end && (*p->at == '+' || *p->at == '-')) p->at++;
        const char *power_digits = p->at;
        int stated = 0;
        for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
            if (stated < 100000) stated = stated * 10 + (*p->at - '0');
        if (p->at == power_digits) return fail(p, "expected a digit in the exponent");
        exponent += down ? -stated : stated;
    }
    if (is_integer && n_digits <= 19 && digits <= (uint64_t)INT64_MAX && !(negative && !digits)) {
        value->type = JSON_INTEGER;
        value->integer = negative ? -(int64_t)digits : (int64_t)digits;
        return true;
    }
    if (is_integer && p->flags & JSON_PYTHON_INTEGERS) {
        value->type = digits ? JSON_BIG_INTEGER : JSON_INTEGER;
        value->integer = 0;
        if (!digits) return true;
        if ((size_t)(p->at - first) > UINT32_MAX) return fail(p, "number of more than 4 GiB");
        value->string = first;
        value->count = (uint32_t)(p->at - first);
        return true;
    }
    value->type = JSON_REAL;
    if (n_digits <= 19 && digits <= (uint64_t)1 << 53 && exponent >= -22 && exponent <= 22) {
        double d = (double)digits;
        d = exponent < 0 ? d / power[-exponent] : d * power[exponent];
        value->real = negative ? -d : d;
        return true;
    }
    return slow_real(p, first, &value->real);
}

static bool read_word(struct parser *p, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

static bool read_scalar(struct parser *p, struct json *value) {
    if (p->at >= p->end) return fail(p, "the text ends where a value is expected");
    switch (*p->at) {
    case '"':
        p->at++;
        value->type = JSON_STRING;
        return read_string(p, &value->string, &value->count);
    case 'n': value->type = JSON_NULL; return read_word(p, "null") || fail(p, "expected a value");
    case 't': value->type = JSON_TRUE; return read_word(p, "true") || fail(p, "expected a value");
    case 'f': value->type = JSON_FALSE; return read_word(p, "false") || fail(p, "expected a value");
    default: break;
    }
    if (p->flags & JSON_ALLOW_NAN) {
        value->type = JSON_REAL;
        if (read_word(p, "NaN")) return value->real = (double)NAN, true;
        if (read_word(p, "Infinity")) return value->real = (double)INFINITY, true;
        if (read_word(p, "-Infinity")) return value->real = -(double)INFINITY, true;
    }
    return read_number(p, value);
}

static bool refuse_duplicates(struct parser *p, const struct json_member *members, size_t n) {
    struct map seen = {0};
    bool was_present = false, ok = true;
    size_t i;
    for (i = 0; i < n && ok && !was_present; i++) {
        if (n <= 8) {
            for (size_t j = 0; j < i && !was_present; j++)
                was_present = members[j].key_length == members[i].key_length &&
                              !memcmp(members[j].key, members[i].key, members[i].key_length);
        } else {
            ok = map_put(&seen, members[i].key, members[i].key_length, 0, &was_present);
        }
    }
    map_free(&seen);
    if (!ok) return error_memory(p->err, "JSON keys");
    if (!was_present) return true;
    const struct json_member *twice = &members[i - 1];
    return error_set(p->err, ERROR_FORMAT, "key '%.*s' stands twice in one object",
                     twice->key_length > 200 ? 200 : (int)twice->key_length, twice->key);
}

static bool push_pending(struct parser *p) {
    if (!array_reserve(&p->pending, &p->pending_capacity, p->n_pending + 1, sizeof *p->pending))
        return error_memory(p->err, "JSON tree");
    p->pending[p->n_pending++] = (struct json_member){0};
    return true;
}

static bool open_container(struct parser *p) {
    if (p->depth >= (size_t)p->max_depth) return fail(p, "nested too deeply");
    if (!array_reserve(&p->stack, &p->stack_capacity, p->depth + 1, sizeof *p->stack))
        return error_memory(p->err, "JSON tree");
    p->stack[p->depth++] = (struct container){.first = p->n_pending, .is_object = *p->at == '{'};
    p->at++;
    return true;
}

/* Moves the children of the innermost container into the arena; *value becomes the finished container. */
static bool close_container(struct parser *p, struct json *value) {
    struct container c = p->stack[--p->depth];
    size_t n = p->n_pending - c.first;
    const struct json_member *children = n ? p->pending + c.first : NULL;
    if (n > UINT32_MAX) return fail(p, "more than 2^32 items");
    value->type = c.is_object ? JSON_OBJECT : JSON_ARRAY;
    value->count = (uint32_t)n;
    if (c.is_object) {
        if (p->flags & JSON_REJECT_DUPLICATES && !refuse_duplicates(p, children, n)) return false;
        struct json_member *members = arena_calloc(p->arena, n, sizeof *members);
        if (!members) return error_memory(p->err, "JSON object");
        if (n) memcpy(members, children, n * sizeof *members);
        value->members = members;
    } else {
        struct json *items = arena_calloc(p->arena, n, sizeof *items);
        if (!items) return error_memory(p->err, "JSON array");
        for (size_t i = 0; i < n; i++) items[i] = children[i].value;
        value->items = items;
    }
    p->n_pending = c.first;
    p->at++;
    return true;
}

/* Reads `"key" :` into a fresh pending member. */
static bool read_key(struct parser *p) {
    if (p->at >= p->end || *p->at != '"') return fail(p, "expected a key in double quotes");
    p->at++;
    const char *key;
    uint32_t length;
    if (!read_string(p, &key, &length) || !push_pending(p)) return false;
    p->pending[p->n_pending - 1].key = key;
    p->pending[p->n_pending - 1].key_length = length;
    skip_space(p);
    if (p->at >= p->end || *p->at != ':') return fail(p, "expected ':' after a key");
    p->at++;
    skip_space(p);
    return true;
}

/* Before a child: its key (objects) or its place (arrays) on pending. */
static bool begin_child(struct parser *p) { return p->stack[p->depth - 1].is_object ? read_key(p) : push_pending(p); }

/* After a finished value: stores it, then takes what follows: a comma (and the next child begins) or closings.
 * *done is set when the outermost value is complete. */
static bool finish_value(struct parser *p, struct json value, struct json *root, bool *done) {
    for (;;) {
        if (!p->depth) {
            *root = value;
            *done = true;
            return true;
        }
        p->pending[p->n_pending - 1].value = value;
        skip_space(p);
        if (p->at >= p->end) return fail(p, "the text ends inside an array or object");
        if (*p->at == ',') {
            p->at++;
            skip_space(p);
            return begin_child(p);
        }
        if (*p->at != (p->stack[p->depth - 1].is_object ? '}' : ']'))
            return fail(p, p->stack[p->depth - 1].is_object ? "expected ',' or '}'" : "expected ',' or ']'");
        value = (struct json){0};
        if (!close_container(p, &value)) return false;
    }
}

static bool parse_all(struct parser *p, struct json *root) {
    bool done = false;
    skip_space(p);
    while (!done) {
        struct json value = {0};
        if (p->at < p->end && (*p->at == '[' || *p->at == '{')) {
            if (!open_container(p)) return false;
            skip_space(p);
            bool is_object = p->stack[p->depth - 1].is_object;
            if (p->at >= p->end || *p->at != (is_object ? '}' : ']')) {
                if (!begin_child(p)) return false;
                continue;
            }
            if (!close_container(p, &value)) return false;
        } else if (!read_scalar(p, &value)) {
            return false;
        }
        if (!finish_value(p, value, root, &done)) return false;
    }
    skip_space(p);
    return p->at == p->end || fail(p, "text after the end of the value");
}

const struct json *json_parse(struct arena *arena, const char *text, size_t length, int flags, int max_depth,
                              struct mx_error *err) {
    if (!text) return json_parse(arena, "", 0, flags, max_depth, err); /* an empty file's mapping */
    /* length is 0 where the text is "" */
    /* cppcheck-suppress pointerOutOfBoundsCond */
    struct parser p = {.arena = arena, .start = text, .at = text, .end = text + length, .flags = flags, .err = err};
    p.max_depth = max_depth > 10000 ? 10000 : max_depth;
    if (length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) p.at += 3;
    struct json *root = arena_calloc(arena, 1, sizeof *root);
    bool ok = root ? parse_all(&p, root) : error_memory(err, "JSON tree");
    free(p.pending);
    free(p.stack);
    if (p.c_locale) freelocale(p.c_locale);
    return ok ? root : NULL;
}

const struct json *json_get(const struct json *object, const char *key) {
    if (!json_is_object(object)) return NULL;
    size_t n = strlen(key);
    for (size_t i = object->count; i-- > 0;) {
        const struct json_member *m = &object->members[i];
        if (m->key_length == n && !memcmp(m->key, key, n)) return &m->value;
    }
    return NULL;
}

const struct json *json_at(const struct json *array, size_t index) {
    return json_is_array(array) && index < array->count ? &array->items[index] : NULL;
}

/* Digits only: no locale can mislead strtod. */
static double big_number(const struct json *v) {
    char *text = malloc((size_t)v->count + 1);
    if (!text) return v->string[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    memcpy(text, v->string, v->count);
    text[v->count] = '\0';
    double value = strtod(text, NULL);
    free(text);
    return value;
}

double json_number(const struct json *v, double fallback) {
    if (!json_is_number(v)) return fallback;
    if (v->type == JSON_BIG_INTEGER) return big_number(v);
    return v->type == JSON_INTEGER ? (double)v->integer : v->real;
}

int64_t json_integer(const struct json *v, int64_t fallback) {
    if (!json_is_number(v) || v->type == JSON_BIG_INTEGER) return fallback;
    if (v->type == JSON_INTEGER) return v->integer;
    if (!(fabs(v->real) <= 0x1p62) || v->real != (double)(int64_t)v->real) return fallback;
    return (int64_t)v->real;
}

bool json_bool(const struct json *v, bool fallback) { return json_is_bool(v) ? v->type == JSON_TRUE : fallback; }

bool json_string_is(const struct json *v, const char *text) {
    return json_is_string(v) && strlen(text) == v->count && !memcmp(v->string, text, v->count);
}

char *json_string_copy(struct arena *arena, const struct json *v) {
    if (!json_is_string(v) || memchr(v->string, '\0', v->count)) return NULL;
    return arena_copy(arena, v->string, v->count);
}

const char *json_type_name(const struct json *v) {
    static const char *const names[] = {"null",     "false",    "true",      "an integer", "a number",
                                        "a string", "an array", "an object", "an integer"};
    return v ? names[v->type] : "absent";
}
