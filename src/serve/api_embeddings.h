/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of texts: the model's last hidden states, pooled and of length 1, in three dialects. */
#ifndef MLXCEL_SERVE_API_EMBEDDINGS_H
#define MLXCEL_SERVE_API_EMBEDDINGS_H

struct exchange;

void api_embeddings(struct exchange *exchange);
void api_native_embeddings(struct exchange *exchange);
void ollama_embed(struct exchange *exchange);
void ollama_embeddings(struct exchange *exchange);

#endif
