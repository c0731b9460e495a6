/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: what a model wrote, taken apart into content, reasoning and tool calls while it is being written.
 *
 * Every model family has its own way of writing calls and thoughts; a format is one row of a table (reply_formats.c)
 * and is chosen by name or found from the chat template. A parser takes the decoded text in pieces of any size and
 * hands events to a sink. The events put together are the same however the text was cut, and with streams_arguments on
 * or off. Text is never lost: what is no complete call of an offered tool, or has no meaning in the format, is content.
 * Where calls have no markers and count only as the whole answer (bare JSON, Python lists) they are told at the end.
 *
 * Markers may be special tokens of the vocabulary. Whoever decodes must leave those in the text that
 * reply_format_has_marker names, though they are otherwise hidden from users. */
#ifndef MLXCEL_TEXT_REPLY_H
#define MLXCEL_TEXT_REPLY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reply;
struct reply_format;

/* ---- formats ---- */

/* The format of that name, or NULL. "none" passes everything through as content. */
const struct reply_format *reply_format_find(const char *name);
const char *reply_format_name(const struct reply_format *format);
/* The index'th format, NULL behind the last one. */
const struct reply_format *reply_format_at(size_t index);

typedef bool (*reply_has_token)(void *context, const char *text);

/* The format of a model, from the text of its chat template (NULL = none) and, where that tells nothing, from its
 * vocabulary (has_token may be NULL). Never NULL: "generic-json" when nothing is recognised, which reads calls only
 * from an answer that is nothing but JSON and names an offered tool. */
const struct reply_format *reply_format_detect(const char *template_text, reply_has_token has_token, void *context);

/* True when the format's parser must see the token of this text. */
bool reply_format_has_marker(const struct reply_format *format, const char *text, size_t length);

/* ---- parsing ---- */

enum reply_event_kind {
    REPLY_CONTENT,
    REPLY_REASONING,
    REPLY_CALL_BEGIN,     /* text = the tool's name, id = the call's id where the model wrote one */
    REPLY_CALL_ARGUMENTS, /* the next piece of the arguments: together the JSON text of one object */
    REPLY_CALL_END,       /* id as in the begin, or where the model wrote it behind the arguments */
    REPLY_CALL_CANCEL,    /* only with streams_arguments: the call that began came to nothing; its text is content */
};

/* Pieces are whole UTF-8 characters where the input is. Pointers are good until the sink returns. */
struct reply_event {
    enum reply_event_kind kind;
    uint32_t index; /* of the call, from 0 in the order of their begins */
    const char *text;
    size_t length;
    const char *id; /* NULL where there is none */
    size_t id_length;
};

/* Returns false to stop the parser, e.g. because memory is out. */
typedef bool (*reply_sink)(void *context, const struct reply_event *event);

enum reply_start {
    REPLY_START_BY_PROMPT, /* inside a thought if the prompt ends with the format's opening marker */
    REPLY_START_IN_CONTENT,
    REPLY_START_IN_REASONING, /* the prompt ends in the middle of a thought */
};

struct reply_options {
    const struct reply_format *format;
    const struct json
        *tools;         /* the request's list, OpenAI's or Anthropic's form; borrowed. NULL = any name is a call */
    const char *prompt; /* the rendered prompt or its last part, used by reply_create only; NULL = unknown */
    size_t prompt_length;
    enum reply_start start;
    bool streams_arguments; /* calls begin as soon as the name is known, arguments leave as they grow */
};

enum reply_finish {
    REPLY_FINISH_STOP,   /* the model ended its turn, or it is not known why the text ends */
    REPLY_FINISH_LENGTH, /* generation was cut off */
};

/* NULL with the error set. The sink is called by reply_push and reply_finish only. */
struct reply *reply_create(const struct reply_options *options, reply_sink sink, void *context, struct mx_error *err);
bool reply_push(struct reply *reply, const char *text, size_t length, struct mx_error *err);
/* No more text comes. Held back text leaves, open calls are completed or become content. Once only. */
bool reply_finish(struct reply *reply, enum reply_finish reason, struct mx_error *err);
void reply_destroy(struct reply *reply);

/* ---- collecting ---- */

struct reply_call_text {
    char *name, *arguments, *id; /* NUL-terminated; id NULL where the model wrote none */
    size_t name_length, arguments_length, id_length;
    uint32_t index;
};

/* Puts events together: reply_collect is a sink whose context is a zeroed struct reply_result. */
struct reply_result {
    struct buffer content, reasoning;
    struct reply_call_text *calls;
    size_t n_calls, calls_capacity;
    struct buffer arguments; /* of the call that is open */
};

bool reply_collect(void *result, const struct reply_event *event);
void reply_result_free(struct reply_result *result);

#endif
