/* Pairs of finite fp16 numbers with AVX-512, sixteen at a time. */

#ifndef ANEFORGE_PAIRS_AVX512_H
#define ANEFORGE_PAIRS_AVX512_H

#include <immintrin.h>

#include "kernels.h"
#include "plan.h"

/* One exact operation, as `planar.h` says; of two equal numbers the larger or smaller is the second. */
static inline __attribute__((always_inline)) __m512 combined_lanes(const int pair, __m512 x, __m512 y) {
    switch (pair) {
        case ANEFORGE_ADD: return _mm512_add_ps(x, y);
        case ANEFORGE_SUB: return _mm512_sub_ps(x, y);
        case ANEFORGE_MUL: return _mm512_mul_ps(x, y);
        case ANEFORGE_MAX: return _mm512_max_ps(x, y);
        default: return _mm512_min_ps(x, y);
    }
}

/* Round finite numbers to fp16, ties away from zero: what lies beyond a tie is cut after half a unit was added. That of
 * subnormals is 2^-25, added without rounding up. */
static inline __attribute__((always_inline)) __m256i halves_of_floats(__m512 values) {
    const __m512i sign = _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32((int32_t)0x80000000u));
    const __m512 magnitude = _mm512_abs_ps(values);
    const __m512 normal = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(magnitude), _mm512_set1_epi32(0x1000)));
    const __mmask16 small = _mm512_cmplt_ps_mask(magnitude, _mm512_set1_ps(0x1p-14f));
    const __m512 moved = _mm512_mask_add_round_ps(normal, small, magnitude, _mm512_set1_ps(0x1p-25f),
                                                  _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __mmask16 beyond = _mm512_cmple_ps_mask(_mm512_set1_ps(65536.0f), moved);
    const __m512i limited = _mm512_mask_mov_epi32(_mm512_castps_si512(moved), beyond, _mm512_set1_epi32(0x7F800000));
    return _mm512_cvtps_ph(_mm512_castsi512_ps(_mm512_or_si512(limited, sign)), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

static inline bool has_infinite(__m256i halves) {
    const __m256i magnitude = _mm256_and_si256(halves, _mm256_set1_epi16(0x7FFF));
    return _mm256_cmpge_epu16_mask(magnitude, _mm256_set1_epi16(0x7C00)) != 0;
}

/* Return how many of a run are done: the rest begins with a number that is infinite, or is short. */
static inline __attribute__((always_inline)) int64_t pairs_of(const int pair, const uint16_t *x, const bool x_runs,
                                                              const uint16_t *y, const bool y_runs, uint16_t *out,
                                                              int64_t count) {
    const __m256i x_single = _mm256_set1_epi16((int16_t)*x), y_single = _mm256_set1_epi16((int16_t)*y);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const __m256i a = x_runs ? _mm256_loadu_si256((const __m256i *)(x + i)) : x_single;
        const __m256i b = y_runs ? _mm256_loadu_si256((const __m256i *)(y + i)) : y_single;
        if (has_infinite(a) | has_infinite(b)) return i;
        const __m512 found = combined_lanes(pair, _mm512_cvtph_ps(a), _mm512_cvtph_ps(b));
        _mm256_storeu_si256((__m256i *)(out + i), halves_of_floats(found));
    }
    return i;
}

#define LANE_PAIRS(pair)                                                       \
    case pair:                                                                 \
        if (x_step && y_step) return pairs_of(pair, x, true, y, true, out, count); \
        if (x_step) return pairs_of(pair, x, true, y, false, out, count);      \
        return pairs_of(pair, x, false, y, y_step != 0, out, count);

static int64_t lane_pairs(int64_t pair, const uint16_t *x, int64_t x_step, const uint16_t *y, int64_t y_step,
                          uint16_t *out, int64_t count) {
    switch (pair) {
        LANE_PAIRS(ANEFORGE_ADD)
        LANE_PAIRS(ANEFORGE_SUB)
        LANE_PAIRS(ANEFORGE_MUL)
        LANE_PAIRS(ANEFORGE_MAX)
        LANE_PAIRS(ANEFORGE_MIN)
    }
    return 0;
}

#endif
