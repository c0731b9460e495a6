/* SPDX-License-Identifier: Apache-2.0 */
/* OpenAI's Responses API. */
#ifndef MLXCEL_SERVE_API_RESPONSES_H
#define MLXCEL_SERVE_API_RESPONSES_H

#include "serve/generation.h"

void api_responses(struct exchange *exchange);
void api_responses_count(struct exchange *exchange);
void api_response_get(struct exchange *exchange);  /* also /input_items */
void api_response_post(struct exchange *exchange); /* /cancel */
void api_response_delete(struct exchange *exchange);

/* ---- between the reading and the writing half ---- */

enum response_item_kind { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL };

/* An item of the output as it grows. */
struct response_item {
    enum response_item_kind kind;
    char id[CALL_ID_BYTES];
    const char *call_id; /* of the choice */
    struct buffer name, text;
};

struct response_extra {
    const struct json *body;            /* as asked, for what is echoed */
    const struct json *history, *items; /* earlier turns (or NULL) and this one's */
    struct response_item *list;
    size_t n, capacity;
    bool is_open; /* the last item of the list */
    bool stores;
    int64_t sequence; /* number of the next event */
};

extern const struct answer_writer response_writer;

#endif
