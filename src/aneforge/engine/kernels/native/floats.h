/* The innermost loops of paths whose vectors are shorter than sixteen lanes and have no masks: AVX2 and NEON.
 *
 * Four rows times FLOAT_WIDTH short vectors stay in registers. A partner that is to be dropped is made zero by a comparison of
 * magnitudes, which for the least exponent of a power of two is the comparison of exponents. The path gives FLOAT_LANES,
 * FLOAT_WIDTH, `spread_float` and `fused_floats`.
 */

#ifndef ANEFORGE_FLOATS_H
#define ANEFORGE_FLOATS_H

#include "numbers.h"
#include "strip.h"

#define FLOAT_VECTORS (LANES / FLOAT_LANES)
#define FLOAT_ROWS 4

typedef float limit; /* a partner's magnitude must not be below it */
typedef float some_floats __attribute__((vector_size(FLOAT_LANES * 4), aligned(4)));
typedef int32_t some_words __attribute__((vector_size(FLOAT_LANES * 4), aligned(4)));

/* Which part of a strip stays in registers: some rows times `width` short vectors. */
struct part_of_strip {
    int32_t first_row, first; /* the first short vector, counted through the tile */
};

static inline __attribute__((always_inline)) void float_step(const struct strip *strip, struct part_of_strip part,
                                                             uint32_t k, const int rows, const int width,
                                                             const bool guarded, some_floats *sums) {
    const float *const from = strip->values + strip->offsets[k];
    const size_t at = (size_t)k * (size_t)strip->rows + (size_t)part.first_row;
    const limit *const limits = (const limit *)strip->limits + at;
    some_floats right[FLOAT_WIDTH];
#pragma GCC unroll 6
    for (int i = 0; i < width; i++) {
        const int32_t vector = (part.first + i) / FLOAT_VECTORS, inside = (part.first + i) % FLOAT_VECTORS;
        right[i] = *(const some_floats *)(from + strip->bases[vector] + inside * FLOAT_LANES);
    }
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++) {
        const some_floats factor = spread_float(strip->left[at + (size_t)row]);
        const some_floats least = spread_float(limits[row]);
#pragma GCC unroll 6
        for (int i = 0; i < width; i++) {
            some_floats *const sum = &sums[row * width + i];
            const some_floats magnitude = (some_floats)((some_words)right[i] & 0x7FFFFFFF);
            const some_words kept = (some_words)(magnitude >= least);
            const some_floats partner = guarded ? (some_floats)((some_words)right[i] & kept) : right[i];
            *sum = fused_floats(factor, partner, *sum);
        }
    }
}

/* With few rows several steps go on at a time (`ways`), so that additions do not wait for each other. */
static inline __attribute__((always_inline)) void add_floats(const struct strip *strip, struct part_of_strip part,
                                                             const uint32_t *steps, int32_t count, const int rows,
                                                             const int width, const bool guarded, const int ways,
                                                             some_floats *sums) {
    int32_t t = 0;
    for (; t + ways <= count; t += ways)
#pragma GCC unroll 4
        for (int way = 0; way < ways; way++)
            float_step(strip, part, steps[t + way], rows, width, guarded, sums + way * rows * width);
    for (; t < count; t++) float_step(strip, part, steps[t], rows, width, guarded, sums);
}

static inline __attribute__((always_inline)) void multiply_part(const struct strip *strip, struct part_of_strip part,
                                                                const int rows, const int width, const int ways) {
    some_floats sums[FLOAT_ROWS * FLOAT_WIDTH];
#pragma GCC unroll 24
    for (int i = 0; i < rows * ways * width; i++) sums[i] = spread_float(FLOAT_MAGIC);
    add_floats(strip, part, strip->plain, strip->plain_count, rows, width, false, ways, sums);
    add_floats(strip, part, strip->guarded, strip->guarded_count, rows, width, true, ways, sums);
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 6
        for (int i = 0; i < width; i++) {
            int32_t *const place =
                strip->totals + (part.first_row + row) * TILE_LANES + (part.first + i) * FLOAT_LANES;
            some_words total = *(some_words *)place;
#pragma GCC unroll 4
            for (int way = 0; way < ways; way++)
                total += (some_words)sums[(way * rows + row) * width + i] - (int32_t)FLOAT_MAGIC_BITS;
            *(some_words *)place = total;
        }
}

static inline __attribute__((always_inline)) void multiply_columns(const struct strip *strip, int32_t first,
                                                                   const int width) {
    if (strip->rows == 1) multiply_part(strip, (struct part_of_strip){0, first}, 1, width, 4);
    if (strip->rows == 2) multiply_part(strip, (struct part_of_strip){0, first}, 2, width, 2);
    for (int32_t row = 0; row + FLOAT_ROWS <= strip->rows; row += FLOAT_ROWS)
        multiply_part(strip, (struct part_of_strip){row, first}, FLOAT_ROWS, width, 1);
}

static void multiply_floats(const struct strip *strip) {
    const int32_t end = strip->vectors * FLOAT_VECTORS;
    int32_t first = 0;
    for (; first + FLOAT_WIDTH <= end; first += FLOAT_WIDTH) multiply_columns(strip, first, FLOAT_WIDTH);
    for (; first + 2 <= end; first += 2) multiply_columns(strip, first, 2);
    for (; first < end; first++) multiply_columns(strip, first, 1);
}

/* Sort the steps first ... last - 1 into those at which nothing can be dropped and the others; steps at which one side
 * is all zeros are in neither. The lists have room for one more than there are steps. */
static void sort_steps(struct strip *strip, const uint8_t *left_least, const uint8_t *right_least, int32_t first,
                       int32_t last, uint32_t *plain, uint32_t *guarded) {
    int32_t plain_count = 0, guarded_count = 0;
    for (int32_t k = first; k < last; k++) {
        const int32_t sum = left_least[k] + right_least[k];
        plain[plain_count] = guarded[guarded_count] = (uint32_t)k;
        plain_count += sum >= KEPT_FROM && sum < ZERO_FROM;
        guarded_count += sum < KEPT_FROM;
    }
    strip->plain = plain;
    strip->plain_count = plain_count;
    strip->guarded = guarded;
    strip->guarded_count = guarded_count;
}

/* Sixteen numbers of the left operand, as `panel.h` says. */
static inline void store_lanes(const uint16_t *halves, float *values, limit *limits) {
    for (int i = 0; i < LANES; i++) {
        const uint32_t magnitude = halves[i] & 0x7FFFu, field = magnitude >> 10;
        const uint32_t subnormal = bits_of_float((float)(int32_t)magnitude * 0x1p-8f);
        const uint32_t normal = (magnitude << 13) + (128u << 23);
        const uint32_t moved = (magnitude < 0x400u ? subnormal : normal) + 1;
        const uint32_t bits = magnitude == 0 ? STORED_ZERO : moved;
        values[i] = float_of_bits(bits | (uint32_t)(halves[i] & 0x8000u) << 16);
        /* A partner's exponent must be at least -16 - e. Up to -14 that keeps every partner; above, it is a magnitude. */
        const int32_t least = DROPPED_UP_TO + 1 + 15 - (int32_t)(field == 0 ? 1 : field);
        const uint32_t power = (uint32_t)(127 + least) << 23;
        limits[i] = float_of_bits(least <= LEAST_EXPONENT || magnitude == 0 ? 0 : power);
    }
}

/* Sixteen numbers of the right operand: floats, and exponent bytes. */
static inline void convert_lanes(const uint16_t *halves, float *values, uint8_t *exponents) {
    for (int i = 0; i < LANES; i++) values[i] = decoded(halves[i]);
    for (int i = 0; i < LANES; i++) {
        const uint16_t magnitude = halves[i] & 0x7FFFu, field = magnitude >> 10;
        const uint16_t biased = (uint16_t)((field == 0 ? 1 : field) + EXPONENT_BIAS - 15);
        exponents[i] = (uint8_t)(magnitude == 0 ? EXPONENT_OF_ZERO : biased);
    }
}

#endif
