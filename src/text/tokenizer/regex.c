/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/regex.h"

#include "base/clock.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATTERN_BYTES 65536
#define MATCH_LIMIT       2000000u /* steps of one search, and 8 more per byte: real patterns need a few per character */
#define HEAP_LIMIT_KIB    65536u
#define JIT_STACK_START   65536u
#define JIT_STACK_MOST    (4u << 20)

struct regex {
    pcre2_code *code;
    bool has_jit;
};

struct regex *regex_compile(const char *pattern, size_t length, enum regex_dialect dialect, struct mx_error *err) {
    if (length > MAX_PATTERN_BYTES) {
        error_set(err, ERROR_LIMIT, "regular expression of %zu bytes (at most %d)", length, MAX_PATTERN_BYTES);
        return NULL;
    }
    struct buffer translated = {0};
    struct regex *regex = NULL;
    pcre2_compile_context *context = NULL;
    if (!regex_translate(pattern, length, dialect, &translated, err)) goto cleanup;
    regex = calloc(1, sizeof *regex);
    context = pcre2_compile_context_create(NULL);
    if (!regex || !context) {
        error_memory(err, "regular expression");
        goto cleanup;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 100);
    uint32_t options = PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C;
    if (dialect == REGEX_ONIGURUMA) options |= PCRE2_MULTILINE;
    int code = 0;
    PCRE2_SIZE at = 0;
    regex->code = pcre2_compile((PCRE2_SPTR)(translated.data ? translated.data : ""), translated.length, options, &code,
                                &at, context);
    if (!regex->code) {
        PCRE2_UCHAR reason[160];
        pcre2_get_error_message(code, reason, sizeof reason);
        error_set(err, ERROR_UNSUPPORTED, "regular expression '%.*s': %s", length > 200 ? 200 : (int)length, pattern,
                  (char *)reason);
        goto cleanup;
    }
    regex->has_jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
cleanup:
    pcre2_compile_context_free(context);
    buffer_free(&translated);
    if (regex && !regex->code) {
        free(regex);
        regex = NULL;
    }
    return regex;
}

void regex_destroy(struct regex *regex) {
    if (!regex) return;
    pcre2_code_free(regex->code);
    free(regex);
}

static bool prepare(struct regex_scratch *scratch) {
    if (scratch->jit_stack) return true;
    if (!scratch->match_data) scratch->match_data = pcre2_match_data_create(1, NULL);
    if (!scratch->match_context) scratch->match_context = pcre2_match_context_create(NULL);
    if (!scratch->match_data || !scratch->match_context) return false;
    pcre2_set_heap_limit(scratch->match_context, HEAP_LIMIT_KIB);
    scratch->jit_stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MOST, NULL);
    if (!scratch->jit_stack) return false;
    pcre2_jit_stack_assign(scratch->match_context, NULL, scratch->jit_stack);
    return true;
}

void regex_scratch_free(struct regex_scratch *scratch) {
    pcre2_match_data_free(scratch->match_data);
    pcre2_match_context_free(scratch->match_context);
    pcre2_jit_stack_free(scratch->jit_stack);
    *scratch = (struct regex_scratch){0};
}

bool regex_scratch_begin(struct regex_scratch *scratch, size_t length, struct mx_error *err) {
    if (!prepare(scratch)) return error_memory(err, "regular expression");
    uint64_t limit = MATCH_LIMIT + (uint64_t)length * 8;
    pcre2_set_match_limit(scratch->match_context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    /* A second, and ten microseconds a byte: a hundred times what real patterns take. */
    scratch->deadline_ns = clock_now_ns() + 1000000000u + (uint64_t)length * 10000u;
    scratch->n_searches = 0;
    return true;
}

enum regex_result regex_find(const struct regex *regex, struct regex_scratch *scratch, const char *text, size_t length,
                             size_t at, size_t *start, size_t *end, struct mx_error *err) {
    if (++scratch->n_searches % 64 == 0 && clock_now_ns() > scratch->deadline_ns) {
        error_set(err, ERROR_LIMIT, "the tokenizer's pattern takes too long on this text");
        return REGEX_ERROR;
    }
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int found = regex->has_jit ? pcre2_jit_match(regex->code, subject, length, at, PCRE2_NO_UTF_CHECK,
                                                 scratch->match_data, scratch->match_context)
                               : PCRE2_ERROR_JIT_STACKLIMIT;
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(regex->code, subject, length, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch->match_data,
                            scratch->match_context);
    if (found == PCRE2_ERROR_NOMATCH) return REGEX_NONE;
    if (found < 0) {
        PCRE2_UCHAR reason[160];
        pcre2_get_error_message(found, reason, sizeof reason);
        error_set(err, ERROR_LIMIT, "the tokenizer's pattern cannot be matched on this text: %s", (char *)reason);
        return REGEX_ERROR;
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->match_data);
    *start = range[0];
    *end = range[1];
    if (*start > *end) *start = *end; /* \K within a lookahead */
    return REGEX_MATCH;
}
