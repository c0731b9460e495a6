/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/constrain.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* "A,B,C"; a comma within a choice is written \, */
static struct grammar *choices_of(const char *list, struct mx_error *err) {
    struct arena arena = {0};
    size_t n = 1, length = strlen(list);
    for (const char *p = list; *p; p++) n += *p == ',';
    char *text = arena_alloc(&arena, length + 1), *at = text;
    const char **choices = arena_calloc(&arena, n, sizeof *choices);
    struct grammar *grammar = NULL;
    if (text && choices) {
        n = 0;
        choices[n++] = text;
        for (const char *p = list; *p; p++) {
            if (*p == ',') {
                *at++ = '\0';
                choices[n++] = at;
            } else {
                if (*p == '\\' && p[1] == ',') p++;
                *at++ = *p;
            }
        }
        *at = '\0';
        grammar = grammar_from_choices(choices, n, err);
    } else {
        error_memory(err, "--choice");
    }
    arena_free(&arena);
    return grammar;
}

static struct grammar *read_grammar(const char *path, bool is_schema, struct mx_error *err) {
    size_t length;
    char *text = file_read(path, GRAMMAR_MAX_BYTES, &length, err);
    if (!text) return NULL;
    struct grammar *grammar =
        is_schema ? grammar_from_schema(text, length, SCHEMA_FORMATS, err) : grammar_from_gbnf(text, length, err);
    if (!grammar) error_prefix(err, "%s", path);
    free(text);
    return grammar;
}

static struct grammar *grammar_of(const struct options *options, struct mx_error *err) {
    const char *schema = options_text(options, OPT_JSON_SCHEMA), *file = options_text(options, OPT_GRAMMAR_FILE);
    const char *regex = options_text(options, OPT_REGEX), *choices = options_text(options, OPT_CHOICE);
    if (schema) return read_grammar(schema, true, err);
    if (file) return read_grammar(file, false, err);
    if (!regex && !choices) return grammar_from_json_object(err);
    struct grammar *grammar = regex ? grammar_from_regex(regex, strlen(regex), err) : choices_of(choices, err);
    if (!grammar) options_blame(regex ? OPT_REGEX : OPT_CHOICE, err);
    return grammar;
}

bool constrain_answer(struct session *s, const struct options *options, struct constraint **constraint,
                      struct mx_error *err) {
    static const enum option_id ids[] = {OPT_JSON_OUTPUT, OPT_JSON_SCHEMA, OPT_GRAMMAR_FILE, OPT_REGEX, OPT_CHOICE};
    size_t n = 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        n += ids[i] == OPT_JSON_OUTPUT ? options_flag(options, ids[i]) : options_text(options, ids[i]) != NULL;
    *constraint = NULL;
    if (!n) return true;
    if (n > 1)
        return error_set(err, ERROR_USAGE, "give one of --json, --json-schema, --grammar-file, --regex and --choice");
    if (!s->trie) s->trie = token_trie_create(s->tokenizer, s->model.graph.vocab_size, err);
    struct grammar *grammar = s->trie ? grammar_of(options, err) : NULL;
    if (!grammar) return false;
    struct constraint_options settings = {
        .grammar = grammar, .trie = s->trie, .end_ids = s->model.stop_ids, .n_end_ids = s->model.n_stop_ids};
    *constraint = constraint_create(&settings, err);
    return *constraint != NULL;
}
