/* SPDX-License-Identifier: Apache-2.0 */
/* The two filters that rest on regular expressions in the reference, with the same expressions here: urlize and
 * wordwrap (Python's textwrap). */
#include "text/jinja/builtins.h"

#include "text/jinja/iterate.h"
#include "text/jinja/markup.h"
#include "text/jinja/operate.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

struct regex {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

static bool regex_init(struct jinja_run *run, struct regex *r, const char *pattern, uint32_t options) {
    int error;
    PCRE2_SIZE offset;
    r->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | options, &error,
                            &offset, NULL);
    r->match = r->code ? pcre2_match_data_create_from_pattern(r->code, NULL) : NULL;
    r->limits = pcre2_match_context_create(NULL);
    if (r->limits) pcre2_set_match_limit(r->limits, 1000000);
    return (r->match && r->limits) || jinja_out_of_memory(run);
}

static void regex_free(struct regex *r) {
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->limits);
    pcre2_code_free(r->code);
}

/* Matches at or after `at`; the place of the match in *from and *to. */
static bool regex_find(const struct regex *r, const char *text, size_t length, size_t at, size_t *from, size_t *to) {
    if (pcre2_match(r->code, (PCRE2_SPTR)text, length, at, PCRE2_NO_UTF_CHECK, r->match, r->limits) < 0) return false;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(r->match);
    *from = ends[0];
    *to = ends[1];
    return true;
}

static bool regex_matches(const struct regex *r, const char *text, size_t length) {
    size_t from, to;
    return regex_find(r, text, length, 0, &from, &to);
}

/* ---- urlize ---- */

static const char http_pattern[] =
    "^((https?://|www\\.)(([\\w%-]+\\.)+)?([a-z]{2,63}|xn--[\\w%]{2,59})"
    "|([\\w%-]{2,63}\\.)+(com|net|int|edu|gov|org|info|mil)"
    "|(https?://)((([\\d]{1,3})(\\.[\\d]{1,3}){3})|(\\[([\\da-f]{0,4}:){2}([\\da-f]{0,4}:?){1,6}])))"
    "(?::[\\d]{1,5})?(?:[/?#]\\S*)?$";
static const char email_pattern[] = "^\\S+@\\w[\\w.-]*\\.\\w+$";

struct urlizer {
    struct jinja_run *run;
    struct regex http, email;
    struct buffer attributes, out;
    struct jv limit; /* of the shown address; absent = none */
    struct jinja_list *schemes;
};

struct span {
    const char *data;
    size_t length;
};

static bool starts_with(struct span s, const char *text) {
    size_t n = strlen(text);
    return s.length >= n && !memcmp(s.data, text, n);
}

static size_t count_of(struct span s, const char *text) {
    size_t n = 0, length = strlen(text);
    for (size_t at = 0; (at = jinja_find(s.data, at, s.length, text, length)) != SIZE_MAX; at += length) n++;
    return n;
}

static bool put(struct urlizer *u, struct span s) { return jinja_put(u->run, &u->out, s.data, s.length); }
static bool puts_out(struct urlizer *u, const char *text) { return jinja_puts(u->run, &u->out, text); }

/* Length of the opening brackets at the start, or of the closing marks at the end. */
static size_t head_length(struct span s) {
    size_t at = 0;
    for (;;) {
        struct span rest = {s.data + at, s.length - at};
        if (rest.length && (*rest.data == '(' || *rest.data == '<'))
            at++;
        else if (starts_with(rest, "&lt;"))
            at += 4;
        else
            return at;
    }
}

static size_t tail_length(struct span s) {
    size_t n = 0;
    for (;;) {
        size_t left = s.length - n;
        if (left && strchr(")>.,\n", s.data[left - 1]) && s.data[left - 1])
            n++;
        else if (left >= 4 && !memcmp(s.data + left - 4, "&gt;", 4))
            n += 4;
        else
            return n;
    }
}

/* Closing brackets that the address opened belong to it. */
static size_t balance(struct span word, size_t middle, size_t tail) {
    static const char *const pairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    for (int i = 0; i < 3; i++) {
        struct span inside = {word.data, middle};
        size_t open = count_of(inside, pairs[i][0]);
        if (open <= count_of(inside, pairs[i][1])) continue;
        for (; open; open--) {
            size_t found = jinja_find(word.data, middle, middle + tail, pairs[i][1], strlen(pairs[i][1]));
            if (found == SIZE_MAX) break;
            size_t end = found + strlen(pairs[i][1]);
            tail -= end - middle;
            middle = end;
        }
    }
    return middle;
}

static bool shown(struct urlizer *u, struct span url) {
    struct jinja_text text = {.data = url.data, .length = url.length, .n_chars = JINJA_UNCOUNTED};
    int64_t n = (int64_t)jinja_text_count(&text), limit;
    bool is_long = false;
    if (!jinja_is_absent(u->limit) && !jinja_compare(u->run, OP_GT, jv_int(n), u->limit, &is_long)) return false;
    if (!is_long) return put(u, url);
    if (!jinja_index(u->run, u->limit, &limit)) return false;
    if (limit < 0) limit = limit < -n ? 0 : n + limit;
    size_t at = jinja_text_offset(&text, (size_t)limit);
    return put(u, (struct span){url.data, at}) && puts_out(u, "...");
}

static bool link_to(struct urlizer *u, const char *scheme, struct span url, bool is_mail, bool is_trimmed) {
    struct span attributes = {u->attributes.data ? u->attributes.data : "", is_mail ? 0 : u->attributes.length};
    return puts_out(u, "<a href=\"") && puts_out(u, scheme) && put(u, url) && puts_out(u, "\"") && put(u, attributes) &&
           puts_out(u, ">") && (is_trimmed ? shown(u, url) : put(u, url)) && puts_out(u, "</a>");
}

static bool write_middle(struct urlizer *u, struct span s) {
    if (regex_matches(&u->http, s.data, s.length)) {
        bool has_scheme = starts_with(s, "https://") || starts_with(s, "http://");
        return link_to(u, has_scheme ? "" : "https://", s, false, true);
    }
    if (starts_with(s, "mailto:") && regex_matches(&u->email, s.data + 7, s.length - 7)) {
        struct span address = {s.data + 7, s.length - 7};
        return puts_out(u, "<a href=\"") && put(u, s) && puts_out(u, "\">") && put(u, address) && puts_out(u, "</a>");
    }
    if (memchr(s.data, '@', s.length) && !starts_with(s, "www.") && *s.data != '@' && !memchr(s.data, ':', s.length) &&
        regex_matches(&u->email, s.data, s.length))
        return link_to(u, "mailto:", s, true, false);
    for (size_t i = 0; u->schemes && i < u->schemes->n; i++) {
        const struct jinja_text *scheme = u->schemes->items[i].text;
        if (s.length > scheme->length && !memcmp(s.data, scheme->data, scheme->length))
            return link_to(u, "", s, false, false);
    }
    return put(u, s);
}

static bool write_word(struct urlizer *u, struct span word) {
    size_t head = head_length(word);
    struct span rest = {word.data + head, word.length - head};
    size_t tail = tail_length(rest), middle = balance(rest, rest.length - tail, tail);
    return put(u, (struct span){word.data, head}) && (!middle || write_middle(u, (struct span){rest.data, middle})) &&
           put(u, (struct span){rest.data + middle, rest.length - middle});
}

static bool write_words(struct urlizer *u, const struct jinja_text *text) {
    for (size_t at = 0; at < text->length;) {
        size_t start = at, end = at;
        bool is_space = jinja_is_space(jinja_next_char(text->data, &end));
        for (at = end; at < text->length; at = end)
            if (jinja_is_space(jinja_next_char(text->data, &end)) != is_space) break;
        struct span word = {text->data + start, at - start};
        if (!(is_space ? put(u, word) : write_word(u, word))) return false;
    }
    return true;
}

/* rel="..." with its words sorted and once each, then target="...". */
static bool make_attributes(struct urlizer *u, struct jv rel, bool nofollow, struct jv target) {
    struct jinja_run *run = u->run;
    struct jv words;
    if (jinja_is_absent(rel) && !jinja_literal(run, "", &rel)) return false;
    if (rel.type != JV_STRING) return jinja_raise(run, JINJA_ATTRIBUTE, "rel must be str");
    struct jinja_list *list = jinja_split(run, rel, NULL, -1, false);
    if (!list || !jinja_literal(run, "noopener", &words) || !jinja_list_append(run, list, words) ||
        !jinja_literal(run, "nofollow", &words) || (nofollow && !jinja_list_append(run, list, words)))
        return false;
    const struct jinja_text *last = NULL;
    bool ok = jinja_puts(run, &u->attributes, " rel=\"");
    for (size_t n = 0; ok; n++) { /* the next larger word each time: there are few */
        const struct jinja_text *best = NULL;
        for (size_t i = 0; i < list->n; i++) {
            const struct jinja_text *word = list->items[i].text;
            if ((!last || jinja_text_compare(word, last) > 0) && (!best || jinja_text_compare(word, best) < 0))
                best = word;
        }
        if (!best) break;
        ok = jinja_spend(run, list->n) && (!n || jinja_puts(run, &u->attributes, " ")) &&
             jinja_escape_into(run, best->data, best->length, &u->attributes);
        last = best;
    }
    if (!ok || !jinja_puts(run, &u->attributes, "\"")) return false;
    if (jinja_is_absent(target)) return true;
    return jinja_to_str(run, target, &target) && jinja_puts(run, &u->attributes, " target=\"") &&
           jinja_escape_into(run, target.text->data, target.text->length, &u->attributes) &&
           jinja_puts(run, &u->attributes, "\"");
}

static bool read_schemes(struct urlizer *u, struct jv arg) {
    struct regex scheme = {0};
    if (jinja_is_absent(arg)) return true;
    u->schemes = jinja_collect(u->run, arg);
    bool ok = u->schemes && regex_init(u->run, &scheme, "^([\\w.+-]{2,}:(/){0,2})\\z", 0);
    for (size_t i = 0; ok && i < u->schemes->n; i++) {
        struct jv v = u->schemes->items[i];
        if (v.type != JV_STRING || !regex_matches(&scheme, v.text->data, v.text->length))
            ok = jinja_raise(u->run, JINJA_FILTER_ARGUMENT, "not a valid URI scheme prefix");
    }
    regex_free(&scheme);
    return ok;
}

JINJA_BUILTIN(filter_urlize) {
    struct urlizer u = {.run = run, .limit = args->items[0]};
    bool nofollow = false;
    struct jv text;
    bool ok = jinja_arg_truth(run, args->items[1], false, &nofollow) &&
              make_attributes(&u, args->items[3], nofollow, args->items[2]) && read_schemes(&u, args->items[4]) &&
              regex_init(run, &u.http, http_pattern, PCRE2_CASELESS) && regex_init(run, &u.email, email_pattern, 0) &&
              jinja_escape(run, self, &text) && jinja_spend(run, text.text->length) && write_words(&u, text.text) &&
              jinja_string_take(run, &u.out, 0, result);
    regex_free(&u.http);
    regex_free(&u.email);
    buffer_free(&u.attributes);
    buffer_free(&u.out);
    if (ok) result->is_markup = run->autoescape;
    return ok;
}

/* ---- wordwrap ---- */

/* textwrap's chunks: white space, words cut at hyphens, dashes. */
#define BLANKS "[\\t\\n\\x0b\\x0c\\r ]"
#define SOLID  "[^\\t\\n\\x0b\\x0c\\r ]"
#define WORD   "[\\w!\"'&.,?]"
#define LETTER "[^\\d\\W]"
static const char chunk_pattern[] =
    BLANKS "+|(?<=" WORD ")-{2,}(?=\\w)|" SOLID "+?(?:-(?:(?<=" LETTER "{2}-)|(?<=" LETTER "-" WORD "-))(?=" LETTER
           "-?" LETTER ")|(?=" BLANKS "|\\z)|(?<=" WORD ")(?=-{2,}\\w))";
static const char simple_chunk_pattern[] = BLANKS "+|" SOLID "+";

struct wrapper {
    struct jinja_run *run;
    struct regex chunks;
    int64_t width;
    bool breaks_words, breaks_hyphens;
    struct jinja_text *separator;
    struct buffer out;
    bool has_lines;
};

static bool is_blank(struct span s) {
    for (size_t at = 0; at < s.length;)
        if (!jinja_is_space(jinja_next_char(s.data, &at))) return false;
    return true;
}

static int64_t chars_in(struct span s) {
    struct jinja_text text = {.data = s.data, .length = s.length, .n_chars = JINJA_UNCOUNTED};
    return (int64_t)jinja_text_count(&text);
}

/* Where to cut a chunk that is longer than a line: after `room` characters, or behind a hyphen before that. */
static size_t cut_of(const struct wrapper *w, struct span chunk, int64_t room) {
    size_t at = 0, hyphen = 0;
    bool has_letter = false;
    for (int64_t n = 0; n < room && at < chunk.length; n++) {
        if (chunk.data[at] == '-' && has_letter) hyphen = at + 1;
        if (chunk.data[at] != '-') has_letter = true;
        at += jinja_char_length(chunk.data + at);
    }
    return w->breaks_hyphens && hyphen && chars_in(chunk) > room ? hyphen : at;
}

static bool write_line(struct wrapper *w, struct span line) {
    if (w->has_lines && !jinja_put(w->run, &w->out, w->separator->data, w->separator->length)) return false;
    w->has_lines = true;
    return jinja_put(w->run, &w->out, line.data, line.length);
}

/* The chunks of one paragraph lie in a row, so a line is a part of the text. The steps, odd ones included, are those of
 * textwrap.TextWrapper: only the last piece of a line is dropped when it is blank, also where that piece is empty. */
static bool wrap_chunks(struct wrapper *w, struct span *chunks, size_t n) {
    size_t i = 0;
    bool is_first = true;
    while (i < n) {
        if (is_blank(chunks[i]) && !is_first) i++; /* a line does not begin with a blank, but the first may */
        int64_t used = 0;
        struct span line = {i < n ? chunks[i].data : NULL, 0}, last = {NULL, 0};
        while (i < n && used + chars_in(chunks[i]) <= w->width) {
            last = chunks[i];
            line.length += last.length;
            used += chars_in(chunks[i++]);
        }
        if (i < n && chars_in(chunks[i]) > w->width && (w->breaks_words || !last.data)) { /* longer than any line */
            size_t cut = w->breaks_words ? cut_of(w, chunks[i], w->width - used) : chunks[i].length;
            last = (struct span){chunks[i].data, cut};
            line.length += cut;
            chunks[i].data += cut;
            chunks[i].length -= cut;
            if (!w->breaks_words) i++;
        }
        if (!jinja_spend(w->run, 1 + line.length / 8)) return false;
        if (last.data && is_blank(last)) line.length -= last.length;
        if (!line.length && (!last.data || is_blank(last))) continue;
        is_first = false;
        if (!write_line(w, line)) return false;
    }
    return true;
}

static bool wrap_paragraph(struct wrapper *w, const struct jinja_text *text) {
    struct span *chunks = jinja_alloc(w->run, text->length + 1, sizeof *chunks);
    size_t n = 0, at = 0, from, to;
    if (!chunks || !jinja_spend(w->run, text->length + 1)) return false;
    while (at < text->length && regex_find(&w->chunks, text->data, text->length, at, &from, &to) && to > at) {
        if (from > at) chunks[n++] = (struct span){text->data + at, from - at};
        chunks[n++] = (struct span){text->data + from, to - from};
        at = to;
    }
    if (at < text->length) chunks[n++] = (struct span){text->data + at, text->length - at};
    w->has_lines = false;
    return wrap_chunks(w, chunks, n);
}

JINJA_BUILTIN(filter_wordwrap) {
    struct jinja_text newline = {.data = "\n", .length = 1, .n_chars = 1};
    struct wrapper w = {.run = run, .separator = &newline};
    if (self.type == JV_UNDEFINED) return jinja_fail_undefined(run, self.undefined);
    if (self.type != JV_STRING)
        return jinja_raise(run, JINJA_ATTRIBUTE, "'%s' object has no attribute 'splitlines'", jinja_type_name(self));
    w.width = 79;
    if ((args->items[0].type != JV_MISSING && !jinja_index(run, args->items[0], &w.width)) ||
        !jinja_arg_truth(run, args->items[1], true, &w.breaks_words) ||
        (!jinja_is_absent(args->items[2]) && !jinja_arg_text(run, args->items[2], &w.separator)) ||
        !jinja_arg_truth(run, args->items[3], true, &w.breaks_hyphens))
        return false;
    if (w.width <= 0) return jinja_raise(run, JINJA_VALUE, "invalid width (must be > 0)");
    struct jinja_list *lines = jinja_splitlines(run, self, false);
    bool ok = lines && regex_init(run, &w.chunks, w.breaks_hyphens ? chunk_pattern : simple_chunk_pattern, 0);
    for (size_t i = 0; ok && i < lines->n; i++)
        ok = (!i || jinja_put(run, &w.out, w.separator->data, w.separator->length)) &&
             wrap_paragraph(&w, lines->items[i].text);
    ok = ok && jinja_string_take(run, &w.out, 0, result);
    regex_free(&w.chunks);
    buffer_free(&w.out);
    return ok;
}
