/* SPDX-License-Identifier: Apache-2.0 */
/* The byte-level alphabet of GPT-2: each of the 256 bytes is written as one printable character. */
#ifndef MLXCEL_TEXT_BYTELEVEL_H
#define MLXCEL_TEXT_BYTELEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pre-tokenizer's own pattern. */
#define BYTELEVEL_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* The character for a byte: U+0021 to U+0143. */
uint32_t bytelevel_character(unsigned char byte);
/* The byte that a character stands for; -1 = none. */
int bytelevel_byte(uint32_t code_point);
/* Writes the bytes that text stands for to out (at least length bytes) and returns how many; false in *ok when a
 * character is none of the 256. */
size_t bytelevel_decode(const char *text, size_t length, char *out, bool *ok);

#endif
