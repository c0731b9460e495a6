/* SPDX-License-Identifier: Apache-2.0 */
/* Anthropic's Messages API. */
#ifndef MLXCEL_SERVE_API_ANTHROPIC_H
#define MLXCEL_SERVE_API_ANTHROPIC_H

struct exchange;

void api_messages(struct exchange *exchange);
void api_messages_count(struct exchange *exchange);

#endif
