/* SPDX-License-Identifier: Apache-2.0 */
/* llama-server's own routes. */
#ifndef MLXCEL_SERVE_API_NATIVE_H
#define MLXCEL_SERVE_API_NATIVE_H

#include "serve/request.h"

void api_completion(struct exchange *exchange);
void api_infill(struct exchange *exchange);
void api_tokenize(struct exchange *exchange);
void api_detokenize(struct exchange *exchange);
void api_apply_template(struct exchange *exchange);
void api_count_tokens(struct exchange *exchange); /* of a chat: input_tokens */
void api_props(struct exchange *exchange);
void api_set_props(struct exchange *exchange);
void api_slots(struct exchange *exchange);
void api_slot_action(struct exchange *exchange);
void api_metrics(struct exchange *exchange);
void api_lora_adapters(struct exchange *exchange);
void api_set_lora_adapters(struct exchange *exchange);
void api_load_model(struct exchange *exchange);
void api_unload_model(struct exchange *exchange);

/* The sampling in force, as members of an open object. */
void native_write_settings(struct json_writer *w, const struct sampling_params *params);
/* The tokens around a gap to fill, or a problem that names what the model lacks. */
bool native_infill_prompt(struct generation *generation, const struct json *body, struct token_list *tokens,
                          struct problem *problem);

#endif
