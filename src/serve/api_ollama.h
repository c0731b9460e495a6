/* SPDX-License-Identifier: Apache-2.0 */
/* ollama's routes. */
#ifndef MLXCEL_SERVE_API_OLLAMA_H
#define MLXCEL_SERVE_API_OLLAMA_H

struct exchange;

void ollama_chat(struct exchange *exchange);
void ollama_generate(struct exchange *exchange);
void ollama_tags(struct exchange *exchange);
void ollama_running(struct exchange *exchange);
void ollama_show(struct exchange *exchange);
void ollama_version(struct exchange *exchange);
/* What only its own registry can do: pull, push, create, copy, delete. */
void ollama_absent(struct exchange *exchange);

#endif
