/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a request, and how each dialect says it. */
#ifndef MLXCEL_SERVE_API_ERROR_H
#define MLXCEL_SERVE_API_ERROR_H

#include "serve/exchange.h"

struct problem {
    int status;
    const char *code; /* a word for programs; NULL = none */
    char param[96];   /* the field concerned; "" = none */
    char message[800];
    int64_t n_prompt_tokens, n_ctx; /* told where the prompt is too long; 0 = not told */
};

/* Fills *problem and returns false. param may be NULL. */
bool problem_set(struct problem *problem, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An engine's or parser's error: 400 for what the client did, 500 otherwise. */
bool problem_from_error(struct problem *problem, const struct mx_error *err, const char *param);

/* Answers with the problem; in a stream that has begun, as its last event. */
void api_fail(struct exchange *exchange, const struct problem *problem);
void api_refuse(struct exchange *exchange, int status, const char *message);
void api_no_memory(struct exchange *exchange);

#endif
