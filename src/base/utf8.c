/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* The number of bytes a lead byte announces (0 if it is no lead byte) and the range of the byte after it, which
 * excludes overlong forms, surrogates and values above U+10FFFF (Unicode standard, table 3-7). */
static size_t sequence_length(unsigned char lead, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xbf;
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    if (lead < 0xe0) return 2;
    if (lead == 0xe0) *low = 0xa0;
    if (lead == 0xed) *high = 0x9f;
    if (lead == 0xf0) *low = 0x90;
    if (lead == 0xf4) *high = 0x8f;
    return lead < 0xf0 ? 3 : 4;
}

/* Bytes of the longest well-formed start of one sequence; *whole tells whether the sequence is complete. */
static size_t well_formed_start(const char *text, size_t length, bool *whole) {
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char low, high;
    *whole = false;
    if (!length) return 0;
    size_t need = sequence_length(bytes[0], &low, &high);
    if (!need) return 0;
    for (size_t i = 1; i < need; i++) {
        if (i == length || bytes[i] < low || bytes[i] > high) return i;
        low = 0x80;
        high = 0xbf;
    }
    *whole = true;
    return need;
}

size_t utf8_decode(const char *text, size_t length, uint32_t *code_point) {
    static const unsigned char lead_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    bool whole;
    size_t n = well_formed_start(text, length, &whole);
    if (!whole) return 0;
    uint32_t value = (unsigned char)text[0] & lead_mask[n];
    for (size_t i = 1; i < n; i++) value = value << 6 | ((unsigned char)text[i] & 0x3f);
    *code_point = value;
    return n;
}

size_t utf8_encode(uint32_t c, char *out) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        if (c >= 0xd800 && c < 0xe000) return 0;
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    if (c > 0x10ffff) return 0;
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t utf8_valid_prefix(const char *text, size_t length) {
    size_t i = 0;
    while (i < length) {
        if ((unsigned char)text[i] < 0x80) {
            i++;
            continue;
        }
        bool whole;
        size_t n = well_formed_start(text + i, length - i, &whole);
        if (!whole) break;
        i += n;
    }
    return i;
}

size_t utf8_incomplete_tail(const char *text, size_t length) {
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)text[length - back];
        if ((byte & 0xc0) == 0x80) continue;
        bool whole;
        size_t n = well_formed_start(text + length - back, back, &whole);
        return !whole && n == back ? back : 0;
    }
    return 0;
}

size_t utf8_next_maximal(const char *text, size_t length, bool *valid) {
    size_t n = well_formed_start(text, length, valid);
    return n ? n : 1;
}

size_t utf8_count(const char *text, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}
