/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/symbols.h"

static bool each(const struct nodes *nodes, jinja_visit visit, void *context) {
    for (struct node *n = nodes->first; n; n = n->next)
        if (!visit(context, n)) return false;
    return true;
}

static bool maybe(struct node *node, jinja_visit visit, void *context) { return !node || visit(context, node); }

static bool each_argument(const struct arguments *args, jinja_visit visit, void *context) {
    if (!each(&args->positional, visit, context)) return false;
    for (const struct keyword *k = args->keywords; k; k = k->next)
        if (!visit(context, k->value)) return false;
    return maybe(args->star, visit, context) && maybe(args->star_star, visit, context);
}

static bool each_statement_child(struct node *n, jinja_visit visit, void *context) {
    switch ((enum node_kind)n->kind) {
    case NODE_FOR:
        return visit(context, n->loop.into) && visit(context, n->loop.iterable) &&
               each(&n->loop.body, visit, context) && each(&n->loop.otherwise, visit, context) &&
               maybe(n->loop.test, visit, context);
    case NODE_IF:
        return visit(context, n->branch.test) && each(&n->branch.body, visit, context) &&
               each(&n->branch.elifs, visit, context) && each(&n->branch.otherwise, visit, context);
    case NODE_MACRO:
    case NODE_CALL_BLOCK:
        return (n->kind == NODE_MACRO || maybe(n->macro.call, visit, context)) &&
               each(&n->macro.macro->parameters, visit, context) && each(&n->macro.macro->defaults, visit, context) &&
               each(&n->macro.macro->body, visit, context);
    case NODE_FILTER_BLOCK: return each(&n->scope.body, visit, context) && visit(context, n->scope.value);
    case NODE_WITH:
    case NODE_ASSIGN:
    case NODE_ASSIGN_BLOCK:
    case NODE_AUTOESCAPE:
        return maybe(n->scope.into, visit, context) && maybe(n->scope.value, visit, context) &&
               each(&n->scope.body, visit, context);
    case NODE_BLOCK: return each(&n->block->body, visit, context);
    case NODE_EXTENDS:
    case NODE_INCLUDE:
    case NODE_IMPORT: return visit(context, n->include.template);
    default: return true;
    }
}

bool jinja_each_child(struct node *n, jinja_visit visit, void *context) {
    switch ((enum node_kind)n->kind) {
    case NODE_TUPLE:
    case NODE_LIST:
    case NODE_DICT:
    case NODE_CONCAT:
    case NODE_OUTPUT: return each(&n->items, visit, context);
    case NODE_CONDITIONAL:
    case NODE_SLICE:
    case NODE_ITEM:
    case NODE_BINARY:
    case NODE_AND:
    case NODE_OR:
    case NODE_NOT:
    case NODE_NEGATIVE:
    case NODE_POSITIVE:
        return maybe(n->a, visit, context) && maybe(n->b, visit, context) &&
               (n->kind != NODE_CONDITIONAL && n->kind != NODE_SLICE ? true : maybe(n->c, visit, context));
    case NODE_COMPARE:
        if (!visit(context, n->a)) return false;
        for (struct node *operand = n->operands.first; operand; operand = operand->next)
            if (!visit(context, operand->a)) return false;
        return true;
    case NODE_FILTER:
    case NODE_TEST:
    case NODE_CALL: return maybe(n->target, visit, context) && each_argument(n->arguments, visit, context);
    case NODE_ATTRIBUTE: return visit(context, n->target);
    default: return each_statement_child(n, visit, context);
    }
}
