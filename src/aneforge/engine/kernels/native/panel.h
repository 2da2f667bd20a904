/* The left operand, converted: eight rows side by side, with what is needed to prove bounds.
 *
 * A number v is stored as v * 2^16, moved away from zero by one unit in its last place of float32. Then one fused
 * multiply-add of it, a partner and a sum that carries 1.5 * 2^23 gives the sum plus the product rounded half away from
 * zero to a whole number of units of 2^-16:
 *
 * - The sum is a whole number and the fused operation rounds once, to a whole number, ties to even. So it rounds the
 *   product alone, and only a product that lies halfway could go wrong.
 * - The move makes every product larger by a part of 2^-23 at most and more than 2^-24: what lay halfway now lies
 *   beyond. A product has 22 bits. If it is no multiple of one half, it is at least 2^-22 of itself away from the
 *   nearest multiple, so the move does not reach one; if it is whole and below 2^22 units, it moves less than one half.
 *
 * Two units would be wrong from 2^21 units on. Zeros are stored as the least normal number: its products vanish in any
 * sum, and no denormal number ever enters a computation. Whole numbers (int8) are units themselves and stored without the
 * factor 2^16: they have nothing to round, and the move is far too small to matter.
 */

#ifndef ANEFORGE_PANEL_H
#define ANEFORGE_PANEL_H

#include <math.h>

#include "numbers.h"
#include "path.h"
#include "strip.h"

#define ROW_STEPS 256 /* converted at a time; a multiple of 8 */

struct panel {
    int32_t rows;
    float *values;      /* [k][rows] */
    limit *limits;      /* [k][rows] */
    uint8_t *least;     /* [k] least exponent byte of the rows */
    uint16_t *largest[2]; /* [k] magnitudes of the largest of four rows each */
    float *sum_norm;    /* [piece] largest sum of magnitudes of a row */
    float *square_norm; /* [piece] largest root of the sum of squares of a row */
};

/* Find the parts of one panel in its memory; `panel_size` counts the same parts. */
static struct panel panel_at(const struct plan *plan, char *memory, int32_t sum, int32_t rows) {
    const size_t numbers = panel_numbers(plan), pieces = (size_t)plan->most_pieces;
    char *next = memory + (plan->panel_bytes / (size_t)plan->sums) * (size_t)sum;
    struct panel panel = {.rows = rows};
    panel.values = (float *)next;
    next += numbers * sizeof(float);
    panel.sum_norm = (float *)next;
    next += pieces * sizeof(float);
    panel.square_norm = (float *)next;
    next += pieces * sizeof(float);
    for (int half = 0; half < 2; half++) {
        panel.largest[half] = (uint16_t *)next;
        next += (size_t)plan->most_depth * sizeof(uint16_t);
    }
    panel.limits = (limit *)next;
    next += numbers * sizeof(limit);
    panel.least = (uint8_t *)next;
    return panel;
}

/* One of the four transforms of some kernel rows for Winograd F(2,3): the exact values, rounded once to fp16. Columns
 * are taken apart first, so that compilers make vectors of it. */
static void transform_kernels(const uint16_t *kernels, int32_t sum, int32_t count, uint16_t *to) {
    uint16_t columns[3][ROW_STEPS];
    for (int32_t t = 0; t < count; t++)
        for (int32_t column = 0; column < 3; column++) columns[column][t] = kernels[3 * t + column];
    if (sum == 0 || sum == 3) { /* what is beyond the largest number becomes infinite, everything else stays */
        const uint16_t *const column = columns[sum == 0 ? 0 : 2];
        for (int32_t t = 0; t < count; t++) {
            const uint16_t magnitude = column[t] & 0x7FFFu;
            const uint16_t limited = magnitude < HALF_INFINITY ? magnitude : HALF_INFINITY;
            to[t] = (uint16_t)(limited | (column[t] & 0x8000u));
        }
        return;
    }
    const double sign = sum == 1 ? 1.0 : -1.0;
    for (int32_t t = 0; t < count; t++) {
        const double first = decoded(columns[0][t]), middle = decoded(columns[1][t]), last = decoded(columns[2][t]);
        to[t] = half_of_double((first + sign * middle + last) / 2);
    }
}

/* Copy steps of one row of the left operand, as fp16. */
static void copy_steps(const struct plan *plan, int64_t row, int32_t sum, int64_t k, int32_t count, uint16_t *to) {
    if (plan->element == ANEFORGE_INT8) {
        const int8_t *const from = (const int8_t *)plan->left + row + k * plan->left_step;
        for (int32_t t = 0; t < count; t++) to[t] = half_of_float((float)from[t * plan->left_step]);
        return;
    }
    const uint16_t *const from = (const uint16_t *)plan->left + row;
    if (plan->layout == LAYOUT_WINOGRAD)
        transform_kernels(from + k * 3, sum, count, to);
    else if (plan->left_step == 1)
        memcpy(to, from + k, (size_t)count * sizeof *to);
    else
        for (int32_t t = 0; t < count; t++) to[t] = from[(k + t) * plan->left_step];
}

static void lower_least(const uint16_t *halves, int32_t count, uint8_t *least) {
    for (int32_t t = 0; t < count; t++) {
        const uint16_t magnitude = halves[t] & 0x7FFFu, field = magnitude >> 10;
        const uint16_t biased = (uint16_t)((field == 0 ? 1 : field) + EXPONENT_BIAS - 15);
        const uint8_t exponent = (uint8_t)(magnitude == 0 ? EXPONENT_OF_ZERO : biased);
        least[t] = exponent < least[t] ? exponent : least[t];
    }
}

static void raise_largest(const uint16_t *halves, int32_t count, uint16_t *largest) {
    for (int32_t t = 0; t < count; t++) {
        const uint16_t magnitude = halves[t] & 0x7FFFu;
        largest[t] = magnitude > largest[t] ? magnitude : largest[t];
    }
}

/* Lay rows side by side; the count is a multiple of 8. */
static void interleave(uint16_t halves[PANEL_ROWS][ROW_STEPS], int32_t rows, int32_t count, uint16_t *to) {
    if (rows == PANEL_ROWS) {
        for (int32_t t = 0; t < count; t += 8) transpose_square(&halves[0][t], ROW_STEPS, to + t * PANEL_ROWS, PANEL_ROWS);
        return;
    }
    for (int32_t t = 0; t < count; t++)
        for (int32_t row = 0; row < rows; row++) to[t * rows + row] = halves[row][t];
}

/* Whole numbers are units already: take back the factor of 2^16, but for zeros. */
static void scale_down(float *values, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of_float(values[i]);
        values[i] = float_of_bits((bits & 0x7FFFFFFFu) == STORED_ZERO ? bits : bits - (16u << 23));
    }
}

/* Convert steps k ... k + count - 1 of rows that begin at `place` into `panel`, beginning at step `to`. */
static void pack_steps(const struct plan *plan, int64_t place, int64_t rows_there, int32_t sum, int64_t k, int32_t count,
                       struct panel *panel, int32_t to) {
    uint16_t halves[PANEL_ROWS][ROW_STEPS], together[PANEL_ROWS * ROW_STEPS];
    const int32_t rows = panel->rows, whole = (count + LANES - 1) / LANES * LANES;
#ifdef OWN_PACKING
    const bool plain = plan->element == ANEFORGE_FP16 && plan->layout != LAYOUT_WINOGRAD && plan->left_step == 1;
    if (plain && rows == PANEL_ROWS && rows_there >= PANEL_ROWS &&
        pack_eight((const uint16_t *)plan->left + place + k, plan->left_row, count, panel->values + (size_t)to * PANEL_ROWS,
                   panel->limits + (size_t)to * PANEL_ROWS, panel->least + to,
                   (uint16_t *const[2]){panel->largest[0] + to, panel->largest[1] + to}))
        return;
#endif
    memset(panel->least + to, EXPONENT_OF_ZERO, (size_t)count);
    for (int half = 0; half < 2; half++) memset(panel->largest[half] + to, 0, (size_t)count * sizeof(uint16_t));
    for (int32_t row = 0; row < rows; row++) {
        const int32_t there = row < rows_there ? count : 0;
        if (there) copy_steps(plan, place + row * plan->left_row, sum, k, count, halves[row]);
        memset(halves[row] + there, 0, (size_t)(whole - there) * sizeof(uint16_t));
        lower_least(halves[row], there, panel->least + to);
        raise_largest(halves[row], there, panel->largest[row / 4] + to);
    }
    interleave(halves, rows, whole, together);
    float *const values = panel->values + (size_t)to * (size_t)rows;
    limit *const limits = panel->limits + (size_t)to * (size_t)rows;
    for (int32_t i = 0; i < count * rows; i += LANES) store_lanes(together + i, values + i, limits + i);
    if (plan->element == ANEFORGE_INT8) scale_down(values, count * rows);
}

#ifndef OWN_PACKING
typedef float eight_floats __attribute__((vector_size(32), aligned(4)));
typedef int32_t eight_words __attribute__((vector_size(32)));

/* Norms of one piece of a full panel, eight rows at a time: the largest sum of magnitudes of a row, and of squares. */
static void measure_eight(const float *values, int32_t steps, float *most, float *most_squares) {
    eight_floats sums = {0}, squares = {0};
    for (int32_t k = 0; k < steps; k++) {
        const eight_floats here = *(const eight_floats *)(values + k * PANEL_ROWS);
        sums += (eight_floats)((eight_words)here & 0x7FFFFFFF);
        squares += here * here;
    }
    *most = *most_squares = 0;
    for (int32_t row = 0; row < PANEL_ROWS; row++) {
        *most = sums[row] > *most ? sums[row] : *most;
        *most_squares = squares[row] > *most_squares ? squares[row] : *most_squares;
    }
}
#endif

static void measure_few(const float *values, int32_t rows, int32_t steps, float *most, float *most_squares) {
    float sums[PANEL_ROWS] = {0}, squares[PANEL_ROWS] = {0};
    for (int32_t i = 0; i < steps * rows; i++) {
        sums[i % rows] += fabsf(values[i]);
        squares[i % rows] += values[i] * values[i];
    }
    *most = *most_squares = 0;
    for (int32_t row = 0; row < rows; row++) {
        *most = sums[row] > *most ? sums[row] : *most;
        *most_squares = squares[row] > *most_squares ? squares[row] : *most_squares;
    }
}

static void measure_panel(struct panel *panel, const struct piece *pieces, int32_t count) {
    for (int32_t p = 0; p < count; p++) {
        const int32_t rows = panel->rows, steps = pieces[p].last - pieces[p].first;
        const float *const values = panel->values + (size_t)pieces[p].first * (size_t)rows;
        float most, most_squares;
        if (rows == PANEL_ROWS) measure_eight(values, steps, &most, &most_squares);
        if (rows != PANEL_ROWS) measure_few(values, rows, steps, &most, &most_squares);
        panel->sum_norm[p] = most * NORM_SLACK;
        panel->square_norm[p] = sqrtf(most_squares) * NORM_SLACK;
    }
}

/* Convert one panel of one block: rows from `first_row` of a group, all sums. */
static void pack_panel(const struct plan *plan, int64_t batch, int64_t group, int64_t first_row, int64_t block,
                       const struct piece *pieces, int32_t piece_count, char *memory) {
    const int64_t first = block * plan->block_channels * plan->taps;
    const int64_t end = first + plan->block_channels * plan->taps;
    const int32_t depth = (int32_t)((end < plan->depth ? end : plan->depth) - first);
    const int64_t rows_there = plan->rows - first_row;
    const int64_t place = plan->left_places[batch] + group * plan->left_group + first_row * plan->left_row;
    for (int32_t sum = 0; sum < plan->sums; sum++) {
        struct panel panel = panel_at(plan, memory, sum, panel_rows(rows_there));
        for (int32_t k = 0; k < depth; k += ROW_STEPS) {
            const int32_t count = depth - k < ROW_STEPS ? depth - k : ROW_STEPS;
            pack_steps(plan, place, rows_there, sum, first + k, count, &panel, k);
        }
        measure_panel(&panel, pieces, piece_count);
    }
}

#endif
