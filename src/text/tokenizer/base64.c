/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/base64.h"

#include <stdint.h>

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_append(struct buffer *out, const char *text, size_t length) {
    uint32_t bits = 0;
    int n_bits = 0;
    if (!buffer_reserve(out, length / 4 * 3 + 4)) return false;
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out->data[out->length++] = (char)(bits >> n_bits & 0xff);
    }
    out->data[out->length] = '\0';
    return true;
}
