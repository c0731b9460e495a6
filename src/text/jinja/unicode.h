/* SPDX-License-Identifier: Apache-2.0 */
/* Properties and case mappings of characters, as Python's str methods use them. */
#ifndef MLXCEL_TEXT_JINJA_UNICODE_H
#define MLXCEL_TEXT_JINJA_UNICODE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool jinja_is_space(uint32_t c); /* str.isspace and \s */
bool jinja_is_alpha(uint32_t c);
bool jinja_is_decimal(uint32_t c);
bool jinja_is_digit(uint32_t c);
bool jinja_is_numeric(uint32_t c);
bool jinja_is_alnum(uint32_t c);
bool jinja_is_upper(uint32_t c);
bool jinja_is_lower(uint32_t c);
bool jinja_is_title(uint32_t c);
bool jinja_is_printable(uint32_t c);
bool jinja_is_word(uint32_t c); /* \w */
bool jinja_is_name_start(uint32_t c);
bool jinja_is_name(uint32_t c);       /* may continue an identifier */
bool jinja_is_line_break(uint32_t c); /* str.splitlines */
int jinja_decimal_digit(uint32_t c);  /* 0 to 9, or -1 */

/* Moves *from and *to over white space at both ends of text[*from .. *to). */
void jinja_trim_space(const char *text, size_t *from, size_t *to);

/* Append the mapping of a character, up to three code points. */
bool jinja_append_upper(struct buffer *out, uint32_t c);
bool jinja_append_title(struct buffer *out, uint32_t c);
bool jinja_append_folded(struct buffer *out, uint32_t c);
bool jinja_append_char(struct buffer *out, uint32_t c);
/* The lower case of the character at text[at]: a sigma at the end of a word has its own form. */
bool jinja_append_lower(struct buffer *out, const char *text, size_t length, size_t at);

#endif
