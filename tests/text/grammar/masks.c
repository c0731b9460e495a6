/* SPDX-License-Identifier: Apache-2.0 */
/* Masks against the definition: a token is allowed when the text with it appended is no reject. Every token is tried, at
 * every step of random walks; and what constraints make of masks, triggers and ends. */
#include "tests/support/tap.h"
#include "tests/text/grammar/parts.h"

#include "base/rng.h"
#include "text/constraint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_SCHEMA, KIND_REGEX, KIND_GBNF };

static const struct {
    enum kind kind;
    const char *text;
} GRAMMARS[] = {
    {KIND_SCHEMA, "{\"type\":\"object\"}"},
    {KIND_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":7},\"n\":{\"type\":"
                  "\"integer\",\"minimum\":5,"
                  "\"maximum\":120},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"one\",\"two\",\"three\"]},"
                  "\"maxItems\":3}},\"required\":"
                  "[\"n\",\"name\"],\"additionalProperties\":false}"},
    {KIND_SCHEMA, "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\",\"minLength\":1,"
                  "\"maxLength\":300},"
                  "{\"type\":\"string\",\"pattern\":\"^[a-z]{2,30}$\"}]}}"},
    {KIND_SCHEMA, "{\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"e$\":{\"type\":\"number\"}},"
                  "\"minProperties\":2,\"type\":\"object\"}"},
    {KIND_REGEX, "(the|a) [a-z]{1,40}( \\d+)?\\.?"},
    {KIND_REGEX, "Answer: .{1,200}\\n"},
    {KIND_GBNF, "root ::= \"(\" root* \")\" | [a-z]+ \" \"? | \"\\\"\" [^\"\\\\\\x00-\\x1f]* \"\\\"\""},
    {KIND_GBNF,
     "root ::= item item\nitem ::= [a-z]* \" \"* word | word word\nword ::= \"a\" word \"b\" | \"ab\" | \"ba\"?"},
};

static struct grammar *make(size_t i, struct mx_error *err) {
    const char *text = GRAMMARS[i].text;
    if (GRAMMARS[i].kind == KIND_SCHEMA) return grammar_from_schema(text, strlen(text), 0, err);
    return GRAMMARS[i].kind == KIND_REGEX ? grammar_from_regex(text, strlen(text), err)
                                          : grammar_from_gbnf(text, strlen(text), err);
}

static bool is_allowed(const struct matcher *matcher, const char *bytes, size_t length) {
    struct matcher copy;
    matcher_copy(&copy, matcher);
    enum grammar_verdict verdict = matcher_push(&copy, bytes, length);
    matcher_free(&copy);
    return verdict != GRAMMAR_REJECT;
}

/* The number of tokens for which mask and trial differ. */
static size_t count_differences(const struct matcher *matcher, const struct token_trie *trie, const uint32_t *bits) {
    size_t differences = 0;
    for (size_t id = 0; id < token_trie_count(trie); id++) {
        size_t length = 0;
        const char *bytes = token_trie_bytes(trie, (uint32_t)id, &length);
        bool expected = bytes && is_allowed(matcher, bytes, length), found = bits[id / 32] >> id % 32 & 1;
        if (expected == found) continue;
        if (!differences++)
            tap_note("token %zu '%.*s' should be %s", id, (int)length, bytes ? bytes : "",
                     expected ? "allowed" : "banned");
    }
    return differences;
}

/* One of the allowed tokens, by chance; -1 = none. */
static int64_t pick(const struct token_trie *trie, const uint32_t *bits, uint64_t *random) {
    size_t n = token_trie_count(trie), start = rng_next(random) % n;
    for (size_t i = 0; i < n; i++) {
        size_t id = (start + i * 7919) % n;
        if (bits[id / 32] >> id % 32 & 1) return (int64_t)id;
    }
    for (size_t id = 0; id < n; id++)
        if (bits[id / 32] >> id % 32 & 1) return (int64_t)id;
    return -1;
}

/* Walks from the start; a dead end (nothing allowed before a match) is an error as well. */
static bool walk(struct grammar *g, const struct token_trie *trie, size_t steps, uint64_t seed, size_t *n_checked) {
    size_t words = (token_trie_count(trie) + 31) / 32;
    uint32_t *bits = malloc(words * sizeof *bits);
    uint64_t random = seed;
    struct matcher matcher;
    bool ok = matcher_init(&matcher, g);
    for (size_t i = 0; ok && i < steps; i++) {
        memset(bits, 0, words * sizeof *bits);
        ok = matcher_mask(&matcher, trie, bits) && !count_differences(&matcher, trie, bits);
        ++*n_checked;
        int64_t id = pick(trie, bits, &random);
        if (id < 0) {
            if (ok && matcher_verdict(&matcher) != GRAMMAR_ACCEPT) {
                tap_note("dead end after %zu tokens", i);
                ok = false;
            }
            break;
        }
        size_t length = 0;
        const char *bytes = token_trie_bytes(trie, (uint32_t)id, &length);
        matcher_push(&matcher, bytes, length);
    }
    matcher_free(&matcher);
    free(bits);
    return ok;
}

static void walk_all(const char *name, const struct token_trie *trie, size_t walks, size_t steps) {
    for (size_t i = 0; i < sizeof GRAMMARS / sizeof *GRAMMARS; i++) {
        struct mx_error err = {0};
        struct grammar *g = make(i, &err);
        bool ok = g != NULL;
        size_t n_checked = 0;
        for (uint64_t seed = 1; ok && seed <= walks; seed++) ok = walk(g, trie, steps, seed, &n_checked);
        tap_ok(ok && n_checked > walks, "%s: %zu masks of %.60s equal what every token gives when tried", name,
               n_checked, GRAMMARS[i].text);
        if (!g) tap_note("%s", err.message);
        grammar_destroy(g);
    }
}

/* All bytes, and strings that cross every kind of border. */
static struct token_trie *small_trie(void) {
    static const char *const strings[] = {"{\"",
                                          "\":",
                                          "\":\"",
                                          "\",\"",
                                          "\"}",
                                          "\"]",
                                          "},{",
                                          "[{\"",
                                          "true",
                                          "false",
                                          "null",
                                          "tr",
                                          "ue",
                                          "name",
                                          "na",
                                          "\"name\":",
                                          "12",
                                          "120",
                                          "0.5",
                                          "e+1",
                                          " the",
                                          "the ",
                                          "a ",
                                          "ab",
                                          "aba",
                                          "bab",
                                          "((",
                                          "))",
                                          ")(",
                                          "() ",
                                          "\n",
                                          "\n  ",
                                          "    ",
                                          "\\u00",
                                          "\\n",
                                          "\\\"",
                                          "\xc3\xa9",
                                          "\xe6\x97",
                                          "\xa5",
                                          "\xf0\x9f\x98\x80",
                                          "one\",\"two",
                                          "\"three\"]",
                                          "xe",
                                          "e\":1",
                                          "Answer: ",
                                          ".\n",
                                          "d.",
                                          "abcdefghijklmnopqrstuvwxyz",
                                          "x1",
                                          ",\"n\":7",
                                          "\"n\": 1",
                                          "n\":",
                                          "\xe6\x97\xa5\xe6\x9c\xac\""};
    enum { N = sizeof strings / sizeof *strings };
    static char bytes[256];
    const char *tokens[256 + N + 1];
    size_t lengths[256 + N + 1];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = &bytes[i];
        lengths[i] = 1;
    }
    for (size_t i = 0; i < N; i++) {
        tokens[256 + i] = strings[i];
        lengths[256 + i] = strlen(strings[i]);
    }
    tokens[256 + N] = ""; /* a special token has no bytes */
    lengths[256 + N] = 0;
    return token_trie_from_list(tokens, lengths, 256 + N + 1, NULL);
}

/* ---- constraints ---- */

static bool allows(struct constraint *c, uint32_t choice, uint32_t token, size_t n) {
    uint32_t bits[64] = {0};
    if (n > sizeof bits * 8 || !constraint_fill(c, choice, bits)) return true;
    return bits[token / 32] >> token % 32 & 1;
}

static void check_constraints(const struct token_trie *trie) {
    uint32_t end = (uint32_t)token_trie_count(trie) - 1;
    size_t n = token_trie_count(trie);
    struct mx_error err = {0};
    struct constraint_options options = {
        .grammar = grammar_from_regex("ab?", 3, &err), .trie = trie, .end_ids = &end, .n_end_ids = 1, .n_choices = 2};
    struct constraint *c = constraint_create(&options, &err);
    if (!tap_ok(c != NULL, "a constraint is made")) return;
    tap_ok(!allows(c, 0, end, n) && allows(c, 0, 'a', n) && !allows(c, 0, 'b', n),
           "the end is not allowed before the text matches");
    constraint_accept(c, 0, 'a');
    tap_ok(allows(c, 0, end, n) && allows(c, 0, 'b', n) && !constraint_is_complete(c, 0), "a match may end or go on");
    tap_ok(!allows(c, 1, end, n) && allows(c, 1, 'a', n), "the other answer is still at its start");
    constraint_accept(c, 0, 'b');
    tap_ok(allows(c, 0, end, n) && !allows(c, 0, 'b', n) && constraint_is_complete(c, 0),
           "a match that cannot go on is complete");
    constraint_accept(c, 0, end);
    tap_ok(constraint_verdict(c, 0) == GRAMMAR_ACCEPT, "the end token adds nothing");
    constraint_destroy(c);

    struct constraint_trigger triggers[2] = {{.text = "<call>", .length = 6}, {.token = 7}};
    options = (struct constraint_options){.grammar = grammar_from_regex("x+;", 3, &err),
                                          .trie = trie,
                                          .end_ids = &end,
                                          .n_end_ids = 1,
                                          .n_choices = 2,
                                          .triggers = triggers,
                                          .n_triggers = 2};
    c = constraint_create(&options, &err);
    const char *before = "some <cal <call>";
    for (const char *p = before; *p; p++) {
        bool is_free = allows(c, 0, 'q', n) && allows(c, 0, end, n);
        if (!is_free) tap_ok(false, "every token may come before the trigger (at '%s')", p);
        constraint_accept(c, 0, (uint8_t)*p);
    }
    tap_ok(!allows(c, 0, 'q', n) && allows(c, 0, 'x', n) && !allows(c, 0, ';', n),
           "behind a trigger text the grammar holds");
    constraint_accept(c, 1, 7);
    tap_ok(!allows(c, 1, 'q', n) && allows(c, 1, 'x', n), "behind a trigger token the grammar holds");
    constraint_destroy(c);

    options.grammar = grammar_from_regex("<call>x+;", 9, &err);
    options.keeps_trigger = true;
    options.n_choices = 1;
    c = constraint_create(&options, &err);
    for (const char *p = "a<call>"; *p; p++) constraint_accept(c, 0, (uint8_t)*p);
    tap_ok(allows(c, 0, 'x', n) && !allows(c, 0, '<', n), "a kept trigger is the beginning of the grammar's text");
    constraint_destroy(c);

    options = (struct constraint_options){.grammar = grammar_from_schema("false", 5, 0, &err), .trie = trie};
    err = (struct mx_error){0};
    tap_ok(!constraint_create(&options, &err) && strstr(err.message, "no text satisfies"),
           "a schema without instances is refused");
}

/* ---- a large vocabulary ---- */

static void check_large(const char *shared) {
    char folder[4096];
    struct arena arena = {0};
    struct mx_error err = {0};
    if (!tap_ok(folder_make_temporary(folder, sizeof folder), "a temporary folder")) return;
    char *command = arena_printf(&arena,
                                 "cp '%s/data/tokenizers/tiktoken-qwen/tiktoken_config.json' '%s' && xz -dc "
                                 "'%s/data/tokenizers/tiktoken-qwen/qwen.tiktoken.xz' > '%s/qwen.tiktoken'",
                                 shared, folder, shared, folder);
    bool ok = command && system(command) == 0;
    struct tokenizer *tokenizer = ok ? tokenizer_open(folder, &err) : NULL;
    struct token_trie *trie = tokenizer ? token_trie_create(tokenizer, tokenizer_vocab_size(tokenizer), &err) : NULL;
    if (tap_ok(trie && token_trie_count(trie) > 150000, "Qwen's vocabulary is read"))
        walk_all("150k tokens", trie, 1, 12);
    else
        tap_note("%s", err.message);
    token_trie_destroy(trie);
    tokenizer_close(tokenizer);
    folder_remove(folder);
    arena_free(&arena);
}

void test_masks(const char *shared) {
    struct token_trie *trie = small_trie();
    walk_all("small vocabulary", trie, 20, 40);
    check_constraints(trie);
    token_trie_destroy(trie);
    if (shared)
        check_large(shared);
    else
        tap_skip("masks of a large vocabulary", SHARED_ABSENT);
}
