/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of code points, each as of the Unicode version that the reference tokenizer uses for it.
 *
 * The reference mixes libraries of different ages: lower case and numbers follow Unicode 17, regular expressions 16,
 * normalization forms and combining marks 9, punctuation and controls 8. utf8proc gives the data; a table of code
 * points newer than that (made by scripts/make-unicode-tables.py) says what came when, so results do not depend on the
 * version of utf8proc, as long as it knows Unicode 14. */
#ifndef MLXCEL_TEXT_UNICODE_H
#define MLXCEL_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are utf8proc's. */
enum unicode_category {
    UNICODE_CN,
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CS,
    UNICODE_CO,
};

/* Code points newer than Unicode 8: all that are newer than 14, of the others those whose age matters. */
struct unicode_newer {
    uint32_t first, last;
    uint16_t version; /* times ten */
    uint8_t category;
};
extern const struct unicode_newer unicode_newer[];
extern const size_t unicode_n_newer;

struct unicode_script {
    uint32_t first, last;
    uint8_t script;
};
extern const struct unicode_script unicode_scripts[];
extern const size_t unicode_n_scripts;
extern const int unicode_script_hiragana, unicode_script_katakana, unicode_script_han;

/* The category in a version (times ten, 80 or above); code points that came later are unassigned. */
enum unicode_category unicode_category_in(uint32_t code_point, int version);

/* White_Space. */
bool unicode_is_space(uint32_t code_point);
/* Nd, Nl, No. */
bool unicode_is_numeric(uint32_t code_point);
/* \w of the reference's added tokens: letters, marks, decimal digits, connectors, letter numbers, joiners. */
bool unicode_is_word(uint32_t code_point);
/* ASCII punctuation and symbols, and the categories P*. */
bool unicode_is_punctuation(uint32_t code_point);
/* Cc, Cf, Co. */
bool unicode_is_control(uint32_t code_point);
/* M*, and Mn. */
bool unicode_is_mark(uint32_t code_point);
bool unicode_is_nonspacing_mark(uint32_t code_point);
/* Writes the lower case of a code point, 1 or 2 code points, and returns how many. */
size_t unicode_lower(uint32_t code_point, uint32_t out[2]);
/* Number of the script; 0 = unknown. */
int unicode_script_of(uint32_t code_point);

#endif
