/* The way out with AVX-512: gain and offset in float32 where that decides, and results that are noted, rectified and stored
 * in one pass. */

#ifndef ANEFORGE_LEAVE_AVX512_H
#define ANEFORGE_LEAVE_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"

#define OWN_GAIN 1
#define OWN_PASSING 1

/* Gain and offset in float32, and a bound of how far their result may lie from the one in double.
 *
 * Converting the units, the gain and the offset moves each by a part of 2^-24 at most, and the fused operation and the ends
 * of the interval around its result by another: together by less than 2^-21 of |units * gain| + |offset|. Where both ends
 * of that interval round to the same fp16 number, everything between does: a tie between them would part them. */
struct narrow {
    float gain, offset, slack, least_slack;
    bool usable;
};

/* The numbers that float32 holds with room for all products. */
static inline bool is_moderate(double value) { return value == 0 || (fabs(value) > 0x1p-60 && fabs(value) < 0x1p60); }

static inline struct narrow narrow_gain(double gain, double offset) {
    if (!is_moderate(gain) || !is_moderate(offset)) return (struct narrow){.usable = false};
    const float scaled = (float)(gain * 0x1p-16), moved = (float)offset;
    return (struct narrow){scaled, moved, fabsf(scaled) * 0x1p-21f, fabsf(moved) * 0x1p-21f + 0x1p-100f, true};
}

/* Sixteen sums with gain and offset, rounded once; false where float32 does not decide all of them. */
static inline bool scale_lanes(const int32_t *units, const struct narrow *narrow, uint16_t *halves) {
    if (!narrow->usable) return false;
    const __m512 sums = _mm512_cvtepi32_ps(_mm512_loadu_si512(units));
    const __m512 result = _mm512_fmadd_ps(sums, _mm512_set1_ps(narrow->gain), _mm512_set1_ps(narrow->offset));
    const __m512 slack =
        _mm512_fmadd_ps(_mm512_abs_ps(sums), _mm512_set1_ps(narrow->slack), _mm512_set1_ps(narrow->least_slack));
    const __m256i below = _mm512_cvtps_ph(_mm512_sub_ps(result, slack), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i above = _mm512_cvtps_ph(_mm512_add_ps(result, slack), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256((__m256i *)halves, below);
    return _mm256_cmpneq_epi16_mask(below, above) == 0;
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
