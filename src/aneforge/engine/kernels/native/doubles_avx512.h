/* Sums that are too large for float32, with AVX-512.
 *
 * In double a vector has half the lanes. So a step at which every product of four rows stays below 64 is still multiplied in
 * float32: one fused operation with 1.5 * 2^23 rounds the product (see `panel.h`), and its bits are added as integers, modulo
 * 2^32. Other steps go in double, and those at which products may be dropped.
 */

#ifndef ANEFORGE_DOUBLES_AVX512_H
#define ANEFORGE_DOUBLES_AVX512_H

#include <immintrin.h>

#include "strip.h"

/* Sums in double: four rows times three vectors, each in two halves. */
#define HALF (LANES / 2)
#define DOUBLE_ROWS 4

/* The factors of some rows at one step, as `doubles.h` has them: the conversion of `panel.h` undone. */
static inline void widen_rows(const float *stored, const int rows, double *factors) {
    const __m128i bits = rows == DOUBLE_ROWS ? _mm_loadu_si128((const __m128i *)stored)
                                             : _mm_castps_si128(_mm_load_ss(stored));
    const __m128 plain = _mm_castsi128_ps(_mm_sub_epi32(bits, _mm_set1_epi32(1)));
    _mm256_storeu_pd(factors, _mm256_mul_pd(_mm256_cvtps_pd(plain), _mm256_set1_pd(1.0 + 0x1p-41)));
}

static inline __attribute__((always_inline)) void wide_step_512(const struct strip *strip, uint32_t k, int32_t first_row,
                                                                const int rows, const int vectors, const bool guarded,
                                                                __m512d *sums) {
    const size_t at = (size_t)k * (size_t)strip->rows + (size_t)first_row, offset = strip->offsets[k];
    const limit *const limits = (const limit *)strip->limits + at;
    double factors[DOUBLE_ROWS];
    widen_rows(strip->left + at, rows, factors);
#pragma GCC unroll 6
    for (int half = 0; half < 2 * vectors; half++) {
        const size_t place = offset + strip->bases[half / 2] + (size_t)(half % 2 * HALF);
        const __m512d right = _mm512_cvtps_pd(_mm256_loadu_ps(strip->values + place));
        const __m128i exponents = guarded ? _mm_loadl_epi64((const __m128i *)(strip->exponents + place)) : _mm_setzero_si128();
#pragma GCC unroll 4
        for (int row = 0; row < rows; row++) {
            const __m512d factor = _mm512_set1_pd(factors[row]);
            __m512d *const sum = &sums[row * 2 * vectors + half];
            if (guarded) {
                const __m128i least = _mm_set1_epi8((char)limits[row]);
                *sum = _mm512_mask3_fmadd_pd(factor, right, *sum, (__mmask8)_mm_cmpgt_epu8_mask(exponents, least));
            } else {
                *sum = _mm512_fmadd_pd(factor, right, *sum);
            }
        }
    }
}

static inline __attribute__((always_inline)) void wide_multiply_512(const struct strip *strip, int32_t first_row,
                                                                    const int rows, const int vectors) {
    __m512d sums[DOUBLE_ROWS * 2 * TILE_VECTORS];
#pragma GCC unroll 24
    for (int i = 0; i < rows * 2 * vectors; i++) sums[i] = _mm512_set1_pd(DOUBLE_MAGIC);
    for (int32_t t = 0; t < strip->plain_count; t++)
        wide_step_512(strip, strip->plain[t], first_row, rows, vectors, false, sums);
    for (int32_t t = 0; t < strip->guarded_count; t++)
        wide_step_512(strip, strip->guarded[t], first_row, rows, vectors, true, sums);
    /* The lower half of the bits is the sum, modulo 2^32; no sum that is used passes 2^31. */
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 6
        for (int half = 0; half < 2 * vectors; half++) {
            __m256i *const place = (__m256i *)(strip->totals + (first_row + row) * TILE_LANES + half * HALF);
            const __m256i sum = _mm512_cvtepi64_epi32(_mm512_castpd_si512(sums[row * 2 * vectors + half]));
            _mm256_storeu_si256(place, _mm256_add_epi32(_mm256_loadu_si256(place), sum));
        }
}

static inline __attribute__((always_inline)) void wide_rows_512(const struct strip *strip, const int vectors) {
    int32_t row = 0;
    for (; row + DOUBLE_ROWS <= strip->rows; row += DOUBLE_ROWS) wide_multiply_512(strip, row, DOUBLE_ROWS, vectors);
    for (; row < strip->rows; row++) wide_multiply_512(strip, row, 1, vectors);
}

static void multiply_doubles(const struct strip *strip) {
    if (strip->vectors == 3) wide_rows_512(strip, 3);
    if (strip->vectors == 2) wide_rows_512(strip, 2);
    if (strip->vectors == 1) wide_rows_512(strip, 1);
}

/* Largest magnitude at one step, over the vectors of a tile. */
static inline float largest_in_tile(const float *values, const uint32_t *bases, int32_t vectors) {
    __m512 all = _mm512_abs_ps(_mm512_loadu_ps(values + bases[0]));
    for (int32_t v = 1; v < vectors; v++) all = _mm512_max_ps(all, _mm512_abs_ps(_mm512_loadu_ps(values + bases[v])));
    return _mm512_reduce_max_ps(all);
}

/* Products of some rows at steps at which each stays below 64. */
static inline __attribute__((always_inline)) void multiply_singly(const struct strip *strip, const uint32_t *steps,
                                                                  int32_t count, int32_t first_row, const int vectors) {
    const __m512 magic = _mm512_set1_ps(FLOAT_MAGIC);
    __m512i sums[DOUBLE_ROWS * TILE_VECTORS];
#pragma GCC unroll 12
    for (int i = 0; i < DOUBLE_ROWS * vectors; i++) sums[i] = _mm512_setzero_si512();
    for (int32_t t = 0; t < count; t++) {
        const float *const left = strip->left + (size_t)steps[t] * (size_t)strip->rows + first_row;
        const float *const values = strip->values + strip->offsets[steps[t]];
        __m512 right[TILE_VECTORS];
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) right[v] = _mm512_loadu_ps(values + strip->bases[v]);
#pragma GCC unroll 4
        for (int row = 0; row < DOUBLE_ROWS; row++)
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++) {
                const __m512 rounded = _mm512_fmadd_ps(_mm512_set1_ps(left[row]), right[v], magic);
                sums[row * vectors + v] = _mm512_add_epi32(sums[row * vectors + v], _mm512_castps_si512(rounded));
            }
    }
    const __m512i magics = _mm512_set1_epi32((int32_t)(FLOAT_MAGIC_BITS * (uint32_t)count));
#pragma GCC unroll 4
    for (int row = 0; row < DOUBLE_ROWS; row++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++) {
            int32_t *const place = strip->totals + (first_row + row) * TILE_LANES + v * LANES;
            const __m512i sum = _mm512_sub_epi32(sums[row * vectors + v], magics);
            _mm512_storeu_si512(place, _mm512_add_epi32(_mm512_loadu_si512(place), sum));
        }
}

/* Steps of four rows at which nothing can be dropped: those whose products all stay below 64, and the others. */
struct split {
    uint32_t *single, *in_double;
    int32_t single_count, double_count;
};

/* Sort the steps first ... last - 1 as `sort_steps` does, and those at which nothing can be dropped for each four rows. */
static void split_steps(struct strip *strip, const uint8_t *left_least, const uint8_t *right_least,
                        const float *right_largest, int32_t first, int32_t last, uint32_t *guarded, struct split *splits) {
    const __m512i count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512 reach = _mm512_set1_ps((float)FLOAT_REACH * 0x1p-16f); /* far enough below 64 for all roundings */
    const uint16_t *const largest[2] = {strip->largest[0], strip->largest[1]};
    uint32_t *const singles[2] = {splits[0].single, splits[1].single};
    uint32_t *const doubles[2] = {splits[0].in_double, splits[1].in_double};
    int32_t guarded_count = 0, single_counts[2] = {0}, double_counts[2] = {0};
    for (int32_t k = first; k < last; k += LANES) {
        const __mmask16 there = (__mmask16)(last - k >= LANES ? 0xFFFF : (1 << (last - k)) - 1);
        const __m128i sum = _mm_adds_epu8(_mm_maskz_loadu_epi8(there, left_least + k),
                                          _mm_maskz_loadu_epi8(there, right_least + k));
        const __mmask16 kept = _mm_mask_cmpge_epu8_mask(there, sum, _mm_set1_epi8((char)KEPT_FROM));
        const __mmask16 sure = _mm_mask_cmplt_epu8_mask(kept, sum, _mm_set1_epi8((char)ZERO_FROM));
        const __mmask16 open = (__mmask16)(there & ~kept);
        const __m512i steps = _mm512_add_epi32(_mm512_set1_epi32(k), count);
        const __m512 right = _mm512_maskz_loadu_ps(there, right_largest + k);
        if (open) { /* seldom, with numbers as large */
            _mm512_storeu_si512(guarded + guarded_count, _mm512_maskz_compress_epi32(open, steps));
            guarded_count += __builtin_popcount(open);
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            const __m512 left = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, largest[half] + k));
            const __mmask16 small = _mm512_mask_cmp_ps_mask(sure, _mm512_mul_ps(left, right), reach, _CMP_LT_OQ);
            const __mmask16 large = (__mmask16)(sure & ~small);
            _mm512_storeu_si512(singles[half] + single_counts[half], _mm512_maskz_compress_epi32(small, steps));
            _mm512_storeu_si512(doubles[half] + double_counts[half], _mm512_maskz_compress_epi32(large, steps));
            single_counts[half] += __builtin_popcount(small);
            double_counts[half] += __builtin_popcount(large);
        }
    }
    strip->guarded = guarded;
    strip->guarded_count = guarded_count;
    for (int half = 0; half < 2; half++) {
        splits[half].single_count = single_counts[half];
        splits[half].double_count = double_counts[half];
    }
}

static inline __attribute__((always_inline)) void multiply_split(struct strip *strip, const struct split *splits,
                                                                 const int vectors) {
    for (int32_t row = 0; row < strip->rows; row += DOUBLE_ROWS) {
        const struct split *const split = &splits[row / DOUBLE_ROWS];
        multiply_singly(strip, split->single, split->single_count, row, vectors);
        strip->plain = split->in_double;
        strip->plain_count = split->double_count;
        wide_multiply_512(strip, row, DOUBLE_ROWS, vectors);
    }
}

/* Products of a strip whose steps are split. */
static __attribute__((noinline)) void multiply_both(struct strip *strip, const struct split *splits) {
    if (strip->vectors == 3) multiply_split(strip, splits, 3);
    if (strip->vectors == 2) multiply_split(strip, splits, 2);
    if (strip->vectors == 1) multiply_split(strip, splits, 1);
}

#endif
