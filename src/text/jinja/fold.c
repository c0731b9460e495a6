/* SPDX-License-Identifier: Apache-2.0 */
/* Constant expressions are computed when the template is compiled, as jinja2's optimizer does. It shows: an unknown
 * filter in the branch of an `or` that is never reached is no error, since the branch is gone. */
#include "text/jinja/compiler.h"

#include "text/jinja/eval.h"
#include "text/jinja/print.h"
#include "text/jinja/symbols.h"
#include "text/jinja/text.h"

#define MAX_FOLD_STEPS 100000
/* Longer results are left to the rendering. */
#define MAX_FOLD_BYTES 65536

/* Makes a value fit to be shared by renderings: nothing in it changes any more. False when it has no literal form. */
static bool freeze(struct compiler *c, struct jv *v, int depth, size_t *bytes) {
    if (depth > 50 || (*bytes += sizeof *v) > MAX_FOLD_BYTES) return false;
    switch ((enum jv_type)v->type) {
    case JV_NONE:
    case JV_BOOL:
    case JV_INT:
    case JV_BIG:
    case JV_FLOAT: return true;
    case JV_STRING:
        v->text->tail = NULL;
        jinja_text_count(v->text);
        jinja_text_hash(v->text, c->run.hash_seed);
        return (*bytes += v->text->length) <= MAX_FOLD_BYTES;
    case JV_TUPLE:
        if (v->is_markup) return false; /* a group */
        break;
    case JV_LIST: break;
    case JV_DICT:
        v->dict->is_constant = true;
        for (size_t i = 0; i < v->dict->n; i++)
            if (!freeze(c, &v->dict->entries[i].key, depth + 1, bytes) ||
                !freeze(c, &v->dict->entries[i].value, depth + 1, bytes))
                return false;
        return true;
    default: return false;
    }
    v->list->tail = NULL;
    for (size_t i = 0; i < v->list->n; i++)
        if (!freeze(c, &v->list->items[i], depth + 1, bytes)) return false;
    return true;
}

static bool is_foldable(const struct node *n) {
    return n->kind > NODE_NSREF && n->kind <= NODE_POSITIVE && n->kind != NODE_SLICE && n->kind != NODE_CALL;
}

/* Computes n; leaves it as it is when that fails for whatever reason. */
static void try_constant(struct compiler *c, struct node *n, bool as_text) {
    struct jinja_run *run = &c->run;
    struct jinja_failure *failure = run->failure, ignored = {0};
    uint64_t steps = run->steps_left;
    size_t bytes = 0;
    struct jv value;
    run->failure = &ignored;
    run->is_folding = true;
    run->steps_left = steps < MAX_FOLD_STEPS ? steps : MAX_FOLD_STEPS;
    run->autoescape = c->autoescape;
    uint64_t before = run->steps_left;
    int depth = run->depth;
    if (jinja_eval(run, NULL, n, &value) && (!as_text || jinja_to_str(run, value, &value)) &&
        freeze(c, &value, 0, &bytes)) {
        struct node *next = n->next;
        *n = (struct node){.kind = NODE_CONST, .line = n->line, .next = next, .is_folded = true, .value = value};
    }
    run->depth = depth;
    run->steps_left = steps - (before - run->steps_left);
    run->is_folding = false;
    run->failure = failure;
    jinja_failure_free(&ignored);
}

static bool fold_child(void *context, struct node *child);

static bool fold(struct compiler *c, struct node *n) {
    if (n->is_folded) return true;
    if (n->kind == NODE_FILTER) n->builtin = jinja_find_filter(&n->callee->text);
    if (n->kind == NODE_TEST) n->builtin = jinja_find_test(&n->callee->text);
    if (!jinja_each_child(n, fold_child, c)) return false;
    n->is_folded = true;
    if (is_foldable(n)) try_constant(c, n, false);
    return true;
}

static bool fold_child(void *context, struct node *child) { return fold(context, child); }

bool jinja_fold(struct compiler *c, struct node *n) {
    bool starts = is_foldable(n) && n->kind != NODE_TUPLE && n->kind != NODE_LIST && n->kind != NODE_DICT;
    return (!starts && n->kind != NODE_CALL) || fold(c, n);
}

void jinja_fold_output(struct compiler *c, struct node *n) {
    bool is_plain = n->kind == NODE_CONST || n->kind == NODE_NAME || n->kind == NODE_CALL;
    if (!is_plain && !c->autoescape && !c->is_volatile) try_constant(c, n, true);
}
