/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/random_id.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Should the system give no random bytes, a counter and the clock still make ids distinct. */
static void random_bytes(unsigned char *bytes, size_t n) {
    static atomic_uint_least64_t counter;
    if (getrandom(bytes, n, 0) == (ssize_t)n) return;
    uint64_t value = clock_now_ns() ^ atomic_fetch_add(&counter, 1) << 48;
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)((value *= 6364136223846793005u) >> 56);
}

void random_id(char *out, const char *prefix, size_t n_digits) {
    unsigned char bytes[24];
    size_t n = strlen(prefix);
    if (n_digits > 48) n_digits = 48;
    if (n > 16) n = 16;
    memcpy(out, prefix, n);
    random_bytes(bytes, (n_digits + 1) / 2);
    for (size_t i = 0; i < n_digits; i++) out[n + i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 * 4) & 15];
    out[n + n_digits] = '\0';
}

void random_alphanumeric(char *out, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t i = 0; i < n; i++) {
        unsigned char byte;
        do random_bytes(&byte, 1);
        while (byte >= 248);
        out[i] = digits[byte % 62];
    }
    out[n] = '\0';
}

bool request_id_is_good(const char *id) {
    size_t n = strlen(id);
    return n && n <= 64 && strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}
