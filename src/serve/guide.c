/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/guide.h"

#include "base/memory.h"
#include "text/constraint.h"
#include "text/reply_format.h"

#include <string.h>

enum phase { PHASE_START, PHASE_THOUGHT, PHASE_CONTENT };

struct guided_choice {
    enum phase phase;
    int64_t n_thought;
};

struct guide {
    struct constraint *constraint; /* NULL = only the budget */
    bool has_marks;
    uint32_t open, close; /* tokens around a thought */
    int64_t budget;
    struct guided_choice *choices;
    uint32_t n_choices;
};

/* ---- the grammar ---- */

static bool choices_grammar(const struct json *list, struct grammar **grammar, struct mx_error *err) {
    struct arena arena = {0};
    const char **texts = arena_calloc(&arena, list->count, sizeof *texts);
    bool ok = texts && list->count;
    for (uint32_t i = 0; ok && i < list->count; i++)
        ok = (texts[i] = json_string_copy(&arena, &list->items[i])) != NULL;
    if (ok)
        *grammar = grammar_from_choices(texts, list->count, err);
    else
        error_set(err, ERROR_USAGE, "choices must be strings, at least one");
    arena_free(&arena);
    return *grammar != NULL;
}

static bool make_grammar(const struct guide_rule *rule, struct grammar **grammar, struct mx_error *err) {
    const struct json *v = rule->value;
    switch (rule->source) {
    case GUIDE_NOTHING: return true;
    case GUIDE_JSON_OBJECT: *grammar = grammar_from_json_object(err); break;
    case GUIDE_SCHEMA: *grammar = grammar_from_schema_value(v, 0, err); break;
    case GUIDE_GBNF: *grammar = grammar_from_gbnf(v->string, v->count, err); break;
    case GUIDE_REGEX: *grammar = grammar_from_regex(v->string, v->count, err); break;
    case GUIDE_CHOICES: return choices_grammar(v, grammar, err);
    }
    return *grammar != NULL;
}

static bool make_constraint(struct guide *guide, const struct guide_options *o, struct problem *problem) {
    const struct model *m = &o->served->model;
    struct mx_error err = {0};
    struct grammar *grammar = NULL;
    if (o->rule.source == GUIDE_NOTHING) return true;
    if (!make_grammar(&o->rule, &grammar, &err))
        return err.code == ERROR_MEMORY
                   ? problem_set(problem, 500, NULL, "out of memory")
                   : problem_set(problem, 400, o->rule.param, "'%s': %s", o->rule.param, err.message);
    const struct token_trie *trie = served_trie(o->served, &err);
    uint32_t *ends = array_alloc(m->n_stop_ids + o->n_stop_ids, sizeof *ends);
    if (!trie || !ends) {
        grammar_destroy(grammar);
        free(ends);
        return problem_set(problem, 500, NULL, "out of memory");
    }
    if (m->n_stop_ids) memcpy(ends, m->stop_ids, m->n_stop_ids * sizeof *ends);
    if (o->n_stop_ids) memcpy(ends + m->n_stop_ids, o->stop_ids, o->n_stop_ids * sizeof *ends);
    struct constraint_options options = {.grammar = grammar,
                                         .trie = trie,
                                         .end_ids = ends,
                                         .n_end_ids = m->n_stop_ids + o->n_stop_ids,
                                         .n_choices = o->n_choices};
    guide->constraint = constraint_create(&options, &err);
    free(ends);
    return guide->constraint || problem_from_error(problem, &err, o->rule.param);
}

/* ---- thoughts ---- */

static bool ends_with(const char *text, size_t length, const char *mark) {
    size_t n = strlen(mark);
    while (length && strchr(" \t\r\n", text[length - 1])) length--;
    return length >= n && !memcmp(text + length - n, mark, n);
}

/* The first kind of thought of the model's format whose marks are tokens. *is_inside: the prompt ends in one; *is_over: the
 * prompt ends behind one. */
static void find_marks(struct guide *guide, const struct guide_options *o, bool *is_inside, bool *is_over) {
    const struct reply_format *f = o->served->format;
    for (size_t i = 0; f && i < MAX_THOUGHTS && f->thoughts[i] && !guide->has_marks; i++) {
        const struct reply_thought *t = f->thoughts[i];
        if (!tokenizer_find(o->served->tokenizer, t->open, strlen(t->open), &guide->open) ||
            !tokenizer_find(o->served->tokenizer, t->close, strlen(t->close), &guide->close))
            continue;
        guide->has_marks = true;
        *is_inside = o->prompt && ends_with(o->prompt, o->prompt_length, t->open);
        *is_over = o->prompt && ends_with(o->prompt, o->prompt_length, t->close);
    }
}

bool guide_create(struct guide **out, const struct guide_options *o, struct problem *problem) {
    bool is_inside = false, is_over = false;
    *out = NULL;
    if (o->rule.source == GUIDE_NOTHING && o->think_budget < 0) return true;
    struct guide *guide = calloc(1, sizeof *guide);
    if (!guide) return problem_set(problem, 500, NULL, "out of memory");
    *out = guide;
    guide->budget = o->think_budget;
    guide->n_choices = o->n_choices;
    guide->choices = array_calloc(o->n_choices, sizeof *guide->choices);
    if (!guide->choices) return problem_set(problem, 500, NULL, "out of memory");
    find_marks(guide, o, &is_inside, &is_over);
    enum phase first = is_inside                                      ? PHASE_THOUGHT
                       : guide->has_marks && o->may_think && !is_over ? PHASE_START
                                                                      : PHASE_CONTENT;
    for (uint32_t i = 0; i < o->n_choices; i++) guide->choices[i].phase = first;
    return make_constraint(guide, o, problem);
}

void guide_destroy(struct guide *guide) {
    if (!guide) return;
    constraint_destroy(guide->constraint);
    free(guide->choices);
    free(guide);
}

static void allow(uint32_t *bits, uint32_t token) { bits[token / 32] |= 1u << token % 32; }

bool guide_fill(void *context, uint32_t choice, uint32_t *bits) {
    struct guide *guide = context;
    const struct guided_choice *c = &guide->choices[choice];
    if (c->phase == PHASE_THOUGHT) {
        if (guide->budget < 0 || c->n_thought < guide->budget) return false;
        allow(bits, guide->close);
        return true;
    }
    if (!guide->constraint || !constraint_fill(guide->constraint, choice, bits)) return false;
    if (c->phase == PHASE_START) allow(bits, guide->open);
    return true;
}

void guide_accept(void *context, uint32_t choice, uint32_t token) {
    struct guide *guide = context;
    struct guided_choice *c = &guide->choices[choice];
    if (c->phase == PHASE_THOUGHT) {
        c->n_thought++;
        if (token == guide->close) c->phase = PHASE_CONTENT;
        return;
    }
    if (c->phase == PHASE_START && token == guide->open) {
        c->phase = PHASE_THOUGHT;
        return;
    }
    c->phase = PHASE_CONTENT;
    if (guide->constraint) constraint_accept(guide->constraint, choice, token);
}

bool guide_is_complete(const struct guide *guide, uint32_t choice) {
    return guide && guide->constraint && guide->choices[choice].phase == PHASE_CONTENT &&
           constraint_is_complete(guide->constraint, choice);
}

const struct mx_error *guide_failure(const struct guide *guide) {
    return guide && guide->constraint ? constraint_failure(guide->constraint) : NULL;
}
