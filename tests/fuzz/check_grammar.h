/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of grammars look at: a grammar or an error with a message; the same verdict byte by byte and at
 * once; no dead end before a match; masks as every token gives when tried. */
#ifndef MLXCEL_TESTS_FUZZ_CHECK_GRAMMAR_H
#define MLXCEL_TESTS_FUZZ_CHECK_GRAMMAR_H

#include "text/token_mask.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void expect(bool claim) {
    if (!claim) abort();
}

static struct token_trie *fuzz_trie(void) {
    static const char *const tokens[] = {
        "a",  "b",  "ab",   "ba",   "\"",   "\":",          "\",\"", "{\"",  "}",   "]}",
        "[",  ",",  "1",    "12",   "0.",   "e5",           "-",     " ",    "\n ", "true",
        "nu", "\\", "\\u0", "\xc3", "\xa9", "\xe6\x97\xa5", "x",     "aaaa", "(",   ")"};
    enum { N = sizeof tokens / sizeof *tokens };
    size_t lengths[N];
    for (size_t i = 0; i < N; i++) lengths[i] = strlen(tokens[i]);
    return token_trie_from_list(tokens, lengths, N, NULL);
}

static bool is_possible(const struct matcher *matcher, const char *bytes, size_t length) {
    struct matcher copy;
    matcher_copy(&copy, matcher);
    bool possible = matcher_push(&copy, bytes, length) != GRAMMAR_REJECT;
    matcher_free(&copy);
    return possible;
}

static void check_masks(struct grammar *g, const struct matcher *matcher) {
    struct token_trie *trie = fuzz_trie();
    uint32_t bits[2] = {0};
    if (!trie) return;
    bool ok = matcher_mask(matcher, trie, bits);
    for (uint32_t id = 0; ok && id < token_trie_count(trie); id++) {
        size_t length;
        const char *bytes = token_trie_bytes(trie, id, &length);
        bool possible = is_possible(matcher, bytes, length);
        if (grammar_failure(g)) break;
        expect((bits[id / 32] >> id % 32 & 1) == possible);
    }
    expect(ok || grammar_failure(g));
    /* The grammar must not use the trie again. */
    bool goes_on = matcher_verdict(matcher) == GRAMMAR_ACCEPT;
    for (int b = 0; !goes_on && b < 256; b++) goes_on = is_possible(matcher, &(char){(char)b}, 1);
    expect(goes_on || grammar_failure(g));
    token_trie_destroy(trie);
}

/* Takes the grammar over. */
static void check_grammar(struct grammar *g, const struct mx_error *err, const char *text, size_t length) {
    if (!g) {
        expect(err->code && err->message[0] && !strchr(err->message, '\n'));
        return;
    }
    struct matcher one, two;
    bool ok = matcher_init(&one, g);
    matcher_init(&two, g);
    enum grammar_verdict whole = matcher_push(&one, text, length), piecewise = matcher_verdict(&two);
    for (size_t i = 0; i < length; i++) {
        enum grammar_verdict before = piecewise;
        piecewise = matcher_push(&two, text + i, 1);
        expect(before != GRAMMAR_REJECT || piecewise == GRAMMAR_REJECT);
    }
    expect(whole == piecewise);
    if (ok && whole != GRAMMAR_REJECT) check_masks(g, &one);
    matcher_free(&one);
    matcher_free(&two);
    grammar_destroy(g);
}

#endif
