/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of requests that the dialects share: limits, stops, sampling; messages to a prompt. */
#ifndef MLXCEL_SERVE_REQUEST_H
#define MLXCEL_SERVE_REQUEST_H

#include "serve/fields.h"
#include "serve/generation.h"

/* Parses the body, checks its fields as fields_check does, and makes a generation for its model, of which the caller reads
 * the rest. NULL with the problem set. */
struct generation *request_open(struct exchange *exchange, const struct field *table,
                                const struct answer_writer *writer, const struct json **body, struct problem *problem);
/* Answers with the number of the prompt's tokens: {"object": object (left out where NULL), "input_tokens": n}. */
void request_reply_count(struct generation *generation, const char *object);

/* Sampling fields, logit_bias, breakers, stop_token_ids, priority (field or header X-Priority). */
bool request_take_sampling(struct generation *generation, const struct json *body, struct problem *problem);
/* A string or an array of strings, the field of that name. */
bool request_take_stop(struct generation *generation, const struct json *body, const char *name,
                       struct problem *problem);

/* One more prompt: a text, which is encoded with BOS and the like, or token ids; a mixed array gives both in order. */
bool request_add_prompt(struct generation *generation, const struct json *prompt, struct problem *problem);
/* The field of that name: one prompt, text or token ids, or an array of 1 to `most` of these. */
bool request_take_prompts(struct generation *generation, const struct json *prompts, const char *name, int most,
                          struct problem *problem);

struct chat_input {
    const struct json *messages, *tools, *documents;
    const struct json *kwargs;    /* chat_template_kwargs */
    const char *reasoning_effort; /* or NULL */
    int enable_thinking;          /* -1 = not said */
    bool parses_calls;            /* tools are offered for calling */
    int continues_final;          /* the last message is the answer's beginning; -1 = when it is an assistant's */
    bool no_generation_prompt;
};

/* Renders the messages and encodes the result. Appends to text, without tokens, when it is not NULL. */
bool request_render(struct generation *generation, const struct chat_input *input, struct buffer *text,
                    struct problem *problem);
/* request_render, and the prompt and the reply's parser are set up in the generation. */
bool request_take_chat(struct generation *generation, const struct chat_input *input, struct problem *problem);

/* Messages of OpenAI's form: known roles, content of text. */
bool request_check_messages(const struct json *messages, struct problem *problem);
bool request_check_tools(const struct json *tools, struct problem *problem);

/* What the model must do in a call of tools: name NULL = any of them. False with the problem set where it cannot be done. */
bool request_force_call(struct generation *generation, const struct json *tools, const char *name,
                        struct problem *problem);
/* The answer must be a JSON object that matches the schema (NULL = any object). */
bool request_force_json(struct generation *generation, const struct json *schema, const char *param,
                        struct problem *problem);

/* A grammar, a regular expression (value: a string), or choices (an array of strings). */
bool request_force_text(struct generation *generation, enum guide_source source, const struct json *value,
                        const char *param, struct problem *problem);

/* Parses JSON text that a translator wrote; the buffer is freed. NULL with the problem set. */
const struct json *request_parse_built(struct exchange *exchange, struct buffer *text, struct problem *problem);

/* A string member as NUL-terminated text in the exchange's arena; NULL when it is absent. */
const char *request_string(struct exchange *exchange, const struct json *body, const char *name);

#endif
