/* SPDX-License-Identifier: Apache-2.0 */
/* The chat templates of a checkpoint folder: found, chosen and rendered as transformers does.
 *
 * Where they lie: `chat_template.jinja` and `additional_chat_templates/NAME.jinja` take the place of everything else;
 * then `chat_template` of tokenizer_config.json, a string or a list of {name, template}; then the processor's
 * `chat_template.json` (before the string when only it knows images). Of several, a request names one, or it gets
 * `tool_use` when it has tools, else `default`.
 *
 * The object is immutable once it is made (and the fallback is set): threads may share it. */
#ifndef MLXCEL_TEXT_CHAT_TEMPLATE_H
#define MLXCEL_TEXT_CHAT_TEMPLATE_H

#include "text/jinja.h"

struct chat_template;

/* Opens what the folder has; a folder without any template is no error. NULL with the error set when a file cannot be
 * read or is malformed. A template that does not compile fails when it is rendered. */
struct chat_template *chat_template_open(const char *folder, struct mx_error *err);
/* The same with this text in the place of the folder's templates; folder (for the special tokens) may be NULL. */
struct chat_template *chat_template_from_text(const char *text, size_t length, const char *folder,
                                              struct mx_error *err);
void chat_template_close(struct chat_template *t);

bool chat_template_exists(const struct chat_template *t);
size_t chat_template_count(const struct chat_template *t);
const char *chat_template_name(const struct chat_template *t, size_t index);
/* The text of the template of this name (NULL: the one for a request without tools); NULL when there is none. */
const char *chat_template_text(const struct chat_template *t, const char *name);
/* A special token by its variable, e.g. "bos_token"; NULL when the folder names none. */
const char *chat_template_token(const struct chat_template *t, const char *variable);

/* For chat where the folder has no template: ChatML for a vocabulary with <|im_start|>, else `role: content` lines. */
bool chat_template_set_fallback(struct chat_template *t, bool has_chatml, struct mx_error *err);

struct chat_request {
    const struct json *messages;  /* an array of objects */
    const struct json *tools;     /* an array, or NULL: None */
    const struct json *documents; /* likewise */
    const struct json *kwargs;    /* an object whose members become variables, before all others; may be NULL */
    const char *name;             /* of the template; NULL: chosen */
    bool add_generation_prompt;
    /* The rendering ends with the content of the last message, so that the model goes on with it. */
    bool continue_final_message;
    /* enable_thinking is true unless kwargs say otherwise (templates differ in what they take as given). */
    bool enables_thinking;
    /* Bring the messages into the shape that the template can render: for servers and chats, see chat_adapt.h. */
    bool adapts_messages;
};

/* Appends the prompt to out. `failure` (may be NULL) and `limits` (NULL: the defaults and $MLXCEL_NOW) as in jinja.h. */
bool chat_template_render(const struct chat_template *t, const struct chat_request *request,
                          const struct jinja_limits *limits, struct buffer *out, struct jinja_failure *failure,
                          struct mx_error *err);

/* The vocabulary has the marks around reasoning, so that thinking is on by default, as in mlx-lm. */
bool chat_vocabulary_thinks(bool (*has_token)(void *context, const char *text), void *context);

/* The time that strftime_now sees: $MLXCEL_NOW ("YYYY-MM-DD hh:mm:ss") into *now and *is_set; an error when it is
 * malformed. */
bool chat_template_now(struct tm *now, bool *is_set, struct mx_error *err);

#endif
