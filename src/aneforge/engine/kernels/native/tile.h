/* One tile: runs of k whose partial sums are proved to stay in range, and the way out.
 *
 * Bounds count units of 2^-16. For a piece of k they are the smaller of (sum of magnitudes left) * (largest right) and
 * the product of both norms, plus one half for each rounded product. Pieces are joined to runs while the bound stays in
 * the range of float32; a piece beyond it goes in double. `reach` bounds the magnitude of every partial sum of a tile,
 * in the order of the runs and in any order within one; when it could pass the edge it is renewed from the sums as they
 * are, and when that does not help the tile is done again, term by term, in the order of the golden model.
 */

#ifndef ANEFORGE_TILE_H
#define ANEFORGE_TILE_H

#include "doubles.h"
#include "halves.h"
#include "panel.h"
#include "region.h"

struct run {
    int32_t first, last;
    double bound;
    bool in_double;
};

static int32_t find_runs(const struct plan *plan, const struct region *region, const struct panel *panel, int32_t sum,
                         struct run *runs) {
    const float *const norms = region->square_norm + (size_t)sum * (size_t)plan->most_pieces;
    const double rounding = plan->element == ANEFORGE_FP16 ? 0.5 : 0.0;
    int32_t count = 0;
    for (int32_t p = 0; p < region->pieces; p++) {
        const struct piece piece = region->piece[p];
        const double by_sum = (double)panel->sum_norm[p] * region->largest[piece.group];
        const double by_squares = (double)panel->square_norm[p] * norms[piece.group];
        const double bound = (by_sum < by_squares ? by_sum : by_squares) + rounding * (piece.last - piece.first);
        const bool in_double = !HAS_FLOATS || bound >= FLOAT_REACH;
        struct run *const before = count ? &runs[count - 1] : NULL;
        if (before && before->in_double == in_double &&
            before->bound + bound < (in_double ? DOUBLE_RUN_REACH : FLOAT_REACH)) {
            before->last = piece.last;
            before->bound += bound;
            continue;
        }
        runs[count++] = (struct run){piece.first, piece.last, bound, in_double};
    }
    return count;
}

static double largest_total(const int32_t *totals, int32_t rows, int32_t vectors) {
    int32_t most = 0;
    for (int32_t row = 0; row < rows; row++)
        for (int32_t lane = 0; lane < vectors * LANES; lane++) {
            const int32_t total = totals[row * TILE_LANES + lane];
            const int32_t magnitude = total < 0 ? -total : total;
            most = magnitude > most ? magnitude : most;
        }
    return most;
}

struct lists {
    uint32_t *plain, *guarded, *every;
};

/* Add the products of one block to a tile's sums. Return false where they might pass the edge. */
static bool add_runs(struct strip *strip, const struct run *runs, int32_t count, const uint8_t *left_least,
                     const uint8_t *right_least, const struct lists *lists, double *reach) {
    for (int32_t r = 0; r < count; r++) {
        const struct run *const run = &runs[r];
        if (*reach + run->bound >= SAFE_REACH) {
            *reach = largest_total(strip->totals, strip->rows, strip->vectors);
            if (*reach + run->bound >= SAFE_REACH) return false;
        }
        *reach += run->bound;
        if (right_least) {
            sort_steps(strip, left_least, right_least, run->first, run->last, lists->plain, lists->guarded);
        } else {
            strip->plain_count = 0;
            strip->guarded = lists->every + run->first;
            strip->guarded_count = run->last - run->first;
        }
        if (run->in_double) multiply_doubles(strip);
        if (!run->in_double) multiply_floats(strip);
    }
    return true;
}

/* What the sums of a tile start from. */
struct start {
    double reach;
    bool exact; /* some number is beyond the range or not a number: the tile needs the exact way */
};

static struct start set_start(const struct plan *plan, const struct region *region, int32_t tile, int64_t first_row,
                              int32_t rows, int32_t *totals) {
    struct start start = {0, false};
    memset(totals, 0, sizeof(int32_t) * (size_t)(rows * TILE_LANES));
    if (!plan->start) return start;
    const int64_t rows_there = at_most(plan->rows - first_row, rows);
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1];
    for (int64_t row = 0; row < rows_there && plan->bias_column == 0; row++) { /* one number for all lanes of a row */
        const int64_t from = start_place(plan, region, first_row + row, 0);
        const int32_t units = plan->start[from];
        for (int32_t lane = 0; lane < TILE_LANES; lane++) totals[row * TILE_LANES + lane] = units;
        start.exact |= plan->special && plan->special[from] == START_EXACT;
        start.reach = fmax(start.reach, fabs((double)units));
    }
    if (plan->bias_column == 0) return start;
    for (int32_t vector = begin; vector < end; vector++)
        for (int32_t s = region->segment_first[vector]; s < region->segment_first[vector + 1]; s++)
            for (int64_t row = 0; row < rows_there; row++) {
                const struct segment *const segment = &region->segments[s];
                const int64_t from = start_place(plan, region, first_row + row, segment->place);
                int32_t *const to = totals + row * TILE_LANES + (vector - begin) * LANES + segment->lane;
                for (int32_t i = 0; i < segment->length; i++) {
                    to[i] = plan->start[from + i * plan->bias_column];
                    start.exact |= plan->special && plan->special[from + i * plan->bias_column] == START_EXACT;
                }
            }
    start.reach = largest_total(totals, rows, TILE_VECTORS);
    return start;
}

/* A sum that came to 0 from a start of -0 may be -0: only the exact way tells. */
static bool zero_from_negative_zero(const struct plan *plan, const struct region *region, int32_t tile,
                                    int64_t first_row, const int32_t *totals) {
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1];
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS);
    for (int32_t vector = begin; vector < end; vector++)
        for (int32_t s = region->segment_first[vector]; s < region->segment_first[vector + 1]; s++)
            for (int64_t row = 0; row < rows; row++) {
                const struct segment *const segment = &region->segments[s];
                const int64_t from = start_place(plan, region, first_row + row, segment->place);
                const int32_t *const at = totals + row * TILE_LANES + (vector - begin) * LANES + segment->lane;
                for (int32_t i = 0; i < segment->length; i++)
                    if (at[i] == 0 && plan->special[from + i * plan->bias_column] == START_NEGATIVE_ZERO) return true;
            }
    return false;
}

/* Results of one tile, `scale` for each lane: Winograd gives pairs of columns, the last one cut where the width is odd. */
#define RESULTS_LANES (2 * TILE_LANES)

/* Results of a segment that are stored, two for each lane with Winograd. */
static inline int64_t stored_in(const struct plan *plan, const struct region *region, const struct segment *segment) {
    if (region->scale == 1) return segment->length;
    const int64_t left = plan->out_columns - segment->place % plan->out_columns;
    return at_most((int64_t)segment->length * region->scale, left);
}

/* Where the results of a batch and a group begin. */
static inline int64_t out_place(const struct plan *plan, const struct region *region) {
    const int64_t place = plan->out_places ? plan->out_places[region->batch] : region->batch * plan->out_batch;
    return place + region->group * plan->out_group;
}

/* Copy the stored lanes of a tile's rows, elements of `size` bytes, to their places in the output. */
static void store_rows(const struct plan *plan, const struct region *region, int32_t tile, int64_t first_row,
                       const void *results, size_t size) {
    char *const out = (char *)plan->out + (size_t)out_place(plan, region) * size;
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1], scale = region->scale;
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS);
    for (int32_t vector = begin; vector < end; vector++)
        for (int32_t s = region->segment_first[vector]; s < region->segment_first[vector + 1]; s++) {
            const struct segment *const segment = &region->segments[s];
            const size_t lane = (size_t)(((vector - begin) * LANES + segment->lane) * scale);
            const size_t count = (size_t)stored_in(plan, region, segment);
            for (int64_t row = 0; row < rows; row++)
                memcpy(out + (size_t)((first_row + row) * plan->out_row + segment->place) * size,
                       (const char *)results + ((size_t)(row * TILE_LANES * scale) + lane) * size, count * size);
        }
}

/* The same for the results of a matrix whose rows lie side by side in the output. */
static void store_turned(const struct plan *plan, const struct region *region, int32_t tile, int64_t first_row,
                         const uint16_t *halves) {
    uint16_t *const out = (uint16_t *)plan->out + out_place(plan, region) + first_row;
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1];
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS), apart = plan->out_turned;
    for (int32_t vector = begin; vector < end; vector++) {
        const struct segment *const segment = &region->segments[region->segment_first[vector]];
        const uint16_t *const from = halves + (vector - begin) * LANES;
        int32_t lane = 0;
        for (; lane + 8 <= segment->length && rows == PANEL_ROWS; lane += 8)
            transpose_square(from + lane, TILE_LANES, out + (segment->place + lane) * apart, apart);
        for (; lane < segment->length; lane++)
            for (int64_t row = 0; row < rows; row++)
                out[(segment->place + lane) * apart + row] = from[row * TILE_LANES + lane];
    }
}

static inline void note(int64_t *noted, uint16_t magnitude) { *noted = magnitude > *noted ? magnitude : *noted; }

/* Results on their way through the table, or rectified; noted before and after. */
static void map_results(const struct plan *plan, int64_t *seen, uint16_t *halves, int64_t count) {
    const struct aneforge_behind *const behind = &plan->behind;
    const uint16_t bound = (uint16_t)behind->rectifies;
    uint16_t largest = 0, least = 0xFFFFu, least_turned = 0xFFFFu, after = 0;
    for (int64_t i = 0; i < count && behind->seen; i++) {
        const uint16_t magnitude = halves[i] & 0x7FFFu, turned = halves[i] ^ 0x8000u;
        const uint16_t positive = halves[i] < 0x8000u ? halves[i] : 0;
        largest = magnitude > largest ? magnitude : largest;
        least = halves[i] < least ? halves[i] : least;
        least_turned = turned < least_turned ? turned : least_turned;
        after = positive > after ? positive : after;
    }
    if (behind->rectifies)
        for (int64_t i = 0; i < count; i++) {
            const uint16_t positive = halves[i] < 0x8000u ? halves[i] : 0;
            halves[i] = positive < bound ? positive : bound;
        }
    for (int64_t i = 0; i < count && behind->table; i++) halves[i] = behind->table[halves[i]];
    if (!behind->seen) return;
    for (int64_t i = 0; i < count && behind->table; i++) {
        const uint16_t magnitude = halves[i] & 0x7FFFu;
        after = magnitude > after || i == 0 ? magnitude : after;
    }
    note(&seen[ANEFORGE_LARGEST_BEFORE], largest);
    seen[ANEFORGE_ZEROS_BEFORE] |= (least == 0) | (least_turned == 0) << 1;
    if (behind->rectifies) after = after < bound ? after : bound;
    note(&seen[ANEFORGE_LARGEST_AFTER], behind->rectifies || behind->table ? after : largest);
}

/* ... of the stored lanes of a tile; of whole rows at a time where all lanes are stored. */
static void map_tile(const struct plan *plan, struct region *region, int32_t tile, int64_t first_row, uint16_t *halves) {
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1], lanes = TILE_LANES * region->scale;
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS);
    int64_t stored = 0;
    for (int32_t s = region->segment_first[begin]; s < region->segment_first[end]; s++)
        stored += stored_in(plan, region, &region->segments[s]);
    if (stored == lanes) {
        map_results(plan, region->seen, halves, rows * lanes);
        return;
    }
    for (int32_t vector = begin; vector < end; vector++)
        for (int32_t s = region->segment_first[vector]; s < region->segment_first[vector + 1]; s++) {
            const struct segment *const segment = &region->segments[s];
            uint16_t *const from = halves + ((vector - begin) * LANES + segment->lane) * region->scale;
            for (int64_t row = 0; row < rows; row++)
                map_results(plan, region->seen, from + row * lanes, stored_in(plan, region, segment));
        }
}

/* The combined sums of Winograd, in units: m0 + m1 + m2 and m1 - m2 - m3, each plus the start. */
static inline int64_t combined(const int32_t *sums, int32_t start, int32_t side) {
    const int32_t size = PANEL_ROWS * TILE_LANES;
    const int64_t second = sums[size], third = sums[2 * size];
    return (side ? second - third - sums[3 * size] : sums[0] + second + third) + start;
}

/* Sums as they leave: fp16, infinite from 2^15 on. Lanes behind the last vector are converted too, and not stored. */
static void leave(const struct plan *plan, const int32_t *totals, const int32_t *start, int32_t rows, uint16_t *halves) {
    if (plan->layout != LAYOUT_WINOGRAD) {
#ifdef OWN_LEAVING
        for (int32_t i = 0; i < rows * TILE_LANES; i += LANES) leave_lanes(totals + i, halves + i);
#else
        for (int32_t i = 0; i < rows * TILE_LANES; i++) halves[i] = half_of_units(totals[i]);
#endif
        return;
    }
    for (int32_t i = 0; i < rows * RESULTS_LANES; i++) {
        const int64_t units = combined(totals + i / 2, start[i / 2], i % 2);
        const bool infinite = (units < 0 ? -units : units) >= (int64_t)EDGE_UNITS;
        const uint16_t sign = units < 0 ? 0x8000u : 0u;
        halves[i] = infinite ? (uint16_t)(sign | HALF_INFINITY) : half_of_units((int32_t)units);
    }
}

/* Gain and offset on sums before they are rounded, in the operations of `golden.apply_gain`: what is not a number is 0. */
static void leave_gained(const struct plan *plan, const struct region *region, int64_t first_row, const double *wide,
                         uint16_t *halves) {
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS), channel = region->group * plan->rows + first_row;
    const struct aneforge_behind *const behind = &plan->behind;
    const int32_t lanes = TILE_LANES * region->scale;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t place = (channel + row) * behind->gain_row;
        const double gain = behind->gain[place], offset = behind->offset ? behind->offset[place] : -0.0;
        for (int64_t first = row * lanes; first < (row + 1) * lanes; first += LANES) {
            double results[LANES]; /* -0 changes no number that it is added to */
            for (int32_t i = 0; i < LANES; i++) results[i] = wide[first + i] * gain + offset;
            for (int32_t i = 0; i < LANES; i++) results[i] = results[i] == results[i] ? results[i] : 0.0;
            halves_of_sixteen(results, halves + first);
        }
    }
}

/* The same from sums in units that are proved to stay below the edge: everything is a number. */
static void leave_scaled(const struct plan *plan, const struct region *region, int64_t first_row, const int32_t *totals,
                         uint16_t *halves) {
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS), channel = region->group * plan->rows + first_row;
    const struct aneforge_behind *const behind = &plan->behind;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t place = (channel + row) * behind->gain_row;
        const double gain = behind->gain[place], offset = behind->offset ? behind->offset[place] : -0.0;
        for (int64_t first = row * TILE_LANES; first < (row + 1) * TILE_LANES; first += LANES) {
            double results[LANES];
            for (int32_t i = 0; i < LANES; i++) results[i] = totals[first + i] * 0x1p-16 * gain + offset;
            halves_of_sixteen(results, halves + first);
        }
    }
}

/* Sums before they are rounded, infinite from 2^15 on. */
static void leave_wide(const struct plan *plan, const int32_t *totals, const int32_t *start, int32_t rows, double *out) {
    const bool winograd = plan->layout == LAYOUT_WINOGRAD;
    for (int32_t i = 0; i < rows * TILE_LANES * (winograd ? 2 : 1); i++) {
        const double units = winograd ? (double)combined(totals + i / 2, start[i / 2], i % 2) : totals[i];
        out[i] = fabs(units) >= EDGE_UNITS ? copysign(INFINITY, units) : units * 0x1p-16;
    }
}

#endif
