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

/* Sixteen sums of fewer than 2^24 units with gain and offset, as `plain_reach` allows them, rounded once.
 *
 * A fused operation that rounds towards zero never passes a number of float32, so never a tie of fp16 either. Half a unit of
 * the result, which from 2^-14 on is 2^-11 times its leading power of two and below that stays the same, is added and what
 * is beyond fp16 is cut, both towards zero too: ties go away from zero. The sign is that of the exact result. */
static inline __m256i leave_sixteen(__m512 units, __m512 factor, __m512 moved) {
    const __m512 result = _mm512_fmadd_round_ps(units, factor, moved, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m512 power = _mm512_and_ps(result, _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)0xFF800000)));
    const __m512 limited = _mm512_range_ps(power, _mm512_set1_ps(0x1p-14f), 3); /* the larger magnitude, the first's sign */
    const __m512 raised =
        _mm512_fmadd_round_ps(limited, _mm512_set1_ps(0x1p-11f), result, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    return _mm512_cvtps_ph(raised, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

/* Sums of one row that `plain_reach` allows. */
static inline void leave_plain_row(const int32_t *units, int64_t count, const struct gain *behind, uint16_t *halves) {
    const __m512 factor = _mm512_set1_ps(behind->factor), moved = _mm512_set1_ps(behind->moved);
    for (int64_t i = 0; i < count; i += LANES) {
        const __m512 given = _mm512_cvtepi32_ps(_mm512_loadu_si512(units + i));
        _mm256_storeu_si256((__m256i *)(halves + i), leave_sixteen(given, factor, moved));
    }
}

/* What is done to results and noted of them, but for tables. Of their bits as numbers without a sign the largest is the
 * largest negative result, of those with a sign the largest positive one; the least ones are +0 and -0 where these occur. */
struct passing {
    __m256i largest, least;               /* without a sign */
    __m256i largest_signed, least_signed; /* with a sign */
    __m256i bound;
    bool rectifies;
};

static inline struct passing begin_passing(int64_t rectifies) {
    const __m256i ones = _mm256_set1_epi16(-1);
    return (struct passing){_mm256_setzero_si256(), ones, _mm256_set1_epi16(INT16_MIN), _mm256_set1_epi16(INT16_MAX),
                            _mm256_set1_epi16((int16_t)rectifies), rectifies != 0};
}

/* Note some of sixteen results, and return what becomes of all of them. */
static inline __m256i pass_sixteen(struct passing *passing, __m256i given, __mmask16 stored) {
    passing->largest = _mm256_mask_max_epu16(passing->largest, stored, passing->largest, given);
    passing->least = _mm256_mask_min_epu16(passing->least, stored, passing->least, given);
    passing->largest_signed = _mm256_mask_max_epi16(passing->largest_signed, stored, passing->largest_signed, given);
    passing->least_signed = _mm256_mask_min_epi16(passing->least_signed, stored, passing->least_signed, given);
    if (!passing->rectifies) return given;
    return _mm256_min_epu16(_mm256_max_epi16(given, _mm256_setzero_si256()), passing->bound);
}

/* Some of sixteen results on their way to their places; `to` is where the first would lie. */
static inline void pass_lanes(struct passing *passing, const uint16_t *from, __mmask16 stored, uint16_t *to) {
    _mm256_mask_storeu_epi16(to, stored, pass_sixteen(passing, _mm256_maskz_loadu_epi16(stored, from), stored));
}

static inline uint16_t largest_of_sixteen(__m256i values) {
    const __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    return (uint16_t)~_mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1))), 0);
}

static inline uint16_t least_of_sixteen(__m256i values) {
    const __m128i eight = _mm_min_epu16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    return (uint16_t)_mm_extract_epi16(_mm_minpos_epu16(eight), 0);
}

static inline void end_passing(const struct passing *passing, int64_t *seen) {
    const __m256i sign = _mm256_set1_epi16(INT16_MIN);
    const uint16_t negative = largest_of_sixteen(passing->largest);
    const uint16_t shifted = largest_of_sixteen(_mm256_xor_si256(passing->largest_signed, sign));
    const int64_t below = negative & 0x8000u ? negative & 0x7FFFu : 0, above = shifted & 0x8000u ? shifted & 0x7FFFu : 0;
    const int64_t most = above > below ? above : below, bound = (uint16_t)_mm256_extract_epi16(passing->bound, 0);
    const int64_t rectified = above < bound ? above : bound, after = passing->rectifies ? rectified : most;
    const bool zero = least_of_sixteen(passing->least) == 0;
    const bool negative_zero = least_of_sixteen(_mm256_xor_si256(passing->least_signed, sign)) == 0;
    seen[ANEFORGE_LARGEST_BEFORE] = most > seen[ANEFORGE_LARGEST_BEFORE] ? most : seen[ANEFORGE_LARGEST_BEFORE];
    seen[ANEFORGE_ZEROS_BEFORE] |= zero | negative_zero << 1;
    seen[ANEFORGE_LARGEST_AFTER] = after > seen[ANEFORGE_LARGEST_AFTER] ? after : seen[ANEFORGE_LARGEST_AFTER];
}

#endif
