/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that unpack codes of 3, 5 and 6 bits. 16 codes of b bits fill 2b bytes; codes 8 .. 15 repeat the pattern of
 * 0 .. 7, b bytes later. Code j begins at bit j*b: bit s of byte B.
 *
 *   even j: the 16-bit window (B, B+1), or (nothing, B) where the code ends within B, is shifted to the right by taking
 *           the upper half of its product with 2^(16-s), or 2^(8-s): the code is then the low byte.
 *   odd j:  the window (B, B+1) times 2^(8-s): the code is then the high byte.
 *
 * The bytes' indices are for a byte shuffle where an index with the top bit gives zero; `first` is the index of the 16
 * codes' first byte. An index past 15 belongs to a byte that holds nothing of the code. */
#ifndef MLXCEL_KERNELS_SIMD_Q8_BITS_H
#define MLXCEL_KERNELS_SIMD_Q8_BITS_H

#define Q8_ZERO        ((char)0x80)
#define Q8_BYTE(b, j)  ((j) * (b) / 8)
#define Q8_SHIFT(b, j) ((j) * (b) % 8)
#define Q8_FITS(b, j)  (Q8_SHIFT(b, j) + (b) <= 8)

#define Q8_INDEX(at) ((at) > 15 ? Q8_ZERO : (char)(at))

#define Q8_EVEN_PAIR(b, first, j)                                                                                      \
    Q8_FITS(b, j) ? Q8_ZERO : Q8_INDEX((first) + Q8_BYTE(b, j)),                                                       \
        Q8_INDEX((first) + Q8_BYTE(b, j) + (Q8_FITS(b, j) ? 0 : 1))
#define Q8_ODD_PAIR(b, first, j) Q8_INDEX((first) + Q8_BYTE(b, j)), Q8_INDEX((first) + Q8_BYTE(b, j) + 1)

#define Q8_EVEN_BYTES(b, first)                                                                                        \
    Q8_EVEN_PAIR(b, first, 0), Q8_EVEN_PAIR(b, first, 2), Q8_EVEN_PAIR(b, first, 4), Q8_EVEN_PAIR(b, first, 6),        \
        Q8_EVEN_PAIR(b, first, 8), Q8_EVEN_PAIR(b, first, 10), Q8_EVEN_PAIR(b, first, 12), Q8_EVEN_PAIR(b, first, 14)
#define Q8_ODD_BYTES(b, first)                                                                                         \
    Q8_ODD_PAIR(b, first, 1), Q8_ODD_PAIR(b, first, 3), Q8_ODD_PAIR(b, first, 5), Q8_ODD_PAIR(b, first, 7),            \
        Q8_ODD_PAIR(b, first, 9), Q8_ODD_PAIR(b, first, 11), Q8_ODD_PAIR(b, first, 13), Q8_ODD_PAIR(b, first, 15)

#define Q8_EVEN_FACTOR(b, j) (short)(1 << ((Q8_FITS(b, j) ? 8 : 16) - Q8_SHIFT(b, j)))
#define Q8_ODD_FACTOR(b, j)  (short)(1 << (8 - Q8_SHIFT(b, j)))

/* For the 8 codes of each parity. */
#define Q8_EVEN_FACTORS(b)                                                                                             \
    Q8_EVEN_FACTOR(b, 0), Q8_EVEN_FACTOR(b, 2), Q8_EVEN_FACTOR(b, 4), Q8_EVEN_FACTOR(b, 6), Q8_EVEN_FACTOR(b, 0),      \
        Q8_EVEN_FACTOR(b, 2), Q8_EVEN_FACTOR(b, 4), Q8_EVEN_FACTOR(b, 6)
#define Q8_ODD_FACTORS(b)                                                                                              \
    Q8_ODD_FACTOR(b, 1), Q8_ODD_FACTOR(b, 3), Q8_ODD_FACTOR(b, 5), Q8_ODD_FACTOR(b, 7), Q8_ODD_FACTOR(b, 1),           \
        Q8_ODD_FACTOR(b, 3), Q8_ODD_FACTOR(b, 5), Q8_ODD_FACTOR(b, 7)

#endif
