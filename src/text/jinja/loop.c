/* SPDX-License-Identifier: Apache-2.0 */
#include "text/jinja/loop.h"

#include "text/jinja/operate.h"

struct jinja_loop *jinja_loop_new(struct jinja_run *run, struct jv iterable, struct jinja_iterator *iterator) {
    struct jinja_loop *loop = jinja_alloc(run, 1, sizeof *loop);
    if (loop) *loop = (struct jinja_loop){.iterator = iterator, .iterable = iterable, .index0 = -1, .length = -1};
    return loop;
}

bool jinja_loop_next(struct jinja_run *run, struct jinja_loop *loop, struct jv *item, bool *is_end) {
    *is_end = false;
    if (loop->after.type != JV_MISSING) {
        *item = loop->after;
        loop->after = jv_missing();
    } else if (!jinja_next(run, loop->iterator, item, is_end) || *is_end) {
        return *is_end;
    }
    loop->index0++;
    loop->before = loop->current;
    loop->current = *item;
    return true;
}

bool jinja_loop_peek(struct jinja_run *run, struct jinja_loop *loop, struct jv *item) {
    bool is_end = false;
    if (loop->after.type == JV_MISSING) {
        if (!jinja_next(run, loop->iterator, &loop->after, &is_end)) return false;
        if (is_end) loop->after = jv_missing();
    }
    *item = loop->after;
    return true;
}

bool jinja_loop_length(struct jinja_run *run, struct jinja_loop *loop, int64_t *length) {
    bool has_length = true;
    if (loop->length < 0 && !jinja_length(run, loop->iterable, &loop->length, &has_length)) return false;
    if (!has_length) {
        struct jinja_list *rest = jinja_collect(run, jv_object(JV_ITERATOR, loop->iterator));
        if (!rest || !(loop->iterator = jinja_iterate(run, jv_list(rest)))) return false;
        loop->length = (int64_t)rest->n + loop->index0 + 1 + (loop->after.type != JV_MISSING);
    }
    *length = loop->length;
    return true;
}
