/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that every template sees, and the attributes of the objects they make. */
#include "text/jinja/builtins.h"

#include "text/jinja/integer.h"
#include "text/jinja/loop.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"

#include <string.h>
#include <time.h>

#define MAX_RANGE 100000

static bool make_range(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self;
    int64_t bounds[3] = {0, 0, 1};
    if (args->n_named) return jinja_raise(run, JINJA_TYPE, "range() takes no keyword arguments");
    if (args->n < 1 || args->n > 3)
        return jinja_raise(run, JINJA_TYPE, "range expected 1 to 3 arguments, got %zu", args->n);
    for (size_t i = 0; i < args->n; i++) {
        if (args->items[i].type == JV_UNDEFINED) /* Undefined has no __index__ */
            return jinja_raise(run, JINJA_TYPE, "'Undefined' object cannot be interpreted as an integer");
        if (!jinja_index(run, args->items[i], &bounds[args->n == 1 ? 1 : i])) return false;
    }
    int64_t start = bounds[0], stop = bounds[1], step = bounds[2];
    if (!step) return jinja_raise(run, JINJA_VALUE, "range() arg 3 must not be zero");
    uint64_t span = step > 0 ? (start < stop ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = span ? (span - 1) / stride + 1 : 0;
    if (n > MAX_RANGE)
        return jinja_raise(run, JINJA_OVERFLOW, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                           MAX_RANGE);
    struct jinja_range *range = jinja_alloc(run, 1, sizeof *range);
    if (!range) return false;
    *range = (struct jinja_range){.start = start, .stop = stop, .step = step, .n = (int64_t)n};
    *result = jv_object(JV_RANGE, range);
    return true;
}

/* dict(mapping or pairs, name=value, ...) */
static struct jinja_dict *build_dict(struct jinja_run *run, const char *name, const struct jinja_args *args) {
    struct jinja_dict *dict = jinja_dict_new(run, args->n_named);
    if (args->n > 1) {
        jinja_raise(run, JINJA_TYPE, "%s expected at most 1 argument, got %zu", name, args->n);
        return NULL;
    }
    if (!dict || (args->n && !jinja_dict_update(run, dict, args->items[0]))) return NULL;
    for (size_t i = 0; i < args->n_named; i++)
        if (!jinja_dict_set(run, dict, jv_text(args->named[i].name), args->named[i].value)) return NULL;
    return dict;
}

static bool make_dict(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self;
    struct jinja_dict *dict = build_dict(run, "dict", args);
    *result = jv_dict(dict);
    return dict != NULL;
}

static bool make_namespace(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self;
    struct jinja_dict *dict = build_dict(run, "dict", args);
    *result = jv_object(JV_NAMESPACE, dict);
    return dict != NULL;
}

static bool make_cycler(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self;
    if (args->n_named) return jinja_raise(run, JINJA_TYPE, "cycler() takes no keyword arguments");
    if (!args->n) return jinja_raise(run, "RuntimeError", "at least one item has to be provided");
    struct jinja_cycler *cycler = jinja_alloc(run, 1, sizeof *cycler);
    if (!cycler || !(cycler->items = jinja_list_of(run, args->items, args->n))) return false;
    cycler->position = 0;
    *result = jv_object(JV_CYCLER, cycler);
    return true;
}

static bool make_joiner(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self;
    struct jinja_cycler *joiner = jinja_alloc(run, 1, sizeof *joiner);
    struct jv separator = args->items[0];
    if (!joiner || (separator.type == JV_MISSING && !jinja_literal(run, ", ", &separator)) ||
        !(joiner->items = jinja_list_of(run, &separator, 1)))
        return false;
    joiner->position = 0;
    *result = jv_object(JV_JOINER, joiner);
    return true;
}

static bool lipsum(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self, (void)args, (void)result;
    return jinja_raise(run, JINJA_UNSUPPORTED, "lipsum() is not supported");
}

static bool raise_exception(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self;
    struct jv message;
    if (!jinja_to_str(run, args->items[0], &message)) return false;
    *result = message;
    return jinja_raise_text(run, JINJA_RAISED, message.text->data, message.text->length);
}

/* What C does not know or knows differently: %f is microseconds (the clock here has none), and a time without a zone
 * has no %z and %Z. */
static bool expand_directives(const struct jinja_text *format, struct buffer *out) {
    for (size_t i = 0; i < format->length; i++) {
        char c = format->data[i], next = i + 1 < format->length ? format->data[i + 1] : '\0';
        if (c == '%' && next == 'f')
            buffer_puts(out, "000000");
        else
            buffer_append(out, format->data + i, c == '%' && next ? 2 : 1);
        i += c == '%' && next;
    }
    return buffer_putc(out, ' '); /* an empty result is not a failure then */
}

static bool strftime_now(struct jinja_run *run, struct jv self, const struct jinja_args *args, struct jv *result) {
    (void)self;
    struct buffer format = {0};
    char text[4096];
    struct tm now;
    time_t clock = time(NULL);
    if (args->items[0].type != JV_STRING)
        return jinja_raise(run, JINJA_TYPE, "strftime() argument 1 must be str, not %s",
                           jinja_type_name(args->items[0]));
    if (run->now)
        now = *run->now;
    else
        localtime_r(&clock, &now);
    locale_t locale = jinja_locale(run);
    bool ok = expand_directives(args->items[0].text, &format) || jinja_out_of_memory(run);
    if (ok && memchr(format.data, '\0', format.length)) ok = jinja_raise(run, JINJA_VALUE, "embedded null character");
    size_t n = !ok      ? 0
               : locale ? strftime_l(text, sizeof text, format.data, &now, locale)
                        : strftime(text, sizeof text, format.data, &now);
    buffer_free(&format);
    if (ok && !n) ok = jinja_raise(run, JINJA_VALUE, "strftime format too long");
    return ok && jinja_string(run, text, n - 1, result);
}

static const struct jinja_builtin globals[] = {
    /* name, function, required, parameters, their names */
    {"cycler", make_cycler, 0, JINJA_VARIADIC, NULL, 0, 0},
    {"dict", make_dict, 0, JINJA_VARIADIC, NULL, 0, 0},
    {"joiner", make_joiner, 0, 1, "sep", 0, 0},
    {"lipsum", lipsum, 0, JINJA_VARIADIC, NULL, 0, 0},
    {"namespace", make_namespace, 0, JINJA_VARIADIC, NULL, 0, 0},
    {"raise_exception", raise_exception, 1, 1, "message", 0, 0},
    {"range", make_range, 0, JINJA_VARIADIC, NULL, 0, 0},
    {"strftime_now", strftime_now, 1, 1, "format", 0, 0},
    {NULL, NULL, 0, 0, NULL, 0, 0},
};

const struct jinja_builtin *jinja_find_global(const struct jinja_text *name) {
    return jinja_find_builtin(globals, sizeof globals / sizeof *globals - 1, name);
}

/* ---- attributes of loops, cyclers and macros ---- */

JINJA_BUILTIN(loop_index) {
    JINJA_UNUSED;
    return *result = jv_int(self.loop->index0 + 1), true;
}

JINJA_BUILTIN(loop_index0) {
    JINJA_UNUSED;
    return *result = jv_int(self.loop->index0), true;
}

JINJA_BUILTIN(loop_depth) {
    JINJA_UNUSED;
    return *result = jv_int(self.loop->depth0 + 1), true;
}

JINJA_BUILTIN(loop_depth0) {
    JINJA_UNUSED;
    return *result = jv_int(self.loop->depth0), true;
}

JINJA_BUILTIN(loop_first) {
    JINJA_UNUSED;
    return *result = jv_bool(self.loop->index0 == 0), true;
}

JINJA_BUILTIN(loop_last) {
    (void)args;
    struct jv next;
    if (!jinja_loop_peek(run, self.loop, &next)) return false;
    return *result = jv_bool(next.type == JV_MISSING), true;
}

static bool count_from_end(struct jinja_run *run, struct jinja_loop *loop, int64_t minus, struct jv *result) {
    int64_t length;
    if (!jinja_loop_length(run, loop, &length)) return false;
    return *result = jv_int(length - minus), true;
}

JINJA_BUILTIN(loop_count) {
    (void)args;
    return count_from_end(run, self.loop, 0, result);
}

JINJA_BUILTIN(loop_revindex) {
    (void)args;
    return count_from_end(run, self.loop, self.loop->index0, result);
}

JINJA_BUILTIN(loop_revindex0) {
    (void)args;
    return count_from_end(run, self.loop, self.loop->index0 + 1, result);
}

JINJA_BUILTIN(loop_previtem) {
    (void)args;
    if (self.loop->index0 == 0) return jinja_undefined_hint(run, "there is no previous item", result);
    return *result = self.loop->before, true;
}

JINJA_BUILTIN(loop_nextitem) {
    (void)args;
    if (!jinja_loop_peek(run, self.loop, result)) return false;
    return result->type != JV_MISSING || jinja_undefined_hint(run, "there is no next item", result);
}

JINJA_BUILTIN(loop_cycle) {
    if (args->n_named) return jinja_raise(run, JINJA_TYPE, "cycle() takes no keyword arguments");
    if (!args->n) return jinja_raise(run, JINJA_TYPE, "no items for cycling given");
    int64_t n = (int64_t)args->n, at = self.loop->index0 % n;
    return *result = args->items[at < 0 ? at + n : at], true;
}

JINJA_BUILTIN(loop_changed) {
    if (args->n_named) return jinja_raise(run, JINJA_TYPE, "changed() takes no keyword arguments");
    struct jinja_list *now = jinja_list_of(run, args->items, args->n);
    bool is_same = false;
    if (!now) return false;
    if (self.loop->changed && !jinja_equal(run, jv_tuple(self.loop->changed), jv_tuple(now), &is_same)) return false;
    if (!is_same) self.loop->changed = now;
    return *result = jv_bool(!is_same), true;
}

JINJA_BUILTIN(cycler_current) {
    JINJA_UNUSED;
    return *result = self.cycler->items->items[self.cycler->position], true;
}

JINJA_BUILTIN(cycler_next) {
    JINJA_UNUSED;
    *result = self.cycler->items->items[self.cycler->position];
    self.cycler->position = (self.cycler->position + 1) % self.cycler->items->n;
    return true;
}

JINJA_BUILTIN(cycler_reset) {
    JINJA_UNUSED;
    self.cycler->position = 0;
    return *result = jv_none(), true;
}

JINJA_BUILTIN(cycler_items) {
    JINJA_UNUSED;
    return *result = jv_tuple(self.cycler->items), true;
}

JINJA_BUILTIN(cycler_position) {
    JINJA_UNUSED;
    return *result = jv_int((int64_t)self.cycler->position), true;
}
