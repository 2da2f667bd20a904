/* Sums in double precision, for products that are too large for float32: exact up to 2^35 instead of 64.
 *
 * A factor is v * 2^16 * (1 + 2^-41): what lay halfway lies beyond, nothing else is moved across a multiple of one half,
 * and below 2^31 units the move is far below one half. That holds whether multiplication and addition are fused or
 * rounded apart, so plain C does as well as any path's own instructions.
 */

#ifndef ANEFORGE_DOUBLES_H
#define ANEFORGE_DOUBLES_H

#include "numbers.h"
#include "strip.h"

#if !OWN_DOUBLES

/* Undo the conversion of `panel.h` for steps first ... last - 1: the factors in double, and the magnitudes from which on
 * their partners are kept. */
static void widen(const float *stored, int32_t rows, int32_t first, int32_t last, double *factors, double *kept_from) {
    for (int64_t i = (int64_t)first * rows; i < (int64_t)last * rows; i++) {
        const uint32_t bits = bits_of_float(stored[i]) - 1;
        const int32_t found = (int32_t)((bits & 0x7FFFFFFFu) >> 23) - 127 - 16;
        const int32_t exponent = found < LEAST_EXPONENT ? LEAST_EXPONENT : found;
        const int32_t least = DROPPED_UP_TO + 1 - exponent;
        kept_from[i] = least <= LEAST_EXPONENT ? 0.0 : double_of_bits((uint64_t)(1023 + least) << 52);
        factors[i] = (double)float_of_bits(bits) * (1.0 + 0x1p-41);
    }
}

#define DOUBLE_VECTORS (LANES / REALS)

typedef double doubles __attribute__((vector_size(REALS * 8)));
typedef int64_t longs __attribute__((vector_size(REALS * 8)));
typedef float floats __attribute__((vector_size(REALS * 4), aligned(4)));

/* All steps of a list for some rows and one vector. */
static inline __attribute__((always_inline)) void add_doubles(const struct strip *strip, const uint32_t *steps,
                                                              int32_t count, int32_t first_row, const int rows,
                                                              int32_t vector, const bool guarded,
                                                              doubles sums[DOUBLE_ROWS][DOUBLE_VECTORS]) {
    for (int32_t t = 0; t < count; t++) {
        const float *const from = strip->values + strip->bases[vector] + strip->offsets[steps[t]];
        const size_t at = (size_t)steps[t] * (size_t)strip->rows + (size_t)first_row;
        for (int piece = 0; piece < DOUBLE_VECTORS; piece++) {
            const floats single = *(const floats *)(from + piece * REALS);
            const doubles right = __builtin_convertvector(single, doubles);
            const doubles magnitude = (doubles)((longs)right & INT64_MAX);
            for (int row = 0; row < rows; row++) {
                const longs kept = magnitude >= spread_double(strip->kept_from[at + (size_t)row]);
                const doubles partner = guarded ? (doubles)((longs)right & kept) : right;
                const doubles factor = spread_double(strip->factors[at + (size_t)row]);
                sums[row][piece] = fused(factor, partner, sums[row][piece]);
            }
        }
    }
}

static inline __attribute__((always_inline)) void multiply_rows(const struct strip *strip, int32_t first_row,
                                                                const int rows, int32_t vector) {
    doubles sums[DOUBLE_ROWS][DOUBLE_VECTORS];
    for (int row = 0; row < rows; row++)
        for (int piece = 0; piece < DOUBLE_VECTORS; piece++) sums[row][piece] = spread_double(DOUBLE_MAGIC);
    add_doubles(strip, strip->plain, strip->plain_count, first_row, rows, vector, false, sums);
    add_doubles(strip, strip->guarded, strip->guarded_count, first_row, rows, vector, true, sums);
    /* The lower half of the bits is the sum, modulo 2^32; no sum that is used passes 2^31. */
    for (int row = 0; row < rows; row++) {
        int32_t *const total = strip->totals + (first_row + row) * TILE_LANES + vector * LANES;
        for (int lane = 0; lane < LANES; lane++) {
            const longs bits = (longs)sums[row][lane / REALS];
            total[lane] = (int32_t)((uint32_t)total[lane] + (uint32_t)bits[lane % REALS]);
        }
    }
}

static void multiply_doubles(const struct strip *strip) {
    for (int32_t vector = 0; vector < strip->vectors; vector++) {
        int32_t row = 0;
        for (; row + DOUBLE_ROWS <= strip->rows; row += DOUBLE_ROWS) multiply_rows(strip, row, DOUBLE_ROWS, vector);
        for (; row < strip->rows; row++) multiply_rows(strip, row, 1, vector);
    }
}

#endif

#endif
