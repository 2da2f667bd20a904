/* A vector times the columns of a matrix whose steps lie side by side, with AVX-512: nothing of the matrix is stored again.
 *
 * Thirty-two steps of a column are read at a time, and steps that are 32 apart share a slot: a lane of one of two sums. A
 * slot's part of the vector, as a sum of magnitudes, times the largest magnitude that it met in the column bounds its
 * sum; all slots together bound the total. Where a bound does not prove the range (see `tile.h`), or a number is
 * infinite, the caller goes the general way.
 */

#ifndef ANEFORGE_DOTS_AVX512_H
#define ANEFORGE_DOTS_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "numbers.h"
#include "plan.h"

#define SLOTS 32
#define STRETCH 1024 /* steps between two looks at the bounds; a multiple of SLOTS */

/* The vector, with zeros up to a multiple of SLOTS. */
struct dots {
    int64_t batch;    /* which one stands here; -1 for none */
    bool finite;
    float *values;    /* [step] as panel.h says */
    uint16_t *limits; /* [step] what the magnitude of a partner must not be below */
    float *norms;     /* [stretch][slot] sums of magnitudes */
};

static inline size_t whole_slots(int64_t depth) { return ((size_t)depth + SLOTS - 1) / SLOTS * SLOTS; }

static inline size_t stretches(int64_t depth) { return ((size_t)depth + STRETCH - 1) / STRETCH; }

static void set_dots(const struct plan *plan, int64_t batch, struct dots *dots) {
    const uint16_t *const left = (const uint16_t *)plan->left + plan->left_places[batch];
    const size_t count = whole_slots(plan->depth);
    uint16_t largest = 0;
    memset(dots->norms, 0, stretches(plan->depth) * SLOTS * sizeof(float));
    for (size_t k = 0; k < count; k++) {
        const uint16_t half = k < (size_t)plan->depth ? left[(int64_t)k * plan->left_step] : 0;
        const uint16_t magnitude = half & 0x7FFFu, field = magnitude >> 10;
        const float scaled = decoded(half) * 65536.0f;
        const int32_t least = DROPPED_UP_TO + 31 - (field ? field : 1); /* a partner's field, which counts from 1 */
        largest = magnitude > largest ? magnitude : largest;
        dots->values[k] = float_of_bits(magnitude ? bits_of_float(scaled) + 1 : STORED_ZERO);
        dots->limits[k] = (uint16_t)(magnitude && least > 1 ? least << 10 : 0);
        dots->norms[k / STRETCH * SLOTS + k % SLOTS] += fabsf(scaled);
    }
    dots->finite = largest < HALF_INFINITY;
    dots->batch = batch;
}

struct dot_sums {
    __m512 low, high;   /* of the even and the odd sixteen steps */
    __m512i largest;    /* [slot] magnitudes */
};

static inline __attribute__((always_inline)) void add_slots(const struct dots *dots, size_t k, __m512i halves,
                                                            struct dot_sums *sums) {
    const __m512i magnitudes = _mm512_and_si512(halves, _mm512_set1_epi16(0x7FFF));
    const __mmask32 kept = _mm512_cmpge_epu16_mask(magnitudes, _mm512_loadu_si512(dots->limits + k));
    const __m512 first = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
    const __m512 second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
    sums->largest = _mm512_max_epu16(sums->largest, magnitudes);
    sums->low = _mm512_mask3_fmadd_ps(first, _mm512_loadu_ps(dots->values + k), sums->low, (__mmask16)kept);
    sums->high = _mm512_mask3_fmadd_ps(second, _mm512_loadu_ps(dots->values + k + LANES), sums->high, (__mmask16)(kept >> 16));
}

/* Add the sums of a stretch to a total of sixteen lanes, and what bounds them to `reach`; false where nothing does. */
static inline __attribute__((always_inline)) bool end_stretch(const float *norms, const struct dot_sums *sums,
                                                              __m512i *total, __m512 *reach) {
    const __m512i magic = _mm512_set1_epi32((int32_t)FLOAT_MAGIC_BITS);
    const __m512 first = _mm512_mul_ps(_mm512_loadu_ps(norms), _mm512_cvtph_ps(_mm512_castsi512_si256(sums->largest)));
    const __m512 second =
        _mm512_mul_ps(_mm512_loadu_ps(norms + LANES), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(sums->largest, 1)));
    const __m512 most = _mm512_set1_ps((float)(FLOAT_REACH - STRETCH) / NORM_SLACK);
    *reach = _mm512_add_ps(*reach, _mm512_add_ps(first, second));
    *total = _mm512_add_epi32(*total, _mm512_sub_epi32(_mm512_castps_si512(sums->low), magic));
    *total = _mm512_add_epi32(*total, _mm512_sub_epi32(_mm512_castps_si512(sums->high), magic));
    /* An infinite partner makes its bound infinite or, with a norm of 0, not a number: neither is below. */
    return (_mm512_cmplt_ps_mask(first, most) & _mm512_cmplt_ps_mask(second, most)) == 0xFFFF;
}

#define COLUMNS_AT_A_TIME 4

/* Add the products of the vector and some columns to totals. Return what bounds the magnitudes of all partial sums, in
 * units; infinity where nothing does. */
static inline __attribute__((always_inline)) double add_columns(const struct plan *plan, const struct dots *dots,
                                                                const uint16_t *column, const int columns,
                                                                int32_t *totals) {
    __m512i total[COLUMNS_AT_A_TIME];
    __m512 reach[COLUMNS_AT_A_TIME];
    for (int c = 0; c < columns; c++) total[c] = _mm512_setzero_si512(), reach[c] = _mm512_setzero_ps();
    const size_t depth = (size_t)plan->depth;
    bool proved = true;
    for (size_t first = 0; first < depth; first += STRETCH) {
        const size_t end = first + STRETCH < depth ? first + STRETCH : depth, whole = end / SLOTS * SLOTS;
        struct dot_sums sums[COLUMNS_AT_A_TIME];
        const __m512 magic = _mm512_set1_ps(FLOAT_MAGIC);
        for (int c = 0; c < columns; c++) sums[c] = (struct dot_sums){magic, magic, _mm512_setzero_si512()};
        for (size_t k = first; k < whole; k += SLOTS)
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++)
                add_slots(dots, k, _mm512_loadu_si512(column + c * plan->right_column + k), &sums[c]);
        const __mmask32 rest = (__mmask32)((1ull << (end - whole)) - 1);
        for (int c = 0; c < columns && rest; c++)
            add_slots(dots, whole, _mm512_maskz_loadu_epi16(rest, column + c * plan->right_column + whole), &sums[c]);
        for (int c = 0; c < columns; c++)
            proved &= end_stretch(dots->norms + first / STRETCH * SLOTS, &sums[c], &total[c], &reach[c]);
    }
    double most = 0;
    for (int c = 0; c < columns; c++) {
        totals[c] += _mm512_reduce_add_epi32(total[c]);
        most = fmax(most, (double)_mm512_reduce_add_ps(reach[c]));
    }
    return proved ? most * NORM_SLACK + (double)plan->depth : INFINITY;
}

/* ... and of any number of columns. */
static double add_dots(const struct plan *plan, const struct dots *dots, const uint16_t *column, int64_t columns,
                       int32_t *totals) {
    double reach = 0;
    int64_t c = 0;
    for (; c + COLUMNS_AT_A_TIME <= columns; c += COLUMNS_AT_A_TIME)
        reach = fmax(reach, add_columns(plan, dots, column + c * plan->right_column, COLUMNS_AT_A_TIME, totals + c));
    for (; c < columns; c++)
        reach = fmax(reach, add_columns(plan, dots, column + c * plan->right_column, 1, totals + c));
    return reach;
}

#endif
