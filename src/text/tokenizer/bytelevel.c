/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer/bytelevel.h"

#include "base/utf8.h"

static bool is_printable(unsigned char byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Printable bytes stand for themselves; the others follow in order from U+0100: 0-32, 127-160, 173. */
uint32_t bytelevel_character(unsigned char byte) {
    if (is_printable(byte)) return byte;
    if (byte <= 32) return 0x100u + byte;
    return byte == 173 ? 0x143u : 0x121u + (byte - 127u);
}

int bytelevel_byte(uint32_t c) {
    if (c < 0x100) return is_printable((unsigned char)c) ? (int)c : -1;
    if (c <= 0x120) return (int)(c - 0x100);
    if (c <= 0x142) return (int)(c - 0x121 + 127);
    return c == 0x143 ? 173 : -1;
}

size_t bytelevel_decode(const char *text, size_t length, char *out, bool *ok) {
    size_t n = 0;
    *ok = true;
    for (size_t i = 0; i < length;) {
        uint32_t c;
        size_t used = utf8_decode(text + i, length - i, &c);
        int byte = used ? bytelevel_byte(c) : -1;
        if (byte < 0) {
            *ok = false;
            return 0;
        }
        out[n++] = (char)byte;
        i += used;
    }
    return n;
}
