/* SPDX-License-Identifier: Apache-2.0 */
/* Names for requests, answers and calls. */
#ifndef MLXCEL_SERVE_RANDOM_ID_H
#define MLXCEL_SERVE_RANDOM_ID_H

#include <stdbool.h>
#include <stddef.h>

/* Writes prefix, n_digits random hexadecimal digits (at most 48) and a NUL; at most 65 bytes. */
void random_id(char *out, const char *prefix, size_t n_digits);
/* n letters and digits and a NUL. */
void random_alphanumeric(char *out, size_t n);
/* What a client may choose as its request's id: 1 to 64 of [A-Za-z0-9._-]. */
bool request_id_is_good(const char *id);

#endif
