/* SPDX-License-Identifier: Apache-2.0 */
#include "text/constraint.h"

#include "base/buffer.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct answer_state {
    struct matcher matcher;
    bool is_waiting;    /* for a trigger */
    struct buffer tail; /* the last bytes, in which a trigger may have begun */
};

struct constraint {
    struct grammar *grammar;
    const struct token_trie *trie;
    uint32_t *end_ids;
    size_t n_end_ids;
    struct constraint_trigger *triggers;
    char **trigger_texts;
    size_t n_triggers, longest_trigger;
    bool keeps_trigger;
    struct answer_state *answers;
    uint32_t n_answers;
};

void constraint_destroy(struct constraint *c) {
    if (!c) return;
    for (uint32_t i = 0; c->answers && i < c->n_answers; i++) {
        matcher_free(&c->answers[i].matcher);
        buffer_free(&c->answers[i].tail);
    }
    for (size_t i = 0; c->trigger_texts && i < c->n_triggers; i++) free(c->trigger_texts[i]);
    free(c->trigger_texts);
    free(c->triggers);
    free(c->answers);
    free(c->end_ids);
    grammar_destroy(c->grammar);
    free(c);
}

static bool copy_triggers(struct constraint *c, const struct constraint_options *options) {
    c->triggers = array_calloc(options->n_triggers, sizeof *c->triggers);
    c->trigger_texts = array_calloc(options->n_triggers, sizeof *c->trigger_texts);
    if (!c->triggers || !c->trigger_texts) return false;
    c->n_triggers = options->n_triggers;
    for (size_t i = 0; i < c->n_triggers; i++) {
        c->triggers[i] = options->triggers[i];
        if (!c->triggers[i].text) continue;
        c->trigger_texts[i] = array_alloc(c->triggers[i].length, 1);
        if (!c->trigger_texts[i]) return false;
        memcpy(c->trigger_texts[i], c->triggers[i].text, c->triggers[i].length);
        c->triggers[i].text = c->trigger_texts[i];
        if (c->triggers[i].length > c->longest_trigger) c->longest_trigger = c->triggers[i].length;
    }
    return true;
}

static bool fill_in(struct constraint *c, const struct constraint_options *options, struct mx_error *err) {
    c->n_answers = options->n_choices ? options->n_choices : 1;
    c->answers = array_calloc(c->n_answers, sizeof *c->answers);
    c->end_ids = array_alloc(options->n_end_ids, sizeof *c->end_ids);
    if (!c->answers || !c->end_ids || !copy_triggers(c, options)) return error_memory(err, "grammar");
    for (size_t i = 0; i < options->n_end_ids; i++)
        if (options->end_ids[i] < token_trie_count(c->trie)) c->end_ids[c->n_end_ids++] = options->end_ids[i];
    for (uint32_t i = 0; i < c->n_answers; i++) {
        c->answers[i].is_waiting = c->n_triggers > 0;
        if (matcher_init(&c->answers[i].matcher, c->grammar)) continue;
        if (grammar_failure(c->grammar))
            *err = *grammar_failure(c->grammar);
        else
            error_set(err, ERROR_FORMAT, "no text satisfies the grammar or schema");
        return false;
    }
    return true;
}

struct constraint *constraint_create(const struct constraint_options *options, struct mx_error *err) {
    struct constraint *c = calloc(1, sizeof *c);
    struct mx_error local = {0};
    if (!c) {
        grammar_destroy(options->grammar);
        error_memory(err, "grammar");
        return NULL;
    }
    c->grammar = options->grammar;
    c->trie = options->trie;
    c->keeps_trigger = options->keeps_trigger;
    if (fill_in(c, options, &local)) return c;
    if (err) *err = local;
    constraint_destroy(c);
    return NULL;
}

bool constraint_fill(void *constraint, uint32_t choice, uint32_t *bits) {
    struct constraint *c = constraint;
    struct answer_state *a = &c->answers[choice];
    if (a->is_waiting) return false;
    if (!matcher_mask(&a->matcher, c->trie, bits)) return true; /* nothing is allowed: the answer ends with an error */
    if (matcher_verdict(&a->matcher) != GRAMMAR_ACCEPT) return true;
    for (size_t i = 0; i < c->n_end_ids; i++) bits[c->end_ids[i] / 32] |= 1u << c->end_ids[i] % 32;
    return true;
}

/* ---- triggers ---- */

static void begin(struct constraint *c, struct answer_state *a, const char *trigger, size_t trigger_length,
                  const char *rest, size_t length) {
    a->is_waiting = false;
    if (c->keeps_trigger) matcher_push(&a->matcher, trigger, trigger_length);
    matcher_push(&a->matcher, rest, length);
    buffer_free(&a->tail);
}

/* Appends to the tail and looks for the trigger that ends first. */
static void look_for_trigger(struct constraint *c, struct answer_state *a, const char *bytes, size_t length) {
    if (!buffer_append(&a->tail, bytes, length)) return;
    for (size_t end = 1; end <= a->tail.length; end++) {
        for (size_t i = 0; i < c->n_triggers; i++) {
            const struct constraint_trigger *t = &c->triggers[i];
            if (!t->text || !t->length || end < t->length ||
                memcmp(a->tail.data + end - t->length, t->text, t->length) != 0)
                continue;
            begin(c, a, t->text, t->length, a->tail.data + end, a->tail.length - end);
            return;
        }
    }
    /* No trigger ends in the tail, so at most its last longest_trigger - 1 bytes can begin one. */
    size_t keep = c->longest_trigger ? c->longest_trigger - 1 : 0;
    if (a->tail.length <= keep) return;
    memmove(a->tail.data, a->tail.data + a->tail.length - keep, keep);
    a->tail.length = keep;
}

void constraint_accept(void *constraint, uint32_t choice, uint32_t token) {
    struct constraint *c = constraint;
    struct answer_state *a = &c->answers[choice];
    size_t length = 0;
    const char *bytes = token_trie_bytes(c->trie, token, &length);
    if (!a->is_waiting) {
        for (size_t i = 0; i < c->n_end_ids; i++)
            if (c->end_ids[i] == token) return;
        if (bytes) matcher_push(&a->matcher, bytes, length);
        return;
    }
    for (size_t i = 0; i < c->n_triggers; i++) {
        if (c->triggers[i].text || c->triggers[i].token != token) continue;
        begin(c, a, bytes ? bytes : "", length, "", 0);
        return;
    }
    if (bytes) look_for_trigger(c, a, bytes, length);
}

bool constraint_is_complete(const struct constraint *c, uint32_t choice) {
    const struct answer_state *a = &c->answers[choice];
    return !a->is_waiting && matcher_is_complete(&a->matcher);
}

enum grammar_verdict constraint_verdict(const struct constraint *c, uint32_t choice) {
    return c->answers[choice].is_waiting ? GRAMMAR_INCOMPLETE : matcher_verdict(&c->answers[choice].matcher);
}

const struct mx_error *constraint_failure(const struct constraint *c) { return grammar_failure(c->grammar); }
