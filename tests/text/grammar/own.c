/* SPDX-License-Identifier: Apache-2.0 */
/* Small cases, worked out by hand, and hostile grammars. */
#include "tests/support/tap.h"
#include "tests/text/grammar/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct own_case {
    const char *gbnf, *regex;                 /* one of them */
    const char *accept, *incomplete, *reject; /* texts separated by newlines; NULL = none */
};

static const struct own_case CASES[] = {
    {.gbnf = "root ::= \"a\" root \"x\" | \"a\" root \"y\" | \"z\"",
     .accept = "z\nazx\naazyx",
     .incomplete = "aaz",
     .reject = "azz\nx"},
    {.gbnf = "root ::= item{2,}\nitem ::= [a-c] \";\"",
     .accept = "a;b;\na;b;c;",
     .incomplete = "a;\na;b;c",
     .reject = "d;\na;;"},
    {.gbnf = "root ::= (\"a\"?)* \"b\"", .accept = "b\naab", .incomplete = "aa", .reject = "c"},
    {.gbnf = "root ::=\n  \"x\" |\n  \"y\"\n", .accept = "x\ny", .reject = "z"},
    {.gbnf = "root ::= \"a\" dead | \"b\"\ndead ::= \"c\" dead", .accept = "b", .reject = "a\nac"},
    {.regex = "[^\\d\\s]{2}", .accept = "ab\n\xc3\xa9\xe6\x97\xa5", .incomplete = "a\n\xc3", .reject = "a1\n1"},
    {.regex = "^(a|b)*c$|^$", .accept = "abac\nc", .incomplete = "ab", .reject = "ca"},
    {.regex = "(?i)stra\xc3\x9f"
              "e",
     .accept = "STRA\xc3\x9f"
               "E\nstra\xc3\x9f"
               "e",
     .reject = "stras"},
    {.regex = "a$b|c", .accept = "c", .reject = "a\nab"},
    {.regex = "x(?i:y)z", .accept = "xyz\nxYz", .reject = "XYZ\nxYZ"},
    {.regex = "\\u{1F600}|\\ud83d\\ude01",
     .accept = "\xf0\x9f\x98\x80\n\xf0\x9f\x98\x81",
     .incomplete = "\xf0\x9f\x98",
     .reject = "\xf0\x9f\x98\x82"},
    {.regex = "(a{2,3}){2}", .accept = "aaaa\naaaaa\naaaaaa", .incomplete = "aaa", .reject = "aaaaaaa"},
};

static void check_list(struct grammar *g, const char *texts, enum grammar_verdict expected, const char *name) {
    while (texts) {
        const char *end = strchr(texts, '\n');
        size_t length = end ? (size_t)(end - texts) : strlen(texts);
        enum grammar_verdict found = verdict_on(g, texts, length);
        tap_ok(found == expected, "%s: '%.*s' is %s", name, (int)length, texts, grammar_verdict_name(expected));
        texts = end ? end + 1 : NULL;
    }
}

static void check_errors(void) {
    static const struct {
        bool is_regex;
        const char *text, *message; /* a part of the message */
    } cases[] = {
        {true, "(a)\\1", "back-references"},
        {true, "(?=a)b", "look-ahead"},
        {true, "(?<!a)b", "look-behind"},
        {true, "\\bfoo", "word boundaries"},
        {true, "a++", "possessive"},
        {true, "(?>a)", "atomic"},
        {true, "a{100001}", "limit"},
        {true, "[b-a]", "range"},
        {false, "root ::= root \"a\" | \"b\"", "'root' is left-recursive"},
        {false, "root ::= \"a\"\nb ::= c\nc ::= b", "left-recursive"},
        {false, "root ::= \"a\" <tool>", "tokens"},
        {false, "root ::= \"a\" root", "matches no text"},
        {false, "root ::= \"a\"\n\nx ::= \"b\" )", "line 3 column 11"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mx_error err = {0};
        struct grammar *g = cases[i].is_regex ? grammar_from_regex(cases[i].text, strlen(cases[i].text), &err)
                                              : grammar_from_gbnf(cases[i].text, strlen(cases[i].text), &err);
        tap_ok(!g && strstr(err.message, cases[i].message), "%s is refused: %s", cases[i].text, cases[i].message);
        if (g || !strstr(err.message, cases[i].message)) tap_note("message: %s", err.message);
        grammar_destroy(g);
    }
}

static void check_choices(void) {
    const char *const choices[] = {"yes", "no", "not sure"};
    struct mx_error err = {0};
    struct grammar *g = grammar_from_choices(choices, 3, &err);
    tap_ok(g != NULL, "choices make a grammar");
    check_list(g, "yes\nno\nnot sure", GRAMMAR_ACCEPT, "choices");
    check_list(g, "n\nnot", GRAMMAR_INCOMPLETE, "choices");
    check_list(g, "yesno\nx", GRAMMAR_REJECT, "choices");
    grammar_destroy(g);
    tap_ok(!grammar_from_choices(choices, 0, &err), "no choice at all is refused");
}

/* A copy goes its own way. */
static void check_copies(void) {
    struct grammar *g = grammar_from_regex("a(b|c)d", 7, NULL);
    struct matcher one, two;
    matcher_init(&one, g);
    matcher_push(&one, "a", 1);
    matcher_copy(&two, &one);
    bool ok = matcher_push(&one, "bd", 2) == GRAMMAR_ACCEPT && matcher_push(&two, "c", 1) == GRAMMAR_INCOMPLETE &&
              matcher_push(&two, "d", 1) == GRAMMAR_ACCEPT && matcher_push(&one, "d", 1) == GRAMMAR_REJECT;
    tap_ok(ok, "a copied matcher goes its own way");
    matcher_free(&one);
    matcher_free(&two);
    grammar_destroy(g);
}

void test_own_cases(void) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct own_case *c = &CASES[i];
        const char *text = c->gbnf ? c->gbnf : c->regex;
        struct mx_error err = {0};
        struct grammar *g =
            c->gbnf ? grammar_from_gbnf(text, strlen(text), &err) : grammar_from_regex(text, strlen(text), &err);
        if (!tap_ok(g != NULL, "%s is read", text)) {
            tap_note("%s", err.message);
            continue;
        }
        check_list(g, c->accept, GRAMMAR_ACCEPT, text);
        check_list(g, c->incomplete, GRAMMAR_INCOMPLETE, text);
        check_list(g, c->reject, GRAMMAR_REJECT, text);
        grammar_destroy(g);
    }
    check_errors();
    check_choices();
    check_copies();
}

/* ---- hostile grammars: an answer or an error, soon ---- */

static char *repeated(const char *piece, size_t n, const char *before, const char *after) {
    size_t length = strlen(piece);
    char *text = malloc(strlen(before) + n * length + strlen(after) + 1);
    size_t at = strlen(before);
    memcpy(text, before, at);
    for (size_t i = 0; i < n; i++, at += length) memcpy(text + at, piece, length);
    memcpy(text + at, after, strlen(after) + 1);
    return text;
}

/* Builds the grammar and feeds it a long text; both together stay under the limit of two seconds. */
static void within_limit(const char *name, bool is_regex, const char *text, const char *input) {
    double start = processor_seconds();
    struct mx_error err = {0};
    struct grammar *g =
        is_regex ? grammar_from_regex(text, strlen(text), &err) : grammar_from_gbnf(text, strlen(text), &err);
    if (g) verdict_on(g, input, strlen(input));
    double seconds = processor_seconds() - start;
    tap_ok(seconds < SECONDS_ALLOWED && (g || err.message[0]), "%s ends soon: %s", name, g ? "followed" : err.message);
    if (seconds >= SECONDS_ALLOWED / 4) tap_note("it took %.2f s", seconds);
    grammar_destroy(g);
}

static char *rule_chain(size_t n, bool backwards) {
    size_t room = 40 * (n + 1), at = 0;
    char *text = malloc(room);
    at += (size_t)snprintf(text, room, "root ::= r%zu\n", backwards ? n - 1 : (size_t)0);
    for (size_t i = 0; i < n; i++) {
        size_t to = backwards ? i - 1 : i + 1;
        if (i == (backwards ? 0 : n - 1))
            at += (size_t)snprintf(text + at, room - at, "r%zu ::= \"a\"?\n", i);
        else
            at += (size_t)snprintf(text + at, room - at, "r%zu ::= r%zu\n", i, to);
    }
    return text;
}

void test_limits(void) {
    char *as = repeated("a", 20000, "", ""), *open = repeated("(", 1000000, "", ""),
         *deep = repeated("(", 100000, "", "");
    char *optional = repeated("a?", 20000, "", ""), *brackets = repeated("(", 1000, "root ::= ", "");
    char *chain = rule_chain(20000, false), *back_chain = rule_chain(20000, true);
    char *categories = repeated("\\p{Lu}\\p{^Zl}", 20000, "", ""), *one = repeated("\\p{Zl}", 20000, "", "");
    char *folded = repeated("[!-\\u{10FFFF}]", 20000, "(?i)", ""), *members = repeated("\\p{L}", 500000, "[", "]");
    char *big = repeated("[a-z\\u0100-\\U0001F000] ", 40000, "root ::= ", "\n");
    within_limit("nested counts", true, "(a{1000}){1000}", as);
    within_limit("nested open counts", true, "((a{0,300}){0,300}){0,3}", as);
    within_limit("nested stars", true, "((((a*)*)*)*)*b", as);
    within_limit("an exponential automaton", true, "(a|b)*a(a|b){20}", as);
    within_limit("many optional letters", true, optional, as);
    within_limit("a million parentheses", true, open, "");
    within_limit("categories of many ranges", true, categories, "");
    within_limit("a category of one range again and again", true, one, "");
    within_limit("categories in one class", true, members, "");
    within_limit("classes of all letters without case", true, folded, "");
    within_limit("anchors everywhere", true, "(^a$|^$)*{2}", "");
    within_limit("an ambiguous grammar", false, "root ::= \"a\" root root | \"a\" root | \"a\"", as);
    within_limit("a palindrome", false, "root ::= \"a\" root \"a\" | \"a\"", as);
    within_limit("deep nesting of the text", false, "root ::= \"(\" root \")\" | \"\"", deep);
    within_limit("deep nesting of the grammar", false, brackets, "");
    within_limit("a chain of rules", false, chain, "a");
    within_limit("a chain of rules, backwards", false, back_chain, "a");
    within_limit("a grammar of a megabyte", false, big, "a");
    within_limit("counts in GBNF", false, "root ::= ((\"a\"{2000}){2000}){2000}", as);
    free(as);
    free(open);
    free(deep);
    free(optional);
    free(brackets);
    free(chain);
    free(back_chain);
    free(categories);
    free(one);
    free(folded);
    free(members);
    free(big);
}
