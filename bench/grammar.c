/* SPDX-License-Identifier: Apache-2.0 */
/* What constrained output costs: the time to read a grammar, and that of each mask while a text is written under it.
 *
 *   build/release/bench/grammar TOKENIZER_FOLDER
 *
 * The text is cut into the tokenizer's own tokens. Before each token its mask is computed, as the engine does; the first
 * pass begins with nothing remembered, the second is that of a further answer with the same grammar. One line for each
 * grammar: tokens, milliseconds to read it, then for both passes the mean, median, 99th percentile and maximum of a mask in
 * microseconds, and the tokens that one mask allows on average. */
#include "text/token_mask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kind { KIND_JSON, KIND_SCHEMA, KIND_REGEX, KIND_GBNF };

struct example {
    const char *name;
    enum kind kind;
    const char *grammar, *text;
};

static const struct example EXAMPLES[] = {
    {"JSON object", KIND_JSON, "",
     "{\"name\": \"Ada Lovelace\", \"born\": 1815, \"tags\": [\"mathematics\", \"computing\"], \"note\": \"She wrote "
     "the first "
     "published algorithm, na\xc3\xafve as it may seem today, and foresaw that machines might compose music.\", "
     "\"address\": "
     "{\"city\": \"London\", \"zip\": null, \"geo\": [51.507, -0.128]}, \"active\": false}"},
    {"schema: person", KIND_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":60},\"age\":{\"type\":"
     "\"integer\","
     "\"minimum\":0,\"maximum\":150},\"email\":{\"type\":\"string\",\"format\":\"email\"},\"born\":{\"type\":"
     "\"string\","
     "\"format\":\"date\"},\"role\":{\"enum\":[\"admin\",\"user\",\"guest\"]},\"scores\":{\"type\":\"array\",\"items\":"
     "{\"type\":\"number\"},\"maxItems\":5}},\"required\":[\"name\",\"age\",\"role\"],\"additionalProperties\":false}",
     "{\"name\": \"Grace Hopper\", \"age\": 85, \"email\": \"grace.hopper@navy.example.org\", \"born\": "
     "\"1906-12-09\", \"role\": "
     "\"admin\", \"scores\": [1.5, 22, 3e2]}"},
    {"schema: open object", KIND_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\"},\"title\":{\"type\":\"string\"}},\"required\":"
     "[\"id\"]}",
     "{\"id\": 7, \"title\": \"A longer title for the sake of measuring\", \"extra\": {\"a\": [1, 2, {\"b\": true}]}, "
     "\"more\": "
     "\"text\"}"},
    {"schema: tree, anyOf", KIND_SCHEMA,
     "{\"$ref\":\"#/$defs/"
     "n\",\"$defs\":{\"n\":{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"op\":{\"enum\":[\"add\",\"mul\"]},"
     "\"left\":{\"$ref\":\"#/$defs/n\"},\"right\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"op\",\"left\",\"right\"],"
     "\"additionalProperties\":false},{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"number\"}},"
     "\"required\":[\"value\"],"
     "\"additionalProperties\":false},{\"type\":\"string\"}]}}}",
     "{\"op\": \"add\", \"left\": {\"op\": \"mul\", \"left\": {\"value\": 3.25}, \"right\": \"x\"}, \"right\": "
     "{\"value\": -12}}"},
    {"regex: words", KIND_REGEX, "([A-Z][a-z]+ ){3,12}[a-z]+\\.", "The Quick Brown Fox Jumps Over Some Lazy dogs."},
    {"regex: any text", KIND_REGEX, "Answer: .{1,200}\n",
     "Answer: it depends on what is asked, by whom, and for which purpose.\n"},
    {"GBNF: JSON", KIND_GBNF,
     "root ::= object\nvalue ::= object | array | string | number | \"true\" | \"false\" | \"null\"\nobject ::= \"{\" "
     "ws (pair (\",\" ws "
     "pair)*)? \"}\"\npair ::= string \":\" ws value\narray ::= \"[\" ws (value (\",\" ws value)*)? \"]\"\nstring ::= "
     "\"\\\"\" ([^\"\\\\"
     "\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4}))* \"\\\"\"\nnumber ::= \"-\"? (\"0\" | "
     "[1-9] [0-9]*) (\".\" "
     "[0-9]+)? ([eE] [-+]? [0-9]+)?\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
     "{\"name\": \"Ada Lovelace\", \"born\": 1815, \"tags\": [\"mathematics\", \"computing\"], \"note\": \"She wrote "
     "the first "
     "published algorithm.\"}"},
};

static struct grammar *make(const struct example *e, struct mx_error *err) {
    size_t n = strlen(e->grammar);
    switch (e->kind) {
    case KIND_JSON: return grammar_from_json_object(err);
    case KIND_SCHEMA: return grammar_from_schema(e->grammar, n, SCHEMA_FORMATS, err);
    case KIND_REGEX: return grammar_from_regex(e->grammar, n, err);
    case KIND_GBNF: return grammar_from_gbnf(e->grammar, n, err);
    }
    return NULL;
}

/* Time of this thread on a processor: other work on the machine counts only through the caches. */
static uint64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* One answer; times[i] is the mask in front of token i, in microseconds. False when a token was not allowed. */
static bool write_answer(struct grammar *g, const struct token_trie *trie, const struct token_list *tokens,
                         uint32_t *bits, double *times, double *allowed) {
    struct matcher matcher;
    size_t n_words = (token_trie_count(trie) + 31) / 32;
    bool ok = matcher_init(&matcher, g);
    *allowed = 0;
    for (size_t i = 0; ok && i < tokens->count; i++) {
        memset(bits, 0, n_words * sizeof *bits);
        uint64_t start = thread_ns();
        ok = matcher_mask(&matcher, trie, bits);
        times[i] = (double)(thread_ns() - start) * 1e-3;
        uint32_t id = tokens->ids[i];
        ok = ok && bits[id / 32] >> id % 32 & 1;
        if (!ok) fprintf(stderr, "token %zu is not allowed\n", i);
        for (size_t w = 0; w < n_words; w++) *allowed += __builtin_popcount(bits[w]);
        size_t length = 0;
        const char *bytes = token_trie_bytes(trie, id, &length);
        if (bytes) matcher_push(&matcher, bytes, length);
    }
    ok = ok && matcher_verdict(&matcher) == GRAMMAR_ACCEPT;
    matcher_free(&matcher);
    *allowed /= (double)tokens->count;
    return ok;
}

static void print_times(double *times, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += times[i];
    qsort(times, n, sizeof *times, compare);
    printf("  %7.1f %7.1f %7.1f %7.1f", sum / (double)n, times[n / 2], times[n * 99 / 100], times[n - 1]);
}

static bool measure(const struct example *e, const struct tokenizer *tokenizer, const struct token_trie *trie) {
    struct mx_error err = {0};
    struct token_list tokens = {0};
    uint64_t start = thread_ns();
    struct grammar *g = make(e, &err);
    double read_ms = (double)(thread_ns() - start) * 1e-6, allowed = 0;
    bool ok = g && tokenizer_encode(tokenizer, e->text, strlen(e->text), TOKENIZE_PLAIN, &tokens, &err);
    uint32_t *bits = calloc((token_trie_count(trie) + 31) / 32, sizeof *bits);
    double *times = calloc(tokens.count + 1, sizeof *times);
    if (ok) printf("%-20s %4zu %8.2f", e->name, tokens.count, read_ms);
    for (int pass = 0; ok && pass < 2; pass++) {
        ok = bits && times && write_answer(g, trie, &tokens, bits, times, &allowed);
        if (ok) print_times(times, tokens.count);
    }
    if (ok)
        printf("  %8.0f\n", allowed);
    else
        fprintf(stderr, "%s: %s\n", e->name, err.message);
    free(bits);
    free(times);
    token_list_free(&tokens);
    grammar_destroy(g);
    return ok;
}

int main(int argc, char **argv) {
    struct mx_error err = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: %s TOKENIZER_FOLDER\n", argv[0]);
        return 2;
    }
    struct tokenizer *tokenizer = tokenizer_open(argv[1], &err);
    uint64_t start = thread_ns();
    struct token_trie *trie = tokenizer ? token_trie_create(tokenizer, tokenizer_vocab_size(tokenizer), &err) : NULL;
    if (!trie) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%zu tokens, trie made in %.0f ms\n", token_trie_count(trie), (double)(thread_ns() - start) * 1e-6);
    printf("%-20s %4s %8s  %31s  %31s  %8s\n", "", "n", "read/ms", "first answer, us: mean p50 p99 max",
           "next answer: mean p50 p99 max", "allowed");
    bool ok = true;
    for (size_t i = 0; i < sizeof EXAMPLES / sizeof *EXAMPLES; i++) ok = measure(&EXAMPLES[i], tokenizer, trie) && ok;
    token_trie_destroy(trie);
    tokenizer_close(tokenizer);
    return !ok;
}
