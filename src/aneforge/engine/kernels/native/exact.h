/* A tile done again, term by term, in the order and with the operations of the golden model.
 *
 * It runs where no bound proves that the sums stay below the edge, or where the start is no plain number. It reads the
 * operands themselves, not what was packed, and counts in units of 2^-16: a power of two changes no rounding.
 */

#ifndef ANEFORGE_EXACT_H
#define ANEFORGE_EXACT_H

#include "panel.h"
#include "region.h"

struct exact {
    double totals[PANEL_ROWS][TILE_LANES];
    double stuck[PANEL_ROWS][TILE_LANES]; /* sign of the infinity, or 0 */
    double values[TILE_LANES];
    double exponents[TILE_LANES];
    int64_t places[TILE_LANES]; /* of the lane in the output, or -1 */
    int32_t rows; /* that are stored */
};

static inline double to_units(double scaled) { return trunc(scaled + copysign(0.5, scaled)); }

static void find_places(const struct region *region, int32_t tile, struct exact *exact) {
    for (int32_t lane = 0; lane < TILE_LANES; lane++) exact->places[lane] = -1;
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1];
    for (int32_t vector = begin; vector < end; vector++)
        for (int32_t s = region->segment_first[vector]; s < region->segment_first[vector + 1]; s++)
            for (int32_t i = 0; i < region->segments[s].length; i++) {
                const int32_t lane = (vector - begin) * LANES + region->segments[s].lane + i;
                exact->places[lane] = region->segments[s].place + region->scale * i;
            }
}

/* One element of an image, or +0 outside of it. */
static uint16_t pixel(const struct plan *plan, int64_t channel_at, int64_t y, int64_t x) {
    if (y < 0 || y >= plan->down.extent || x < 0 || x >= plan->across.extent) return 0;
    return ((const uint16_t *)plan->right)[channel_at + y * plan->across.extent + x];
}

static void set_lane(struct exact *exact, int32_t lane, uint16_t half) {
    exact->values[lane] = decoded(half);
    exact->exponents[lane] = exponent_of(half);
}

/* The right-hand operands of all lanes at one step. */
static void load_step(const struct plan *plan, const struct region *region, int64_t channel, int64_t i, int64_t j,
                      struct exact *exact) {
    const int64_t at = plan->right_places[region->batch] + region->group * plan->right_group + channel * plan->right_channel;
    for (int32_t lane = 0; lane < TILE_LANES; lane++) {
        const int64_t place = exact->places[lane];
        if (place < 0) {
            set_lane(exact, lane, 0);
        } else if (plan->layout == LAYOUT_MATRIX) {
            set_lane(exact, lane, ((const uint16_t *)plan->right)[at + place * plan->right_column]);
        } else {
            const int64_t y = place / plan->out_columns * plan->down.stride + i * plan->down.dilation - plan->down.pad;
            const int64_t x =
                place % plan->out_columns * plan->across.stride + j * plan->across.dilation - plan->across.pad;
            set_lane(exact, lane, pixel(plan, at, y, x));
        }
    }
}

/* ... and those of one transformed column of Winograd. */
static void load_transformed(const struct plan *plan, const struct region *region, int64_t channel, int64_t i,
                             int32_t sum, struct exact *exact) {
    static const int32_t first[4] = {0, 1, 2, 1}, second[4] = {2, 2, 1, 3};
    const int64_t at = plan->right_places[region->batch] + channel * plan->right_channel;
    for (int32_t lane = 0; lane < TILE_LANES; lane++) {
        const int64_t place = exact->places[lane] < 0 ? 0 : exact->places[lane];
        const int64_t y = place / plan->out_columns + i - plan->down.pad;
        const int64_t x = place % plan->out_columns - plan->across.pad;
        const double one = decoded(pixel(plan, at, y, x + first[sum]));
        const double other = decoded(pixel(plan, at, y, x + second[sum]));
        set_lane(exact, lane, half_of_double(sum == 1 ? one + other : one - other));
    }
}

static void add_step(struct exact *exact, int32_t row, uint16_t weight, bool edge) {
    const double factor = (double)decoded(weight) * 65536.0, least = DROPPED_UP_TO - exponent_of(weight);
    double *const totals = exact->totals[row], *const stuck = exact->stuck[row];
    for (int32_t lane = 0; lane < TILE_LANES; lane++) {
        const double rounded = to_units(exact->values[lane] * factor);
        totals[lane] += exact->exponents[lane] > least ? rounded : 0.0;
        const bool passed = edge && fabs(totals[lane]) >= EDGE_UNITS && stuck[lane] == 0;
        stuck[lane] = passed ? copysign(1.0, totals[lane]) : stuck[lane];
    }
}

/* A result on its way out, infinite from 2^15 on. */
static uint16_t leave_exact(double result) {
    const uint16_t half = half_of_double(result), magnitude = half & 0x7FFFu;
    return magnitude >= HALF_EDGE && magnitude <= HALF_INFINITY ? (uint16_t)((half & 0x8000u) | HALF_INFINITY) : half;
}

static double bias_at(const struct plan *plan, const struct region *region, int64_t row, int64_t column) {
    return plan->bias ? plan->bias[start_place(plan, region, row, column)] : 0.0;
}

static void exact_direct(const struct plan *plan, const struct region *region, int64_t first_row, struct exact *exact,
                         double *results) {
    for (int32_t row = 0; row < exact->rows; row++)
        for (int32_t lane = 0; lane < TILE_LANES; lane++) {
            const int64_t place = exact->places[lane] < 0 ? 0 : exact->places[lane];
            const double total = to_units(bias_at(plan, region, first_row + row, place) * 65536.0);
            exact->totals[row][lane] = total;
            exact->stuck[row][lane] = fabs(total) >= EDGE_UNITS ? copysign(1.0, total) : 0.0;
        }
    const uint16_t *const left = (const uint16_t *)plan->left + plan->left_places[region->batch] +
                                 region->group * plan->left_group + first_row * plan->left_row;
    const int64_t across = plan->layout == LAYOUT_MATRIX ? 1 : plan->across.taps;
    for (int64_t k = 0; k < plan->depth; k++) {
        const int64_t tap = k % plan->taps;
        load_step(plan, region, k / plan->taps, tap / across, tap % across, exact);
        for (int32_t row = 0; row < exact->rows; row++)
            add_step(exact, row, left[row * plan->left_row + k * plan->left_step], true);
    }
    for (int32_t row = 0; row < exact->rows; row++)
        for (int32_t lane = 0; lane < TILE_LANES; lane++) {
            const double stuck = exact->stuck[row][lane], total = exact->totals[row][lane];
            results[row * TILE_LANES + lane] = stuck != 0 ? copysign(INFINITY, stuck) : total * 0x1p-16;
        }
}

/* Only the combined sums look at the edge, as in the golden model. */
static void exact_winograd(const struct plan *plan, const struct region *region, int64_t first_row, struct exact *exact,
                           double *results) {
    double sums[4][PANEL_ROWS][TILE_LANES];
    const uint16_t *const left =
        (const uint16_t *)plan->left + plan->left_places[region->batch] + first_row * plan->left_row;
    for (int32_t sum = 0; sum < 4; sum++) {
        memset(exact->totals, 0, sizeof exact->totals);
        for (int64_t k = 0; k < plan->depth; k++) {
            load_transformed(plan, region, k / 3, k % 3, sum, exact);
            for (int32_t row = 0; row < exact->rows; row++) {
                uint16_t weight;
                transform_kernels(left + row * plan->left_row + k * 3, sum, 1, &weight);
                add_step(exact, row, weight, false);
            }
        }
        memcpy(sums[sum], exact->totals, sizeof exact->totals);
    }
    for (int32_t row = 0; row < exact->rows; row++)
        for (int32_t lane = 0; lane < TILE_LANES; lane++) {
            const double m0 = sums[0][row][lane], m1 = sums[1][row][lane], m2 = sums[2][row][lane];
            const double bias = to_units(bias_at(plan, region, first_row + row, 0) * 65536.0);
            const double pair[2] = {m0 + m1 + m2, m1 - m2 - sums[3][row][lane]};
            for (int32_t side = 0; side < 2; side++) {
                const double total = plan->bias ? pair[side] + bias : pair[side];
                results[(row * TILE_LANES + lane) * 2 + side] =
                    fabs(total) >= EDGE_UNITS ? copysign(INFINITY, total) : total * 0x1p-16;
            }
        }
}

/* The results of one tile, [row][lane], two for each lane with Winograd. */
static void exact_tile(const struct plan *plan, const struct region *region, int32_t tile, int64_t first_row,
                       double *results) {
    struct exact exact = {.rows = (int32_t)at_most(plan->rows - first_row, PANEL_ROWS)};
    find_places(region, tile, &exact);
    if (plan->layout == LAYOUT_WINOGRAD) exact_winograd(plan, region, first_row, &exact, results);
    if (plan->layout != LAYOUT_WINOGRAD) exact_direct(plan, region, first_row, &exact, results);
}

#endif
