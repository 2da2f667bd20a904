/* Lines of a channel as floats with AVX-512, and which magnitudes they have. */

#ifndef ANEFORGE_SPREAD_AVX512_H
#define ANEFORGE_SPREAD_AVX512_H

#include <immintrin.h>

#include "leave_avx512.h"
#include "numbers.h"
#include "plan.h"

/* Magnitudes less one, so that that of 0 is the largest, and magnitudes. */
struct magnitudes {
    __m256i before_least, largest;
};

static inline struct magnitudes no_magnitudes(void) {
    return (struct magnitudes){_mm256_set1_epi16(-1), _mm256_setzero_si256()};
}

static inline uint16_t largest_seen(const struct magnitudes *seen) { return largest_of_sixteen(seen->largest); }

static inline uint16_t before_least_seen(const struct magnitudes *seen) { return least_of_sixteen(seen->before_least); }

/* Numbers as floats, whatever they are: exponent 31 is an ordinary one. */
static inline __m512 decode_lanes(__m256i halves, __m256i magnitude) {
    const __m512 ordinary = _mm512_cvtph_ps(halves);
    const __mmask16 large = _mm256_cmpge_epu16_mask(magnitude, _mm256_set1_epi16(HALF_INFINITY));
    if (!large) return ordinary;
    const __m512i sign = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_sub_epi16(halves, magnitude)), 16);
    const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(_mm512_cvtepu16_epi32(magnitude), 13), _mm512_set1_epi32(112 << 23));
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(_mm512_castps_si512(ordinary), large, normal, sign));
}

/* Lines of numbers that lie side by side, or of every second one. What is not there is read as 0, which counts for neither
 * magnitude. */
static inline __attribute__((always_inline)) struct magnitudes spread_by(const int64_t step, struct lines lines,
                                                                         struct magnitudes seen) {
    for (int64_t i = 0; i < lines.count; i += LANES) {
        const int64_t left = lines.count - i < LANES ? lines.count - i : LANES;
        const __mmask32 there = (__mmask32)((1ull << (step * (left - 1) + 1)) - 1);
        const __mmask16 stored = (__mmask16)((1u << left) - 1);
        const uint16_t *from = lines.from + step * i;
        float *to = lines.to + i;
        for (int64_t line = 0; line < lines.lines; line++, from += lines.from_apart, to += lines.to_apart) {
            const __m256i halves = step == 1 ? _mm256_maskz_loadu_epi16((__mmask16)there, from)
                                             : _mm512_cvtepi32_epi16(_mm512_maskz_loadu_epi16(there, from));
            const __m256i magnitude = _mm256_and_si256(halves, _mm256_set1_epi16(0x7FFF));
            seen.largest = _mm256_max_epu16(seen.largest, magnitude);
            seen.before_least = _mm256_min_epu16(seen.before_least, _mm256_sub_epi16(magnitude, _mm256_set1_epi16(1)));
            _mm512_mask_storeu_ps(to, stored, decode_lanes(halves, magnitude));
        }
    }
    return seen;
}

static inline struct magnitudes spread_lines(struct lines lines, struct magnitudes seen) {
    return lines.step == 1 ? spread_by(1, lines, seen) : spread_by(2, lines, seen);
}

#endif
