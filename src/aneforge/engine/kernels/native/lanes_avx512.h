/* The innermost loops with AVX-512: 8 rows times 3 vectors of 16 lanes stay in 24 registers.
 *
 * One fused multiply-add multiplies, rounds half away from zero and accumulates (see `panel.h`). The mask that drops
 * products comes from a comparison of 16 bytes, which costs half of what a comparison of 16 floats costs.
 */

#ifndef ANEFORGE_LANES_AVX512_H
#define ANEFORGE_LANES_AVX512_H

#include <immintrin.h>

#include "shuffle_x86.h"
#include "strip.h"

typedef uint8_t limit; /* a partner's exponent byte must exceed it */
#define REALS 8 /* doubles in a vector */
#define OWN_DOUBLES 1
#define OWN_PACKING 1
#define OWN_LEAVING 1
#define OWN_SPREADING 1
#define FLOAT_LANES 16
#define OWN_HALVES 1
#define OWN_DOTS 1
#define OWN_CODES 1
#define OWN_PAIRS 1

static inline __attribute__((always_inline)) void step_512(const struct strip *strip, uint32_t k, const int rows,
                                                           const int vectors, const bool guarded, __m512 *sums) {
    const float *const left = strip->left + (size_t)k * (size_t)rows;
    const limit *const limits = (const limit *)strip->limits + (size_t)k * (size_t)rows;
    const size_t offset = strip->offsets[k];
    __m512 right[TILE_VECTORS];
    __m128i exponents[TILE_VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) {
        const size_t place = offset + strip->bases[v];
        right[v] = _mm512_loadu_ps(strip->values + place);
        if (guarded) exponents[v] = _mm_loadu_si128((const __m128i *)(strip->exponents + place));
    }
#pragma GCC unroll 8
    for (int row = 0; row < rows; row++) {
        const __m512 factor = _mm512_set1_ps(left[row]);
        const __m128i least = guarded ? _mm_set1_epi8((char)limits[row]) : _mm_setzero_si128();
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) {
            __m512 *const sum = &sums[row * vectors + v];
            if (guarded) {
                const __mmask16 kept = _mm_cmpgt_epu8_mask(exponents[v], least);
                *sum = _mm512_mask3_fmadd_ps(factor, right[v], *sum, kept);
            } else {
                *sum = _mm512_fmadd_ps(factor, right[v], *sum);
            }
        }
    }
}

/* With few rows several steps go on at a time (`ways`), so that additions do not wait for each other. */
static inline __attribute__((always_inline)) void multiply_512(const struct strip *strip, const int rows,
                                                               const int vectors, const int ways) {
    __m512 sums[PANEL_ROWS * TILE_VECTORS];
#pragma GCC unroll 24
    for (int i = 0; i < rows * vectors * ways; i++) sums[i] = _mm512_set1_ps(FLOAT_MAGIC);
    int32_t t = 0;
    for (; t + ways <= strip->plain_count; t += ways)
#pragma GCC unroll 4
        for (int way = 0; way < ways; way++)
            step_512(strip, strip->plain[t + way], rows, vectors, false, sums + way * rows * vectors);
    for (; t < strip->plain_count; t++) step_512(strip, strip->plain[t], rows, vectors, false, sums);
    for (t = 0; t + ways <= strip->guarded_count; t += ways)
#pragma GCC unroll 4
        for (int way = 0; way < ways; way++)
            step_512(strip, strip->guarded[t + way], rows, vectors, true, sums + way * rows * vectors);
    for (; t < strip->guarded_count; t++) step_512(strip, strip->guarded[t], rows, vectors, true, sums);
    const __m512i magic = _mm512_set1_epi32((int32_t)FLOAT_MAGIC_BITS);
#pragma GCC unroll 8
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) {
            int32_t *const place = strip->totals + row * TILE_LANES + v * LANES;
            __m512i total = _mm512_loadu_si512(place);
#pragma GCC unroll 4
            for (int way = 0; way < ways; way++) {
                const __m512i bits = _mm512_castps_si512(sums[way * rows * vectors + row * vectors + v]);
                total = _mm512_add_epi32(total, _mm512_sub_epi32(bits, magic));
            }
            _mm512_storeu_si512(place, total);
        }
}

#define MULTIPLY(rows, vectors, ways)                                                           \
    static __attribute__((noinline)) void multiply_##rows##_##vectors(const struct strip *strip) { \
        multiply_512(strip, rows, vectors, ways);                                               \
    }
MULTIPLY(8, 3, 1)
MULTIPLY(8, 2, 1)
MULTIPLY(8, 1, 1)
MULTIPLY(4, 3, 1)
MULTIPLY(4, 2, 1)
MULTIPLY(4, 1, 2)
MULTIPLY(2, 3, 2)
MULTIPLY(2, 2, 2)
MULTIPLY(2, 1, 4)
MULTIPLY(1, 3, 4)
MULTIPLY(1, 2, 4)
MULTIPLY(1, 1, 4)

static void multiply_floats(const struct strip *strip) {
    static void (*const kernels[4][TILE_VECTORS])(const struct strip *) = {
        {multiply_1_1, multiply_1_2, multiply_1_3},
        {multiply_2_1, multiply_2_2, multiply_2_3},
        {multiply_4_1, multiply_4_2, multiply_4_3},
        {multiply_8_1, multiply_8_2, multiply_8_3},
    };
    const int row_choice = strip->rows == 8 ? 3 : strip->rows == 4 ? 2 : strip->rows - 1;
    kernels[row_choice][strip->vectors - 1](strip);
}

/* Sort the steps first ... last - 1 into those at which nothing can be dropped and the others; steps at which one side
 * is all zeros are in neither. The lists have room for 16 more than there are steps. */
static void sort_steps(struct strip *strip, const uint8_t *left_least, const uint8_t *right_least, int32_t first,
                       int32_t last, uint32_t *plain, uint32_t *guarded) {
    const __m512i count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    int32_t plain_count = 0, guarded_count = 0;
    for (int32_t k = first; k < last; k += LANES) {
        const __mmask16 there = (__mmask16)(last - k >= LANES ? 0xFFFF : (1 << (last - k)) - 1);
        const __m128i sum = _mm_adds_epu8(_mm_maskz_loadu_epi8(there, left_least + k),
                                          _mm_maskz_loadu_epi8(there, right_least + k));
        const __mmask16 kept = _mm_mask_cmpge_epu8_mask(there, sum, _mm_set1_epi8((char)KEPT_FROM));
        const __mmask16 zero = _mm_mask_cmpge_epu8_mask(there, sum, _mm_set1_epi8((char)ZERO_FROM));
        const __mmask16 open = (__mmask16)(there & ~kept), sure = (__mmask16)(kept & ~zero);
        const __m512i steps = _mm512_add_epi32(_mm512_set1_epi32(k), count);
        _mm512_storeu_si512(plain + plain_count, _mm512_maskz_compress_epi32(sure, steps));
        _mm512_storeu_si512(guarded + guarded_count, _mm512_maskz_compress_epi32(open, steps));
        plain_count += __builtin_popcount(sure);
        guarded_count += __builtin_popcount(open);
    }
    strip->plain = plain;
    strip->plain_count = plain_count;
    strip->guarded = guarded;
    strip->guarded_count = guarded_count;
}

typedef float some_floats __attribute__((vector_size(64), aligned(4)));
typedef int32_t some_words __attribute__((vector_size(64), aligned(4)));

static inline __m512 spread_float(float value) { return _mm512_set1_ps(value); }

static inline __m512 fused_floats(__m512 x, __m512 y, __m512 sum) { return _mm512_fmadd_ps(x, y, sum); }

/* Sixteen numbers of the right operand: floats, and exponent bytes. */
static inline void convert_lanes(const uint16_t *halves, float *values, uint8_t *exponents) {
    const __m256i all = _mm256_loadu_si256((const __m256i *)halves);
    const __m256i short_magnitude = _mm256_and_si256(all, _mm256_set1_epi16(0x7FFF));
    const __m512i magnitude = _mm512_cvtepu16_epi32(short_magnitude);
    const __m512i sign = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_andnot_si256(_mm256_set1_epi16(0x7FFF), all)), 16);
    const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(magnitude, 13), _mm512_set1_epi32(112 << 23));
    const __m512 subnormal = _mm512_mul_ps(_mm512_cvtepi32_ps(magnitude), _mm512_set1_ps(0x1p-24f));
    const __mmask16 small = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x400));
    const __m512i bits = _mm512_mask_mov_epi32(normal, small, _mm512_castps_si512(subnormal));
    _mm512_storeu_ps(values, _mm512_castsi512_ps(_mm512_or_si512(bits, sign)));
    const __m256i field = _mm256_max_epu16(_mm256_srli_epi16(short_magnitude, 10), _mm256_set1_epi16(1));
    const __mmask16 zero = _mm256_testn_epi16_mask(short_magnitude, short_magnitude);
    const __m256i biased = _mm256_add_epi16(field, _mm256_set1_epi16(EXPONENT_BIAS - 15));
    const __m256i bytes = _mm256_mask_mov_epi16(biased, zero, _mm256_set1_epi16(EXPONENT_OF_ZERO));
    _mm_storeu_si128((__m128i *)exponents, _mm256_cvtepi16_epi8(bytes));
}

/* Sixteen numbers of the left operand, as `panel.h` says. */
static inline void store_lanes(const uint16_t *halves, float *values, limit *limits) {
    const __m256i all = _mm256_loadu_si256((const __m256i *)halves);
    const __m256i short_magnitude = _mm256_and_si256(all, _mm256_set1_epi16(0x7FFF));
    const __m512i magnitude = _mm512_cvtepu16_epi32(short_magnitude);
    const __m512i sign = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_andnot_si256(_mm256_set1_epi16(0x7FFF), all)), 16);
    const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(magnitude, 13), _mm512_set1_epi32((128 << 23) + 1));
    const __m512i subnormal =
        _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(magnitude), _mm512_set1_ps(0x1p-8f)));
    const __mmask16 small = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x400));
    const __mmask16 zero = _mm512_testn_epi32_mask(magnitude, magnitude);
    const __m512i moved = _mm512_mask_add_epi32(normal, small, subnormal, _mm512_set1_epi32(1));
    const __m512i bits = _mm512_mask_mov_epi32(moved, zero, _mm512_set1_epi32((int32_t)STORED_ZERO));
    _mm512_storeu_ps(values, _mm512_castsi512_ps(_mm512_or_si512(bits, sign)));
    const __m256i field = _mm256_max_epu16(_mm256_srli_epi16(short_magnitude, 10), _mm256_set1_epi16(1));
    const __m256i least = _mm256_sub_epi16(_mm256_set1_epi16(DROPPED_UP_TO + EXPONENT_BIAS + 15), field);
    _mm_storeu_si128((__m128i *)limits, _mm256_cvtepi16_epi8(_mm256_maskz_mov_epi16((__mmask16)~zero, least)));
}

/* Eight numbers as `half_of_double` rounds them; none is NaN. */
static inline __m128i halves_of_eight(__m512d values) {
    const __m512d magnitude = _mm512_abs_pd(values);
    const __m512d least = _mm512_max_pd(_mm512_getexp_pd(magnitude), _mm512_set1_pd(LEAST_EXPONENT));
    const __m512d exponent = _mm512_min_pd(least, _mm512_set1_pd(16));
    const __m512d scaled = _mm512_scalef_pd(magnitude, _mm512_sub_pd(_mm512_set1_pd(10), exponent));
    const __m256i whole = _mm512_cvttpd_epi32(_mm512_add_pd(scaled, _mm512_set1_pd(0.5)));
    const __m256i field = _mm512_cvttpd_epi32(_mm512_sub_pd(exponent, _mm512_set1_pd(LEAST_EXPONENT)));
    const __m256i rounded = _mm256_add_epi32(whole, _mm256_slli_epi32(field, 10));
    const __m256i finite = _mm256_min_epu32(rounded, _mm256_set1_epi32(HALF_INFINITY));
    const __mmask8 negative = _mm512_movepi64_mask(_mm512_castpd_si512(values));
    return _mm256_cvtepi32_epi16(_mm256_mask_or_epi32(finite, negative, finite, _mm256_set1_epi32(0x8000)));
}

static inline void halves_of_sixteen(const double *values, uint16_t *halves) {
    _mm_storeu_si128((__m128i *)halves, halves_of_eight(_mm512_loadu_pd(values)));
    _mm_storeu_si128((__m128i *)(halves + 8), halves_of_eight(_mm512_loadu_pd(values + 8)));
}

/* Sixteen sums on their way out, as `half_of_units` has them. */
static inline void leave_lanes(const int32_t *units, uint16_t *halves) {
    const __m512i given = _mm512_loadu_si512(units);
    const __m512i magnitude = _mm512_abs_epi32(given);
    const __mmask16 long_ones = _mm512_cmpgt_epu32_mask(magnitude, _mm512_set1_epi32(0xFFFFFF));
    const __m512i kept = _mm512_mask_and_epi32(magnitude, long_ones, magnitude, _mm512_set1_epi32(~127));
    const __m512i bits = _mm512_castps_si512(_mm512_cvtepi32_ps(kept));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x1000)), 13);
    const __m512i normal = _mm512_sub_epi32(rounded, _mm512_set1_epi32((112 + 16) << 10));
    const __mmask16 small = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(4));
    const __m512i finite = _mm512_mask_slli_epi32(normal, small, magnitude, 8);
    const __mmask16 beyond = _mm512_cmpge_epi32_mask(finite, _mm512_set1_epi32(HALF_EDGE));
    const __m512i limited = _mm512_mask_mov_epi32(finite, beyond, _mm512_set1_epi32(HALF_INFINITY));
    const __m512i sign = _mm512_slli_epi32(_mm512_srli_epi32(given, 31), 15);
    _mm256_storeu_si256((__m256i *)halves, _mm512_cvtepi32_epi16(_mm512_or_si512(limited, sign)));
}

#define PACKED_STEPS 32

/* Transpose four squares of eight by eight numbers: line i of square j becomes column i. */
static inline __attribute__((always_inline)) void transpose_four(__m512i lines[8]) {
    __m512i pairs[8], fours[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        pairs[2 * i] = _mm512_unpacklo_epi16(lines[2 * i], lines[2 * i + 1]);
        pairs[2 * i + 1] = _mm512_unpackhi_epi16(lines[2 * i], lines[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            fours[4 * i + 2 * j] = _mm512_unpacklo_epi32(pairs[4 * i + j], pairs[4 * i + 2 + j]);
            fours[4 * i + 2 * j + 1] = _mm512_unpackhi_epi32(pairs[4 * i + j], pairs[4 * i + 2 + j]);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        lines[2 * i] = _mm512_unpacklo_epi64(fours[i], fours[4 + i]);
        lines[2 * i + 1] = _mm512_unpackhi_epi64(fours[i], fours[4 + i]);
    }
}

/* Sixteen numbers of two steps, eight apart, as `panel.h` says; none is infinite. */
static inline void store_steps(__m256i halves, int32_t step, int32_t steps, float *values) {
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(65536.0f));
    const __m512i bits = _mm512_castps_si512(scaled);
    const __mmask16 some = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x7FFFFFFF));
    const __m512i unit = _mm512_mask_mov_epi32(_mm512_set1_epi32((int32_t)STORED_ZERO), some, _mm512_set1_epi32(1));
    const __m512i moved = _mm512_add_epi32(bits, unit);
    if (step < steps) _mm256_storeu_si256((__m256i *)(values + step * 8), _mm512_castsi512_si256(moved));
    if (step + 8 < steps)
        _mm256_storeu_si256((__m256i *)(values + (step + 8) * 8), _mm512_extracti64x4_epi64(moved, 1));
}

static inline float largest_of_eight(__m256 x) {
    const __m128 fours = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 twos = _mm_max_ps(fours, _mm_movehl_ps(fours, fours));
    return _mm_cvtss_f32(_mm_max_ss(twos, _mm_movehdup_ps(twos)));
}

/* Norms of one piece of a full panel, two steps at a time: the largest sum of magnitudes of a row, and of squares. */
static void measure_eight(const float *values, int32_t steps, float *most, float *most_squares) {
    __m512 sums = _mm512_setzero_ps(), squares = _mm512_setzero_ps();
    for (int32_t k = 0; k < steps; k += 2) {
        const __m512 here = _mm512_maskz_loadu_ps(k + 1 < steps ? 0xFFFF : 0xFF, values + k * 8);
        sums = _mm512_add_ps(sums, _mm512_abs_ps(here));
        squares = _mm512_fmadd_ps(here, here, squares);
    }
    *most = largest_of_eight(_mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps(sums, 1)));
    *most_squares = largest_of_eight(_mm256_add_ps(_mm512_castps512_ps256(squares), _mm512_extractf32x8_ps(squares, 1)));
}

/* Some steps of eight rows of fp16 numbers that lie side by side; false where one is infinite. */
static bool pack_eight(const uint16_t *rows, int64_t row_step, int32_t count, float *values, limit *limits,
                       uint8_t *least, uint16_t *const largest[2]) {
    const __m512i one = _mm512_set1_epi16(1);
    for (int32_t first = 0; first < count; first += PACKED_STEPS) {
        const int32_t steps = count - first < PACKED_STEPS ? count - first : PACKED_STEPS;
        const __mmask32 there = steps < PACKED_STEPS ? (1u << steps) - 1 : 0xFFFFFFFFu;
        __m512i lines[8], most[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()}, fewest = _mm512_set1_epi16(-1);
#pragma GCC unroll 8
        for (int row = 0; row < 8; row++) {
            lines[row] = _mm512_maskz_loadu_epi16(there, rows + row * row_step + first);
            /* The next eight rows come from far away, while these are multiplied. */
            _mm_prefetch((const char *)(rows + (row + 8) * row_step + first), _MM_HINT_T1);
            const __m512i magnitude = _mm512_and_si512(lines[row], _mm512_set1_epi16(0x7FFF));
            most[row / 4] = _mm512_max_epu16(most[row / 4], magnitude);
            fewest = _mm512_min_epu16(fewest, _mm512_sub_epi16(magnitude, one)); /* that of zero is the largest */
        }
        if (_mm512_cmpge_epu16_mask(_mm512_max_epu16(most[0], most[1]), _mm512_set1_epi16(0x7C00))) return false;
        for (int half = 0; half < 2; half++) _mm512_mask_storeu_epi16(largest[half] + first, there, most[half]);
        const __m512i field = _mm512_max_epu16(_mm512_srli_epi16(_mm512_add_epi16(fewest, one), 10), one);
        const __m512i biased = _mm512_add_epi16(field, _mm512_set1_epi16(EXPONENT_BIAS - 15));
        const __mmask32 zeros = _mm512_cmpeq_epi16_mask(fewest, _mm512_set1_epi16(-1));
        const __m512i exponents = _mm512_mask_mov_epi16(biased, zeros, _mm512_set1_epi16(EXPONENT_OF_ZERO));
        _mm256_mask_storeu_epi8(least + first, there, _mm512_cvtepi16_epi8(exponents));
        transpose_four(lines);
        float *const to = values + (size_t)first * 8;
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) { /* steps i, i + 8, i + 16 and i + 24 */
            store_steps(_mm512_castsi512_si256(lines[i]), i, steps, to);
            store_steps(_mm512_extracti64x4_epi64(lines[i], 1), i + 16, steps, to);
            const __m512i magnitude = _mm512_and_si512(lines[i], _mm512_set1_epi16(0x7FFF));
            const __m512i own = _mm512_max_epu16(_mm512_srli_epi16(magnitude, 10), one);
            const __m512i bound = _mm512_sub_epi16(_mm512_set1_epi16(DROPPED_UP_TO + EXPONENT_BIAS + 15), own);
            const __mmask32 some = _mm512_test_epi16_mask(magnitude, magnitude);
            const __m256i bytes = _mm512_cvtepi16_epi8(_mm512_maskz_mov_epi16(some, bound));
            limit *const at = limits + (size_t)(first + i) * 8;
            if (i < steps) _mm_storel_epi64((__m128i *)at, _mm256_castsi256_si128(bytes));
            if (i + 8 < steps) _mm_storeh_pd((double *)(at + 64), _mm_castsi128_pd(_mm256_castsi256_si128(bytes)));
            if (i + 16 < steps) _mm_storel_epi64((__m128i *)(at + 128), _mm256_extracti128_si256(bytes, 1));
            if (i + 24 < steps)
                _mm_storeh_pd((double *)(at + 192), _mm_castsi128_pd(_mm256_extracti128_si256(bytes, 1)));
        }
    }
    return true;
}

#include "doubles_avx512.h"
#include "leave_avx512.h"

#endif
