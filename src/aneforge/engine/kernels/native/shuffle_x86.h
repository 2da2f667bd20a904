/* Moves of 16-bit numbers that AVX2 and AVX-512 share. */

#ifndef ANEFORGE_SHUFFLE_X86_H
#define ANEFORGE_SHUFFLE_X86_H

#include <immintrin.h>
#include <stdint.h>

/* Transpose a square of eight by eight numbers; lines are `from_line` and `to_line` numbers apart. */
static inline void transpose_square(const uint16_t *from, int64_t from_line, uint16_t *to, int64_t to_line) {
    __m128i lines[8], pairs[8], fours[8];
    for (int i = 0; i < 8; i++) lines[i] = _mm_loadu_si128((const __m128i *)(from + i * from_line));
    for (int i = 0; i < 4; i++) {
        pairs[2 * i] = _mm_unpacklo_epi16(lines[2 * i], lines[2 * i + 1]);
        pairs[2 * i + 1] = _mm_unpackhi_epi16(lines[2 * i], lines[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            fours[4 * i + 2 * j] = _mm_unpacklo_epi32(pairs[4 * i + j], pairs[4 * i + 2 + j]);
            fours[4 * i + 2 * j + 1] = _mm_unpackhi_epi32(pairs[4 * i + j], pairs[4 * i + 2 + j]);
        }
    for (int i = 0; i < 4; i++) {
        const __m128i even = _mm_unpacklo_epi64(fours[i], fours[4 + i]), odd = _mm_unpackhi_epi64(fours[i], fours[4 + i]);
        _mm_storeu_si128((__m128i *)(to + 2 * i * to_line), even);
        _mm_storeu_si128((__m128i *)(to + (2 * i + 1) * to_line), odd);
    }
}

/* Least exponent byte at one step, over the vectors of a tile. */
static inline uint8_t least_exponent(const uint8_t *exponents, const uint32_t *bases, int32_t vectors) {
    __m128i all = _mm_loadu_si128((const __m128i *)(exponents + bases[0]));
    for (int32_t v = 1; v < vectors; v++)
        all = _mm_min_epu8(all, _mm_loadu_si128((const __m128i *)(exponents + bases[v])));
    const __m128i pairs = _mm_min_epu8(all, _mm_srli_epi16(all, 8));
    return (uint8_t)_mm_cvtsi128_si32(_mm_minpos_epu16(pairs));
}

#endif
