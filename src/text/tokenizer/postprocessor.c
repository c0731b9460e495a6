/* SPDX-License-Identifier: Apache-2.0 */
/* Bert's and Roberta's processors are templates with fixed parts here. */
#include "text/tokenizer/postprocessor.h"

#include "text/tokenizer/unicode.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

#define MAX_NESTING 16
#define MAX_PARTS   1024

static struct template_part *add_part(struct postprocessor *post, int which, struct arena *arena, size_t room) {
    if (!post->parts[which]) post->parts[which] = arena_calloc(arena, room, sizeof **post->parts);
    return post->parts[which] ? &post->parts[which][post->n_parts[which]++] : NULL;
}

static bool set_tokens(struct template_part *part, const struct json *ids, const struct json *texts,
                       struct arena *arena, struct mx_error *err) {
    if (!json_is_array(ids) || !json_is_array(texts) || ids->count != texts->count)
        return error_set(err, ERROR_FORMAT,
                         "a special token of the template has no 'ids' and 'tokens' of equal length");
    part->text = -1;
    part->tokens = arena_calloc(arena, ids->count, sizeof *part->tokens);
    if (!part->tokens) return error_memory(err, "post-processor");
    for (size_t i = 0; i < ids->count; i++) {
        const struct json *text = &texts->items[i];
        int64_t id = json_integer(&ids->items[i], -1);
        if (id < 0 || id > UINT32_MAX || !json_is_string(text))
            return error_set(err, ERROR_FORMAT, "a special token of the template has a bad id or text");
        const char *copy = arena_copy(arena, text->string, text->count);
        if (!copy) return error_memory(err, "post-processor");
        part->tokens[i] = (struct template_token){.id = (uint32_t)id, .text = copy, .length = text->count};
    }
    part->n_tokens = ids->count;
    return true;
}

static bool load_part(struct template_part *part, const struct json *json, const struct json *specials,
                      struct arena *arena, struct mx_error *err) {
    const struct json *sequence = json_get(json, "Sequence"), *special = json_get(json, "SpecialToken");
    const struct json *body = sequence ? sequence : special, *id = json_get(body, "id");
    int64_t type_id = json_integer(json_get(body, "type_id"), -1);
    if (!json_is_string(id) || type_id < 0 || type_id > UINT32_MAX)
        return error_set(err, ERROR_FORMAT, "a template's part needs 'id' and 'type_id'");
    part->type_id = (uint32_t)type_id;
    if (sequence) {
        part->text = json_string_is(id, "B");
        return part->text || json_string_is(id, "A") ||
               error_set(err, ERROR_FORMAT, "a template's Sequence is not A or B");
    }
    for (size_t i = json_is_object(specials) ? specials->count : 0; i-- > 0;) {
        const struct json_member *member = &specials->members[i];
        if (member->key_length != id->count || memcmp(member->key, id->string, id->count) != 0) continue;
        return set_tokens(part, json_get(&member->value, "ids"), json_get(&member->value, "tokens"), arena, err);
    }
    return error_set(err, ERROR_FORMAT, "the template's '%.*s' is not among its special_tokens",
                     (int)(id->count & 0xff), id->string);
}

static bool load_template(struct postprocessor *post, const struct json *json, struct arena *arena,
                          struct mx_error *err) {
    static const char *const keys[] = {"single", "pair"};
    for (int which = 0; which < 2; which++) {
        const struct json *list = json_get(json, keys[which]);
        if (!json_is_array(list)) return error_set(err, ERROR_FORMAT, "TemplateProcessing without '%s'", keys[which]);
        if (list->count > MAX_PARTS) return error_set(err, ERROR_LIMIT, "a template of %u parts", list->count);
        for (size_t i = 0; i < list->count; i++) {
            struct template_part *part = add_part(post, which, arena, list->count);
            if (!part) return error_memory(err, "post-processor");
            if (!load_part(part, &list->items[i], json_get(json, "special_tokens"), arena, err)) return false;
            if (which == 0 && part->text == 1)
                return error_set(err, ERROR_FORMAT, "the template for one text uses a second");
        }
    }
    return true;
}

/* "cls": ["[CLS]", 101] as a part. */
static bool load_pair_part(struct template_part *part, const struct json *json, const char *key, uint32_t type_id,
                           struct arena *arena, struct mx_error *err) {
    const struct json *pair = json_get(json, key);
    if (!json_is_array(pair) || pair->count != 2)
        return error_set(err, ERROR_FORMAT, "post-processor without '%s'", key);
    const struct json tokens = {.type = JSON_ARRAY, .count = 1, .items = &pair->items[0]};
    const struct json ids = {.type = JSON_ARRAY, .count = 1, .items = &pair->items[1]};
    part->type_id = type_id;
    return set_tokens(part, &ids, &tokens, arena, err);
}

/* Parts in letters: c = cls, s = sep, A, B; each with its segment. */
static bool load_fixed(struct postprocessor *post, const struct json *json, const char *const forms[2],
                       struct arena *arena, struct mx_error *err) {
    for (int which = 0; which < 2; which++)
        for (const char *c = forms[which]; *c; c += 2) {
            struct template_part *part = add_part(post, which, arena, strlen(forms[which]));
            if (!part) return error_memory(err, "post-processor");
            uint32_t type_id = (uint32_t)(c[1] - '0');
            if (*c == 'A' || *c == 'B')
                *part = (struct template_part){.text = *c == 'B', .type_id = type_id};
            else if (!load_pair_part(part, json, *c == 'c' ? "cls" : "sep", type_id, arena, err))
                return false;
        }
    return true;
}

static bool load_one(struct postprocessor *post, const struct json *json, struct arena *arena, struct mx_error *err) {
    static const char *const bert[] = {"c0A0s0", "c0A0s0B1s1"}, *const roberta[] = {"c0A0s0", "c0A0s0s0B0s0"};
    const struct json *type = json_get(json, "type");
    bool is_roberta = json_string_is(type, "RobertaProcessing"), is_bert = json_string_is(type, "BertProcessing");
    if (is_roberta || json_string_is(type, "ByteLevel")) {
        post->trims_offsets = post->trims_offsets || json_bool(json_get(json, "trim_offsets"), true);
        post->has_prefix_space = json_bool(json_get(json, "add_prefix_space"), true);
        if (!is_roberta) return true;
    }
    bool is_template = json_string_is(type, "TemplateProcessing");
    if (!is_roberta && !is_bert && !is_template) {
        if (!json_is_string(type)) return error_set(err, ERROR_FORMAT, "a post-processor without 'type'");
        return error_set(err, ERROR_UNSUPPORTED, "post-processor '%.*s' is not known", (int)(type->count & 0xff),
                         type->string);
    }
    if (post->has_template) return error_set(err, ERROR_UNSUPPORTED, "two templates in one post-processor");
    post->has_template = true;
    post->keeps_types = is_bert;
    if (is_template) return load_template(post, json, arena, err);
    return load_fixed(post, json, is_bert ? bert : roberta, arena, err);
}

/* A recursion, bounded by MAX_NESTING. */
static bool load_nested(struct postprocessor *post, const struct json *json, struct arena *arena, int depth,
                        struct mx_error *err) {
    if (json_is_null(json)) return true;
    if (depth > MAX_NESTING) return error_set(err, ERROR_LIMIT, "post-processors are nested too deeply");
    if (!json_string_is(json_get(json, "type"), "Sequence")) return load_one(post, json, arena, err);
    const struct json *list = json_get(json, "processors");
    if (!json_is_array(list)) return error_set(err, ERROR_FORMAT, "a Sequence without 'processors'");
    for (size_t i = 0; i < list->count; i++)
        if (!load_nested(post, &list->items[i], arena, depth + 1, err)) return false;
    return true;
}

bool postprocessor_load(struct postprocessor *post, const struct json *json, struct arena *arena,
                        struct mx_error *err) {
    return load_nested(post, json, arena, 0, err);
}

static bool put_token(struct postprocessor *post, int which, const struct template_token *token, struct arena *arena) {
    if (!token) return true;
    struct template_part *part = add_part(post, which, arena, 6);
    struct template_token *copy = arena_calloc(arena, 1, sizeof *copy);
    if (!part || !copy) return false;
    *copy = *token;
    copy->text = arena_copy(arena, token->text, token->length);
    *part = (struct template_part){.text = -1, .tokens = copy, .n_tokens = 1};
    return copy->text != NULL;
}

bool postprocessor_surround(struct postprocessor *post, const struct template_token *before,
                            const struct template_token *after, struct arena *arena, struct mx_error *err) {
    post->has_template = true;
    for (int which = 0; which < 2; which++)
        for (int text = 0; text <= which; text++) {
            struct template_part *part = NULL;
            bool ok = put_token(post, which, before, arena) && (part = add_part(post, which, arena, 6)) != NULL;
            if (ok) *part = (struct template_part){.text = text, .type_id = (uint32_t)text};
            if (!ok || !put_token(post, which, after, arena)) return error_memory(err, "post-processor");
        }
    return true;
}

/* ---- at work ---- */

static bool is_blank(uint32_t c) { return c == 0x120 || unicode_is_space(c); }

/* Takes the spaces at both ends of a byte-level token out of its range. */
static void trim_span(struct token_span *span, const char *text, bool is_first, bool has_prefix_space) {
    size_t start = 0, end = span->text_length;
    uint32_t leading = 0, trailing = 0, c;
    for (size_t n; start < end && (n = utf8_decode(text + start, end - start, &c)) && is_blank(c); start += n)
        leading++;
    for (size_t at = end; at > 0; trailing++) {
        size_t before = at - 1;
        while (before && ((unsigned char)text[before] & 0xc0) == 0x80) before--;
        if (!utf8_decode(text + before, at - before, &c) || !is_blank(c)) break;
        at = before;
    }
    if (leading) {
        /* A single space at the very start was put there by the tokenizer. */
        if ((is_first || span->start == 0) && has_prefix_space && leading == 1) leading = 0;
        span->start = span->start + leading < span->end ? span->start + leading : span->end;
    }
    if (trailing && span->end >= trailing)
        span->end = span->end - trailing > span->start ? span->end - trailing : span->start;
}

static void trim_offsets(const struct postprocessor *post, struct token_list *list) {
    for (size_t i = 0; i < list->count; i++)
        trim_span(&list->spans[i], list->texts.data + list->spans[i].text_start, i == 0, post->has_prefix_space);
}

static bool reserve(struct token_list *out, size_t extra, bool has_spans) {
    size_t want = out->count + extra;
    return array_reserve(&out->ids, &out->capacity, want, sizeof *out->ids) &&
           (!has_spans || array_reserve(&out->spans, &out->span_capacity, want, sizeof *out->spans));
}

static bool put_text(struct token_list *out, const struct token_list *text, uint32_t type_id, bool has_spans) {
    if (!reserve(out, text->count, has_spans)) return false;
    if (text->count) memcpy(out->ids + out->count, text->ids, text->count * sizeof *text->ids);
    if (has_spans) {
        uint32_t base = (uint32_t)out->texts.length;
        if (text->texts.length && !buffer_append(&out->texts, text->texts.data, text->texts.length)) return false;
        for (size_t i = 0; i < text->count; i++) {
            struct token_span span = text->spans[i];
            span.text_start += base;
            span.type_id = type_id;
            out->spans[out->count + i] = span;
        }
    }
    out->count += text->count;
    return true;
}

static bool put_special(struct token_list *out, const struct template_part *part, bool has_spans) {
    if (!reserve(out, part->n_tokens, has_spans)) return false;
    for (size_t i = 0; i < part->n_tokens; i++) {
        const struct template_token *token = &part->tokens[i];
        if (has_spans) {
            out->spans[out->count] = (struct token_span){.type_id = part->type_id,
                                                         .is_special = true,
                                                         .text_start = (uint32_t)out->texts.length,
                                                         .text_length = token->length};
            if (!buffer_append(&out->texts, token->text, token->length)) return false;
        }
        out->ids[out->count++] = token->id;
    }
    return true;
}

bool postprocessor_apply(const struct postprocessor *post, struct token_list *texts, int n_texts, unsigned flags,
                         struct token_list *out, struct mx_error *err) {
    bool has_spans = flags & TOKENIZE_OFFSETS, adds = flags & TOKENIZE_SPECIAL;
    out->count = 0;
    buffer_clear(&out->texts);
    for (int i = 0; i < n_texts && post->trims_offsets && has_spans; i++) trim_offsets(post, &texts[i]);
    bool is_plain = !post->has_template || (!adds && post->keeps_types);
    for (int i = 0; i < n_texts && is_plain; i++)
        if (!put_text(out, &texts[i], (uint32_t)i, has_spans)) return error_memory(err, "tokens");
    if (is_plain) return true;
    const struct template_part *parts = post->parts[n_texts - 1];
    for (size_t i = 0; i < post->n_parts[n_texts - 1]; i++) {
        const struct template_part *part = &parts[i];
        bool ok = part->text >= 0 ? put_text(out, &texts[part->text], part->type_id, has_spans)
                                  : !adds || put_special(out, part, has_spans);
        if (!ok) return error_memory(err, "tokens");
    }
    return true;
}
