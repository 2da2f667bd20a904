/* Codes decoded with AVX-512, as `codes.h` says: its conversions to fp16 round ties to even, as the rule does. */

#ifndef ANEFORGE_CODES_AVX512_H
#define ANEFORGE_CODES_AVX512_H

#include <immintrin.h>

#include "plan.h"

/* How sixteen codes become the floats that they stand for. */
enum form { SIGNED_BYTES, BYTES, FEW_BITS };

static inline __attribute__((always_inline)) __m512 floats_of_codes(const struct aneforge_codes *given, __m128i codes,
                                                                    const enum form form) {
    if (form == SIGNED_BYTES) return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
    if (form == BYTES) return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes));
    const __m128i sign = _mm_set1_epi8((char)given->sign);
    const __m128i turned = _mm_xor_si128(_mm_and_si128(codes, _mm_set1_epi8((char)given->mask)), sign);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_sub_epi8(turned, sign)));
}

static inline __attribute__((always_inline)) __m256i halves_of_codes(const struct aneforge_codes *given, __m128i codes,
                                                                     __m512 shift, __m512 factor, const enum form form) {
    const __m512 product = _mm512_mul_ps(_mm512_sub_ps(floats_of_codes(given, codes, form), shift), factor);
    return _mm512_cvtps_ph(product, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline __attribute__((always_inline)) void decode_form(const struct aneforge_codes *given, const uint8_t *codes,
                                                              int64_t count, __m512 shift, __m512 factor, uint16_t *to,
                                                              const enum form form) {
    int64_t i = 0;
#pragma GCC unroll 2
    for (; i + LANES <= count; i += LANES) {
        const __m128i some = _mm_loadu_si128((const __m128i *)(codes + i));
        _mm256_storeu_si256((__m256i *)(to + i), halves_of_codes(given, some, shift, factor, form));
    }
    if (i == count) return;
    const __mmask16 there = (__mmask16)((1 << (count - i)) - 1);
    const __m128i some = _mm_maskz_loadu_epi8(there, codes + i);
    _mm256_mask_storeu_epi16(to + i, there, halves_of_codes(given, some, shift, factor, form));
}

/* Codes of one block. */
static void decode_stretch(const struct aneforge_codes *given, const uint8_t *codes, int64_t count, float shift, float factor,
                           uint16_t *to) {
    const __m512 shifts = _mm512_set1_ps(shift), factors = _mm512_set1_ps(factor);
    if (given->mask != 0xFF)
        decode_form(given, codes, count, shifts, factors, to, FEW_BITS);
    else if (given->sign)
        decode_form(given, codes, count, shifts, factors, to, SIGNED_BYTES);
    else
        decode_form(given, codes, count, shifts, factors, to, BYTES);
}

/* Entries of a table of at most 16, two codes in a byte; a multiple of eight of them. */
static void look_up_nibbles(const uint16_t *table, int64_t entries, const uint8_t *codes, int64_t count, uint16_t *to) {
    const __m512i all = _mm512_maskz_loadu_epi16((__mmask32)((1u << entries) - 1), table);
    for (int64_t i = 0; i < count; i += 2 * LANES) {
        const int64_t left = count - i;
        const __mmask32 there = left >= 2 * LANES ? 0xFFFFFFFFu : (__mmask32)((1u << left) - 1);
        const __mmask16 bytes = left >= 2 * LANES ? 0xFFFF : (__mmask16)((1u << left / 2) - 1);
        const __m512i pairs = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(bytes, codes + i / 2));
        const __m512i apart = _mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 12));
        const __m512i places = _mm512_and_si512(apart, _mm512_set1_epi32(0x000F000F));
        _mm512_mask_storeu_epi16(to + i, there, _mm512_permutexvar_epi16(places, all));
    }
}

/* Entries of a table of at most 64. */
static void look_up_few(const uint16_t *table, int64_t entries, const uint8_t *codes, int64_t count, uint16_t *to) {
    const __mmask32 first = entries < 32 ? (__mmask32)((1u << entries) - 1) : 0xFFFFFFFFu;
    const __mmask32 second = entries <= 32 ? 0 : (__mmask32)((1ull << (entries - 32)) - 1);
    const __m512i low = _mm512_maskz_loadu_epi16(first, table), high = _mm512_maskz_loadu_epi16(second, table + 32);
    for (int64_t i = 0; i < count; i += 2 * LANES) {
        const __mmask32 there = count - i >= 2 * LANES ? 0xFFFFFFFFu : (__mmask32)((1u << (count - i)) - 1);
        const __m512i places = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(there, codes + i));
        _mm512_mask_storeu_epi16(to + i, there, _mm512_permutex2var_epi16(low, places, high));
    }
}

#endif
