/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648). */
#ifndef MLXCEL_TEXT_BASE64_H
#define MLXCEL_TEXT_BASE64_H

#include "base/buffer.h"

/* Appends the bytes that text stands for; '=' ends it. False when a character is none of the alphabet, or memory is out
 * (then out->failed is set). */
bool base64_append(struct buffer *out, const char *text, size_t length);

#endif
