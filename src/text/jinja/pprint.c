/* SPDX-License-Identifier: Apache-2.0 */
/* Python's pprint in 80 columns: a container that does not fit into a line has an item a line; dicts are sorted. */
#include "text/jinja/builtins.h"

#include "text/jinja/print.h"
#include "text/jinja/sort.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#define WIDTH 80

static bool print_sorted(struct jinja_run *run, struct jv v, int depth, struct buffer *out);

static struct jinja_entry *entries_of(struct jinja_run *run, const struct jinja_dict *dict) {
    struct jinja_entry *sorted = jinja_sorted_entries(run, dict);
    if (sorted || run->failure->kind != JINJA_TYPE) return sorted;
    jinja_failure_free(run->failure); /* keys without an order stay in theirs */
    return dict->entries;
}

static bool print_items(struct jinja_run *run, const struct jinja_list *list, int depth, struct buffer *out) {
    for (size_t i = 0; i < list->n; i++)
        if ((i && !jinja_puts(run, out, ", ")) || !print_sorted(run, list->items[i], depth + 1, out)) return false;
    return true;
}

/* repr with sorted dicts, in one line. */
static bool print_sorted(struct jinja_run *run, struct jv v, int depth, struct buffer *out) {
    if (depth > JINJA_MAX_NESTING) return jinja_raise(run, JINJA_LIMIT, "values are nested too deeply");
    if (jv_is_sequence(v) && !v.is_markup) { /* a group of groupby has a repr of its own, which does not sort */
        bool is_list = v.type == JV_LIST;
        return jinja_puts(run, out, is_list ? "[" : "(") && print_items(run, v.list, depth, out) &&
               jinja_puts(run, out,
                          is_list          ? "]"
                          : v.list->n == 1 ? ",)"
                                           : ")");
    }
    if (v.type != JV_DICT) return jinja_print_repr(run, v, out);
    struct jinja_entry *entries = entries_of(run, v.dict);
    if (!entries && v.dict->n) return false;
    if (!jinja_puts(run, out, "{")) return false;
    for (size_t i = 0; i < v.dict->n; i++)
        if ((i && !jinja_puts(run, out, ", ")) || !print_sorted(run, entries[i].key, depth + 1, out) ||
            !jinja_puts(run, out, ": ") || !print_sorted(run, entries[i].value, depth + 1, out))
            return false;
    return jinja_puts(run, out, "}");
}

/* `indent` columns stand before the value, `allowance` characters must follow it in its last line. */
static bool print_value(struct jinja_run *run, struct jv v, int64_t indent, int64_t allowance, int depth,
                        struct buffer *out);

static bool new_line(struct jinja_run *run, int64_t indent, struct buffer *out) {
    if (!jinja_puts(run, out, ",\n")) return false;
    for (int64_t i = 0; i < indent; i++)
        if (!jinja_puts(run, out, " ")) return false;
    return true;
}

static bool print_list(struct jinja_run *run, struct jv v, int64_t indent, int64_t allowance, int depth,
                       struct buffer *out) {
    const char *close = v.type == JV_LIST ? "]" : v.list->n == 1 ? ",)" : ")";
    if (!jinja_puts(run, out, v.type == JV_LIST ? "[" : "(")) return false;
    for (size_t i = 0; i < v.list->n; i++) {
        bool is_last = i + 1 == v.list->n;
        if ((i && !new_line(run, indent + 1, out)) ||
            !print_value(run, v.list->items[i], indent + 1, is_last ? allowance + (int64_t)strlen(close) : 1, depth,
                         out))
            return false;
    }
    return jinja_puts(run, out, close);
}

static bool print_dict(struct jinja_run *run, struct jv v, int64_t indent, int64_t allowance, int depth,
                       struct buffer *out) {
    struct jinja_entry *entries = entries_of(run, v.dict);
    if ((!entries && v.dict->n) || !jinja_puts(run, out, "{")) return false;
    for (size_t i = 0; i < v.dict->n; i++) {
        bool is_last = i + 1 == v.dict->n;
        size_t start;
        if (i && !new_line(run, indent + 1, out)) return false;
        start = out->length;
        if (!print_sorted(run, entries[i].key, depth, out) || !jinja_puts(run, out, ": ")) return false;
        struct jinja_text key = {.data = out->data + start, .length = out->length - start, .n_chars = JINJA_UNCOUNTED};
        int64_t column = indent + 1 + (int64_t)jinja_text_count(&key);
        if (!print_value(run, entries[i].value, column, is_last ? allowance + 1 : 1, depth, out)) return false;
    }
    return jinja_puts(run, out, "}");
}

/* ---- long texts: a literal a line, cut behind white space ---- */

struct text_printer {
    struct jinja_run *run;
    struct buffer *out;
    int64_t indent;
    size_t n_pieces;
};

/* Characters of repr(text[from .. to)). */
static bool repr_width(struct text_printer *p, const struct jinja_text *text, size_t from, size_t to, int64_t *width) {
    struct jv part;
    size_t start = p->out->length;
    if (!jinja_text_part(p->run, text, from, to, &part) || !jinja_print_repr(p->run, part, p->out)) return false;
    struct jinja_text repr = {
        .data = p->out->data + start, .length = p->out->length - start, .n_chars = JINJA_UNCOUNTED};
    *width = (int64_t)jinja_text_count(&repr);
    p->out->length = start;
    return true;
}

static bool put_piece(struct text_printer *p, const struct jinja_text *text, size_t from, size_t to) {
    struct jv part;
    if (p->n_pieces++ && !jinja_puts(p->run, p->out, "\n")) return false;
    for (int64_t i = 0; p->n_pieces > 1 && i < p->indent; i++)
        if (!jinja_puts(p->run, p->out, " ")) return false;
    return jinja_text_part(p->run, text, from, to, &part) && jinja_print_repr(p->run, part, p->out);
}

/* A word and the white space behind it. */
static size_t next_word(const struct jinja_text *text, size_t at) {
    bool in_space = false;
    while (at < text->length) {
        size_t next = at;
        bool is_space = jinja_is_space(jinja_next_char(text->data, &next));
        if (in_space && !is_space) break;
        in_space = is_space;
        at = next;
    }
    return at;
}

/* One line of the text; is_last: `allowance` characters follow it. */
static bool print_line(struct text_printer *p, const struct jinja_text *line, bool is_last, int64_t allowance) {
    int64_t width, room = WIDTH - p->indent;
    if (!repr_width(p, line, 0, line->length, &width)) return false;
    if (width <= room - (is_last ? allowance : 0)) return put_piece(p, line, 0, line->length);
    size_t from = 0, at = 0;
    while (at < line->length) {
        size_t end = next_word(line, at);
        if (end == line->length && is_last) room -= allowance;
        if (!repr_width(p, line, from, end, &width)) return false;
        if (width > room) {
            if (at > from && !put_piece(p, line, from, at)) return false;
            from = at;
        }
        at = end;
    }
    return from == at || put_piece(p, line, from, at);
}

static bool print_text(struct jinja_run *run, struct jv v, int64_t indent, int64_t allowance, bool is_top,
                       struct buffer *out) {
    struct text_printer p = {.run = run, .out = out, .indent = indent + is_top};
    struct jinja_list *lines = jinja_splitlines(run, v, true);
    size_t start = out->length;
    if (!lines || (is_top && !jinja_puts(run, out, "("))) return false;
    for (size_t i = 0; i < lines->n; i++)
        if (!print_line(&p, lines->items[i].text, i + 1 == lines->n, allowance + is_top)) return false;
    if (p.n_pieces > 1) return !is_top || jinja_puts(run, out, ")");
    out->length = start; /* in one piece after all */
    return jinja_print_repr(run, v, out);
}

static bool print_value(struct jinja_run *run, struct jv v, int64_t indent, int64_t allowance, int depth,
                        struct buffer *out) {
    size_t start = out->length;
    if (depth > JINJA_MAX_NESTING || ++run->depth > JINJA_MAX_DEPTH)
        return jinja_raise(run, JINJA_LIMIT, "values are nested too deeply");
    bool ok = print_sorted(run, v, depth, out);
    struct jinja_text line = {.data = out->data + start, .length = out->length - start, .n_chars = JINJA_UNCOUNTED};
    bool is_container = (jv_is_sequence(v) && v.list->n && !v.is_markup) || (v.type == JV_DICT && v.dict->n);
    bool is_text = v.type == JV_STRING && v.text->length && !v.is_markup;
    if (ok && (is_container || is_text) && (int64_t)jinja_text_count(&line) > WIDTH - indent - allowance) {
        out->length = start;
        ok = is_text             ? print_text(run, v, indent, allowance, depth == 0, out)
             : v.type == JV_DICT ? print_dict(run, v, indent, allowance, depth + 1, out)
                                 : print_list(run, v, indent, allowance, depth + 1, out);
    }
    run->depth--;
    return ok;
}

JINJA_BUILTIN(filter_pprint) {
    (void)args;
    struct buffer out = {0};
    bool ok = print_value(run, self, 0, 0, 0, &out) && jinja_string_take(run, &out, 0, result);
    buffer_free(&out);
    return ok;
}
