/* The way out with AVX-512: gain and offset in float32 where that decides, and results that are noted, rectified and stored
 * in one pass. */

#ifndef ANEFORGE_LEAVE_AVX512_H
#define ANEFORGE_LEAVE_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "halves.h"

#define OWN_GAIN 1
#define OWN_PASSING 1

/* Sums of one row with gain and offset, rounded once.
 *
 * Where float32 holds gain and offset, one fused operation of them and of a sum below 2^24 units gives the exact result,
 * rounded to float32. Numbers halfway between two fp16 numbers are numbers of float32: a result that is none of them lies on
 * the same side of each as the exact one, and rounds to the same fp16 number. Zeros have the signs that they have in double.
 * Below 2^-14 halfway lies elsewhere. What is not decided so goes in double. */
static inline void scale_row(const int32_t *units, int64_t count, const struct gain *behind, uint16_t *halves) {
    const __m512 factor = _mm512_set1_ps(behind->factor), moved = _mm512_set1_ps(behind->moved);
    for (int64_t i = 0; i < count; i += LANES) {
        const __m512i given = _mm512_loadu_si512(units + i);
        const __m512i result = _mm512_castps_si512(_mm512_fmadd_ps(_mm512_cvtepi32_ps(given), factor, moved));
        const __mmask16 large = _mm512_cmpgt_epu32_mask(_mm512_abs_epi32(given), _mm512_set1_epi32(0xFFFFFF));
        const __m512i low_bits = _mm512_and_si512(result, _mm512_set1_epi32(0x1FFF));
        const __mmask16 halfway = _mm512_cmpeq_epi32_mask(low_bits, _mm512_set1_epi32(0x1000));
        const __m512i doubled = _mm512_add_epi32(result, result); /* without the sign */
        const __mmask16 small = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(doubled, _mm512_set1_epi32(1)),
                                                        _mm512_set1_epi32(2 * 0x38800000 - 1)); /* 2^-14, not 0 */
        const __m256i rounded =
            _mm512_cvtps_ph(_mm512_castsi512_ps(result), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_storeu_si256((__m256i *)(halves + i), rounded);
        if ((large | halfway | small) != 0 || !behind->narrow) scale_sixteen(units + i, behind, halves + i);
    }
}

/* What is done to results and noted of them, but for tables. */
struct passing {
    __m256i most, after, bound;
    __mmask16 zeros, negative_zeros;
    bool rectifies;
};

static inline struct passing begin_passing(int64_t rectifies) {
    const __m256i none = _mm256_setzero_si256();
    return (struct passing){none, none, _mm256_set1_epi16((int16_t)rectifies), 0, 0, rectifies != 0};
}

/* Some of sixteen results on their way to their places; `to` is where the first would lie. */
static inline void pass_lanes(struct passing *passing, const uint16_t *from, __mmask16 stored, uint16_t *to) {
    const __m256i given = _mm256_maskz_loadu_epi16(stored, from);
    const __m256i magnitude = _mm256_and_si256(given, _mm256_set1_epi16(0x7FFF));
    passing->most = _mm256_max_epu16(passing->most, magnitude);
    passing->zeros |= _mm256_mask_testn_epi16_mask(stored, given, given);
    passing->negative_zeros |= _mm256_cmpeq_epi16_mask(given, _mm256_set1_epi16(INT16_MIN));
    __m256i result = given;
    if (passing->rectifies) {
        result = _mm256_min_epu16(_mm256_max_epi16(given, _mm256_setzero_si256()), passing->bound);
        passing->after = _mm256_max_epu16(passing->after, result);
    }
    _mm256_mask_storeu_epi16(to, stored, result);
}

static inline uint16_t largest_of_sixteen(__m256i values) {
    const __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    return (uint16_t)~_mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1))), 0);
}

static inline void end_passing(const struct passing *passing, int64_t *seen) {
    const int64_t most = largest_of_sixteen(passing->most);
    const int64_t after = passing->rectifies ? largest_of_sixteen(passing->after) : most;
    seen[ANEFORGE_LARGEST_BEFORE] = most > seen[ANEFORGE_LARGEST_BEFORE] ? most : seen[ANEFORGE_LARGEST_BEFORE];
    seen[ANEFORGE_ZEROS_BEFORE] |= (passing->zeros != 0) | (passing->negative_zeros != 0) << 1;
    seen[ANEFORGE_LARGEST_AFTER] = after > seen[ANEFORGE_LARGEST_AFTER] ? after : seen[ANEFORGE_LARGEST_AFTER];
}

#endif
