/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of the `is` operator. */
#include "text/jinja/builtins.h"

#include "text/jinja/iterate.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

#define TEST(name)                                                                                                     \
    static bool name(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result)
#define ANSWER(expression)                                                                                             \
    do {                                                                                                               \
        JINJA_UNUSED;                                                                                                  \
        *result = jv_bool(expression);                                                                                 \
        return true;                                                                                                   \
    } while (0)

/* self % by == rest */
static bool remainder_is(struct jinja_run *run, struct jv self, struct jv by, int64_t rest, struct jv *result) {
    bool is_equal;
    struct jv remainder;
    if (!jinja_arithmetic(run, OP_MOD, self, by, &remainder) || !jinja_equal(run, remainder, jv_int(rest), &is_equal))
        return false;
    *result = jv_bool(is_equal);
    return true;
}

TEST(test_odd) {
    (void)args;
    return remainder_is(run, self, jv_int(2), 1, result);
}

TEST(test_even) {
    (void)args;
    return remainder_is(run, self, jv_int(2), 0, result);
}

TEST(test_divisibleby) { return remainder_is(run, self, args->items[0], 0, result); }

TEST(test_defined) { ANSWER(self.type != JV_UNDEFINED); }
TEST(test_undefined) { ANSWER(self.type == JV_UNDEFINED); }
TEST(test_none) { ANSWER(self.type == JV_NONE); }
TEST(test_boolean) { ANSWER(self.type == JV_BOOL); }
TEST(test_false) { ANSWER(self.type == JV_BOOL && !self.truth); }
TEST(test_true) { ANSWER(self.type == JV_BOOL && self.truth); }
TEST(test_integer) { ANSWER(self.type == JV_INT || self.type == JV_BIG); }
TEST(test_float) { ANSWER(self.type == JV_FLOAT); }
TEST(test_number) { ANSWER(jv_is_number(self)); }
TEST(test_string) { ANSWER(self.type == JV_STRING); }
TEST(test_mapping) { ANSWER(self.type == JV_DICT); }
TEST(test_iterable) { ANSWER(jinja_is_iterable(self) || self.type == JV_SELF); }
TEST(test_escaped) { ANSWER(self.type == JV_STRING && self.is_markup); }
TEST(test_callable) {
    ANSWER(self.type == JV_UNDEFINED || self.type == JV_MACRO || self.type == JV_LOOP || self.type == JV_METHOD ||
           self.type == JV_FUNCTION || self.type == JV_JOINER || self.type == JV_BLOCK);
}
TEST(test_sequence) {
    ANSWER(self.type == JV_UNDEFINED || self.type == JV_STRING || self.type == JV_BYTES || jv_is_sequence(self) ||
           self.type == JV_DICT || self.type == JV_RANGE);
}
TEST(test_sameas) { ANSWER(jinja_same(self, args->items[0])); }

static bool has_case(struct jinja_run *run, struct jv self, jinja_function predicate, struct jv *result) {
    static const struct jinja_args none;
    return jinja_to_str(run, self, &self) && predicate(run, self, &none, result);
}

TEST(test_lower) {
    (void)args;
    return has_case(run, self, jinja_str_islower, result);
}

TEST(test_upper) {
    (void)args;
    return has_case(run, self, jinja_str_isupper, result);
}

/* A name that can be looked up: what cannot be hashed cannot. */
static bool check_name(struct jinja_run *run, struct jv self) {
    uint64_t hash;
    return jinja_hash(run, self, &hash);
}

TEST(test_filter) {
    (void)args;
    *result = jv_bool(self.type == JV_STRING && jinja_find_filter(self.text));
    return check_name(run, self);
}

TEST(test_test) {
    (void)args;
    *result = jv_bool(self.type == JV_STRING && jinja_find_test(self.text));
    return check_name(run, self);
}

static bool compared(struct jinja_run *run, enum node_op op, struct jv a, struct jv b, struct jv *result) {
    bool holds;
    if (!jinja_compare(run, op, a, b, &holds)) return false;
    *result = jv_bool(holds);
    return true;
}

TEST(test_eq) { return compared(run, OP_EQ, self, args->items[0], result); }
TEST(test_ne) { return compared(run, OP_NE, self, args->items[0], result); }
TEST(test_lt) { return compared(run, OP_LT, self, args->items[0], result); }
TEST(test_le) { return compared(run, OP_LE, self, args->items[0], result); }
TEST(test_gt) { return compared(run, OP_GT, self, args->items[0], result); }
TEST(test_ge) { return compared(run, OP_GE, self, args->items[0], result); }
TEST(test_in) { return compared(run, OP_IN, self, args->items[0], result); }

static const struct jinja_builtin tests[] = {
    /* name, function, required, parameters, their names */
    {"!=", test_ne, 1, 1, NULL, 0, 0},
    {"<", test_lt, 1, 1, NULL, 0, 0},
    {"<=", test_le, 1, 1, NULL, 0, 0},
    {"==", test_eq, 1, 1, NULL, 0, 0},
    {">", test_gt, 1, 1, NULL, 0, 0},
    {">=", test_ge, 1, 1, NULL, 0, 0},
    {"boolean", test_boolean, 0, 0, NULL, 0, 0},
    {"callable", test_callable, 0, 0, NULL, 0, 0},
    {"defined", test_defined, 0, 0, NULL, 0, 0},
    {"divisibleby", test_divisibleby, 1, 1, "num", 0, 0},
    {"eq", test_eq, 1, 1, NULL, 0, 0},
    {"equalto", test_eq, 1, 1, NULL, 0, 0},
    {"escaped", test_escaped, 0, 0, NULL, 0, 0},
    {"even", test_even, 0, 0, NULL, 0, 0},
    {"false", test_false, 0, 0, NULL, 0, 0},
    {"filter", test_filter, 0, 0, NULL, 0, 0},
    {"float", test_float, 0, 0, NULL, 0, 0},
    {"ge", test_ge, 1, 1, NULL, 0, 0},
    {"greaterthan", test_gt, 1, 1, NULL, 0, 0},
    {"gt", test_gt, 1, 1, NULL, 0, 0},
    {"in", test_in, 1, 1, "seq", 0, 0},
    {"integer", test_integer, 0, 0, NULL, 0, 0},
    {"iterable", test_iterable, 0, 0, NULL, 0, 0},
    {"le", test_le, 1, 1, NULL, 0, 0},
    {"lessthan", test_lt, 1, 1, NULL, 0, 0},
    {"lower", test_lower, 0, 0, NULL, 0, 0},
    {"lt", test_lt, 1, 1, NULL, 0, 0},
    {"mapping", test_mapping, 0, 0, NULL, 0, 0},
    {"ne", test_ne, 1, 1, NULL, 0, 0},
    {"none", test_none, 0, 0, NULL, 0, 0},
    {"number", test_number, 0, 0, NULL, 0, 0},
    {"odd", test_odd, 0, 0, NULL, 0, 0},
    {"sameas", test_sameas, 1, 1, "other", 0, 0},
    {"sequence", test_sequence, 0, 0, NULL, 0, 0},
    {"string", test_string, 0, 0, NULL, 0, 0},
    {"test", test_test, 0, 0, NULL, 0, 0},
    {"true", test_true, 0, 0, NULL, 0, 0},
    {"undefined", test_undefined, 0, 0, NULL, 0, 0},
    {"upper", test_upper, 0, 0, NULL, 0, 0},
    {NULL, NULL, 0, 0, NULL, 0, 0},
};

const struct jinja_builtin *jinja_find_test(const struct jinja_text *name) {
    return jinja_find_builtin(tests, sizeof tests / sizeof *tests - 1, name);
}
