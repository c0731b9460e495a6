/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a request's body: each dialect has a table of those it knows.
 *
 * null means absent. A field of the wrong type is a 400 that names it. A field that would change the answer and is not
 * supported is a 400 unless its value asks for nothing. Fields without effect, known or not, are let through and listed
 * in the answer's header X-Ignored-Fields. */
#ifndef MLXCEL_SERVE_FIELDS_H
#define MLXCEL_SERVE_FIELDS_H

#include "engine/sampling.h"
#include "serve/api_error.h"

enum field_types {
    T_BOOL = 1,
    T_STRING = 2,
    T_NUMBER = 4,
    T_INTEGER = 8,
    T_ARRAY = 16,
    T_OBJECT = 32,
    T_ANY = 63,
};

enum field_use {
    FIELD_USED,
    FIELD_IGNORED, /* known to have no effect here */
    FIELD_REFUSED, /* unless false, 0, "" or empty */
};

struct field {
    const char *name; /* NULL ends a table */
    unsigned types;
    enum field_use use;
    const struct field *more; /* of the end: the table that goes on, or NULL */
};

/* Checks every member of the body; a name's first entry counts. */
bool fields_check(struct exchange *exchange, const struct json *body, const struct field *table,
                  struct problem *problem);

/* Parses the body as an object: UTF-8, depth, syntax. NULL with the problem set. */
const struct json *fields_parse_body(struct exchange *exchange, struct problem *problem);

/* Integer member within [minimum, maximum]; absent or null: fallback. */
bool field_integer(const struct json *body, const char *name, int64_t minimum, int64_t maximum, int64_t fallback,
                   int64_t *value, struct problem *problem);
/* The member, or NULL where it is absent or null. */
const struct json *field_get(const struct json *body, const char *name);

/* What request_take_sampling reads in all dialects: OpenAI's, llama-server's and vLLM's names. Who calls it checks the body
 * by this table first. */
extern const struct field sampling_field_table[];
bool fields_sampling(const struct json *body, struct sampling_params *params, struct problem *problem);
/* logit_bias: {"id": bias} or [[id, bias or false], ...]; the biases lie in the arena. */
bool fields_logit_bias(const struct json *body, struct arena *arena, uint32_t vocab_size,
                       struct sampling_params *params, struct problem *problem);

#endif
