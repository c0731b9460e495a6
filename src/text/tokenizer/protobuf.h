/* SPDX-License-Identifier: Apache-2.0 */
/* A walk through the fields of a protocol buffer message. */
#ifndef MLXCEL_TEXT_PROTOBUF_H
#define MLXCEL_TEXT_PROTOBUF_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
    const unsigned char *at, *end;
    const char *what; /* names the message in errors */
};

struct protobuf_field {
    uint32_t number;
    uint64_t value;             /* integers; the bits of fixed-width numbers */
    const unsigned char *bytes; /* strings and messages; NULL = a number */
    size_t length;
};

/* The next field. False at the end, or when the message is broken: then the error is set. */
bool protobuf_next(struct protobuf *message, struct protobuf_field *field, struct mx_error *err);
float protobuf_float(const struct protobuf_field *field);

#endif
