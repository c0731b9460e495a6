/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629): strict decoding, validation, and where a character is cut. */
#ifndef MLXCEL_BASE_UTF8_H
#define MLXCEL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one code point at text[0 .. length). Returns its length in bytes, 1 to 4, and sets *code_point; returns 0
 * where the bytes are no character: a stray or missing continuation byte, an overlong form, a surrogate, a value above
 * U+10FFFF, or nothing left. */
size_t utf8_decode(const char *text, size_t length, uint32_t *code_point);

/* Writes code_point to out (at least 4 bytes) and returns the number of bytes; 0 for surrogates and above U+10FFFF. */
size_t utf8_encode(uint32_t code_point, char *out);

/* The number of bytes from the start that are whole, valid characters. Equal to length when all of text is UTF-8. */
size_t utf8_valid_prefix(const char *text, size_t length);

/* How many bytes at the end of text could still become one valid character if more bytes followed: 0 to 3. */
size_t utf8_incomplete_tail(const char *text, size_t length);

/* The length of the longest start of text[0 .. length), at least 1 byte, that is either one character or one maximal
 * ill-formed sequence to be replaced by a single U+FFFD (Unicode standard, section 3.9). Sets *valid. */
size_t utf8_next_maximal(const char *text, size_t length, bool *valid);

/* Number of code points in valid text. */
size_t utf8_count(const char *text, size_t length);

#endif
