/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

static const struct unicode_newer *find_newer(uint32_t code_point) {
    size_t low = 0, high = unicode_n_newer;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_newer *row = &unicode_newer[middle];
        if (code_point < row->first)
            high = middle;
        else if (code_point > row->last)
            low = middle + 1;
        else
            return row;
    }
    return NULL;
}

enum unicode_category unicode_category_in(uint32_t code_point, int version) {
    if (code_point > 0x10ffff) return UNICODE_CN;
    /* Changed since: U+0295 was a lower case letter before 17. */
    if (code_point == 0x295) return version >= 170 ? UNICODE_LO : UNICODE_LL;
    const struct unicode_newer *row = code_point >= unicode_newer[0].first ? find_newer(code_point) : NULL;
    if (row) return row->version <= version ? (enum unicode_category)row->category : UNICODE_CN;
    return (enum unicode_category)utf8proc_category((utf8proc_int32_t)code_point);
}

bool unicode_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool unicode_is_numeric(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    enum unicode_category category = unicode_category_in(c, 170);
    return category >= UNICODE_ND && category <= UNICODE_NO;
}

static bool is_circled_letter(uint32_t c) {
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189);
}

bool unicode_is_word(uint32_t c) {
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (c == 0x200c || c == 0x200d || is_circled_letter(c)) return true;
    enum unicode_category category = unicode_category_in(c, 160);
    return (category >= UNICODE_LU && category <= UNICODE_NL) || category == UNICODE_PC;
}

bool unicode_is_punctuation(uint32_t c) {
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    /* Punctuation in version 8, other categories since. */
    if (c == 0x166d || c == 0x111c9) return true;
    enum unicode_category category = unicode_category_in(c, 80);
    return category >= UNICODE_PC && category <= UNICODE_PO;
}

bool unicode_is_control(uint32_t c) {
    if (c < 0x80) return c < 0x20 || c == 0x7f;
    enum unicode_category category = unicode_category_in(c, 80);
    return category == UNICODE_CC || category == UNICODE_CF || category == UNICODE_CO;
}

bool unicode_is_mark(uint32_t c) {
    if (c < 0x300) return false;
    if (c == 0x1cf2 || c == 0x1cf3) return true;
    if (c == 0x111c9) return false;
    enum unicode_category category = unicode_category_in(c, 90);
    return category >= UNICODE_MN && category <= UNICODE_ME;
}

bool unicode_is_nonspacing_mark(uint32_t c) {
    if (c < 0x300) return false;
    if (c == 0x1734 || c == 0x1171e) return true;
    if (c == 0x1885 || c == 0x1886 || c == 0xa9bd || c == 0x111c9) return false;
    return unicode_category_in(c, 80) == UNICODE_MN;
}

size_t unicode_lower(uint32_t c, uint32_t out[2]) {
    /* Pairs that came with Unicode 16 and 17. */
    static const struct {
        uint32_t first, last;
        int32_t shift;
    } newer[] = {
        {0x1c89, 0x1c89, 1},      {0xa7cb, 0xa7cb, 0x264 - 0xa7cb},
        {0xa7cc, 0xa7cc, 1},      {0xa7ce, 0xa7ce, 1},
        {0xa7d2, 0xa7d2, 1},      {0xa7d4, 0xa7d4, 1},
        {0xa7da, 0xa7da, 1},      {0xa7dc, 0xa7dc, 0x19b - 0xa7dc},
        {0x10d50, 0x10d65, 0x20}, {0x16ea0, 0x16eb8, 0x1b},
    };
    out[0] = c;
    if (c < 0x80) {
        if (c >= 'A' && c <= 'Z') out[0] = c + 32;
        return 1;
    }
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; c >= newer[0].first && i < sizeof newer / sizeof *newer; i++)
        if (c >= newer[i].first && c <= newer[i].last) {
            out[0] = (uint32_t)((int32_t)c + newer[i].shift);
            return 1;
        }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

int unicode_script_of(uint32_t c) {
    size_t low = 0, high = unicode_n_scripts;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_script *row = &unicode_scripts[middle];
        if (c < row->first)
            high = middle;
        else if (c > row->last)
            low = middle + 1;
        else
            return row->script;
    }
    return 0;
}
