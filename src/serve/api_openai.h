/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's shapes, where several routes share them. */
#ifndef MLXCEL_SERVE_API_OPENAI_H
#define MLXCEL_SERVE_API_OPENAI_H

#include "serve/request.h"

#define SYSTEM_FINGERPRINT "mlxcel-" MLXCEL_VERSION

/* What openai_take_stream, openai_take_limit and openai_take_format read; sampling fields follow. */
extern const struct field openai_field_table[];

/* "usage": {...} */
void openai_write_usage(struct json_writer *w, const struct generation *g);
/* "timings": {...}, llama-server's. */
void openai_write_timings(struct json_writer *w, const struct generation *g);
/* stream, stream_options.include_usage. */
bool openai_take_stream(struct generation *g, const struct json *body, struct problem *problem);
/* max_completion_tokens, max_tokens (also n_predict). */
bool openai_take_limit(struct generation *g, const struct json *body, struct problem *problem);
/* What a chat request says about its prompt, all but the tools. */
struct chat_input openai_chat_input(struct exchange *x, const struct json *body);
/* tools and tool_choice into the input. */
bool openai_take_tools(struct generation *g, const struct json *body, struct chat_input *input,
                       struct problem *problem);
/* response_format and the like; what cannot be done is refused. */
bool openai_take_format(struct generation *g, const struct json *body, struct problem *problem);

/* "id", "object" and what else answers begin with. */
void openai_write_head(struct json_writer *w, const struct generation *g, const char *object);
/* The stream's end, with an event before it that tells the usage where that was asked for. */
void openai_end_stream(struct generation *g, const char *object);

/* One more {"token":..,"logprob":..,"bytes":[..],"top_logprobs":[..]} for choice->logprobs. */
void openai_add_logprob(struct generation_choice *choice, uint32_t token, const struct sample_result *sample);
const char *openai_finish_reason(const struct generation_choice *c);

void api_chat_completions(struct exchange *exchange);
void api_completions(struct exchange *exchange);
void api_models(struct exchange *exchange);
void api_model(struct exchange *exchange);
void api_health(struct exchange *exchange);

#endif
