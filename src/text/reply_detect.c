/* SPDX-License-Identifier: Apache-2.0 */
/* Which format is it? By name, by the chat template's text, by the vocabulary. And which tokens does a format need? */
#include "text/reply.h"
#include "text/reply_format.h"

#include <string.h>

const struct reply_format *reply_format_at(size_t index) {
    for (size_t i = 0; reply_format_table[i].name; i++)
        if (i == index) return &reply_format_table[i];
    return NULL;
}

const char *reply_format_name(const struct reply_format *format) { return format->name; }

const struct reply_format *reply_format_find(const char *name) {
    for (const struct reply_format *f = reply_format_table; f->name; f++)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}

static bool has_marks(const struct reply_format *f, const char *text) {
    if (!f->marks[0]) return false;
    for (size_t i = 0; i < MAX_MARKS && f->marks[i]; i++)
        if (!strstr(text, f->marks[i])) return false;
    return true;
}

static bool has_tokens(const struct reply_format *f, reply_has_token has_token, void *context) {
    if (!f->tokens[0]) return false;
    for (size_t i = 0; i < MAX_MARKS && f->tokens[i]; i++)
        if (!has_token(context, f->tokens[i])) return false;
    return true;
}

const struct reply_format *reply_format_detect(const char *template_text, reply_has_token has_token, void *context) {
    for (const struct reply_format *f = reply_format_table; template_text && f->name; f++)
        if (has_marks(f, template_text)) return f;
    for (const struct reply_format *f = reply_format_table; has_token && f->name; f++)
        if (has_tokens(f, has_token, context)) return f;
    return reply_format_find("generic-json");
}

/* ---- markers ---- */

/* A marker can be made of several tokens, so a token counts when it is a part of one. */
static bool holds(const char *const *markers, size_t n, const char *text, size_t length) {
    for (size_t i = 0; i < n; i++)
        if (markers[i] && memmem(markers[i], strlen(markers[i]), text, length)) return true;
    return false;
}

#define HOLDS(...)                                                                                                     \
    holds((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), text, length)

static bool call_holds(const struct reply_call *c, const char *text, size_t length) {
    return HOLDS(c->open, c->head_end, c->close, c->name_from, c->name_to, c->id_from, c->param_open, c->key_end,
                 c->value_open, c->param_close, c->quote);
}

static bool block_holds(const struct reply_block *b, const char *text, size_t length) {
    if (HOLDS(b->open, b->close) || holds(b->skips, MAX_SKIPS, text, length)) return true;
    for (size_t i = 0; i < MAX_CALL_FORMS && b->calls[i]; i++)
        if (call_holds(b->calls[i], text, length)) return true;
    return false;
}

bool reply_format_has_marker(const struct reply_format *f, const char *text, size_t length) {
    const struct reply_messages *m = f->messages;
    if (!length) return false;
    if (HOLDS(f->wrap_open, f->wrap_close, f->primer) || holds(f->drops, MAX_DROPS, text, length)) return true;
    for (size_t i = 0; i < MAX_THOUGHTS && f->thoughts[i]; i++)
        if (HOLDS(f->thoughts[i]->open, f->thoughts[i]->close)) return true;
    for (size_t i = 0; i < MAX_BLOCKS && f->blocks[i]; i++)
        if (block_holds(f->blocks[i], text, length)) return true;
    return m && (HOLDS(m->start, m->channel, m->message) || holds(m->ends, MAX_ENDS, text, length) ||
                 (m->block && block_holds(m->block, text, length)));
}
