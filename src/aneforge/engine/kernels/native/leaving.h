/* The way out: sums in units become fp16, go through gain and offset, a rectifier or a table, are noted, and are stored. */

#ifndef ANEFORGE_LEAVING_H
#define ANEFORGE_LEAVING_H

#include "halves.h"
#include "region.h"

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

/* Bits of the first lanes, sixteen at most. */
static inline uint32_t some_lanes(int64_t count) { return count >= LANES ? 0xFFFFu : (1u << count) - 1; }

/* Results on their way through the table, or rectified; noted before and after. */
static void map_results(const struct plan *plan, int64_t *seen, uint16_t *halves, int64_t count) {
    const struct aneforge_behind *const behind = &plan->behind;
#ifdef OWN_PASSING
    if (!behind->table) {
        struct passing passing = begin_passing(behind->rectifies);
        for (int64_t i = 0; i < count; i += LANES)
            pass_lanes(&passing, halves + i, (__mmask16)some_lanes(count - i), halves + i);
        end_passing(&passing, seen);
        return;
    }
#endif
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
    if (behind->table) after = 0;
    for (int64_t i = 0; i < count && behind->table; i++) {
        const uint16_t magnitude = halves[i] & 0x7FFFu;
        after = magnitude > after ? magnitude : after;
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

#ifdef OWN_PASSING
/* Results of a tile on their way to their places, all but those of a table and of Winograd. */
static void pass_tile(const struct plan *plan, struct region *region, int32_t tile, int64_t first_row,
                      const uint16_t *halves) {
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1];
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS);
    uint16_t *const out = (uint16_t *)plan->out + out_place(plan, region) + first_row * plan->out_row;
    for (int32_t vector = begin; vector < end; vector++)
        for (int32_t s = region->segment_first[vector]; s < region->segment_first[vector + 1]; s++) {
            const struct segment *const segment = &region->segments[s];
            const __mmask16 stored = (__mmask16)(some_lanes(segment->length) << segment->lane);
            const uint16_t *const from = halves + (vector - begin) * LANES;
            uint16_t *const to = out + segment->place - segment->lane;
            for (int64_t row = 0; row < rows; row++)
                pass_lanes(&region->passing, from + row * TILE_LANES, stored, to + row * plan->out_row);
        }
}

/* Sums of a tile that `plain_reach` allows, to their places in one pass: rounded, noted, rectified and stored. */
static void pass_totals(const struct plan *plan, struct region *region, int32_t tile, int64_t first_row,
                        const struct gain *gains, const int32_t *totals) {
    const int32_t begin = region->tile_first[tile], end = region->tile_first[tile + 1];
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS);
    uint16_t *const out = (uint16_t *)plan->out + out_place(plan, region) + first_row * plan->out_row;
    struct passing passing = region->passing;
    for (int64_t row = 0; row < rows; row++) {
        const __m512 factor = _mm512_set1_ps(gains[row].factor), moved = _mm512_set1_ps(gains[row].moved);
        for (int32_t vector = begin; vector < end; vector++) {
            const struct segment *const first = &region->segments[region->segment_first[vector]];
            const struct segment *const last = &region->segments[region->segment_first[vector + 1]];
            const int32_t *const from = totals + row * TILE_LANES + (vector - begin) * LANES;
            const __m256i halves = leave_sixteen(_mm512_cvtepi32_ps(_mm512_loadu_si512(from)), factor, moved);
            for (const struct segment *segment = first; segment < last; segment++) {
                const __mmask16 stored = (__mmask16)(some_lanes(segment->length) << segment->lane);
                const __m256i passed = pass_sixteen(&passing, halves, stored);
                uint16_t *const to = out + row * plan->out_row + segment->place - segment->lane;
                if (segment->length == LANES) _mm256_storeu_si256((__m256i *)to, passed);
                if (segment->length != LANES) _mm256_mask_storeu_epi16(to, stored, passed);
            }
        }
    }
    region->passing = passing;
}
#endif

/* Finished sums of a tile, in fp16, through what is behind them to their places. */
static void store_tile(const struct plan *plan, struct region *region, int32_t tile, int64_t first_row,
                       uint16_t *halves) {
    const struct aneforge_behind *const behind = &plan->behind;
#ifdef OWN_PASSING
    if (!behind->table && !plan->out_turned && region->scale == 1) {
        pass_tile(plan, region, tile, first_row, halves);
        return;
    }
#endif
    if (behind->seen || behind->table || behind->rectifies) map_tile(plan, region, tile, first_row, halves);
    if (plan->out_turned) store_turned(plan, region, tile, first_row, halves);
    if (!plan->out_turned) store_rows(plan, region, tile, first_row, halves, sizeof *halves);
}

/* The combined sums of Winograd, in units: m0 + m1 + m2 and m1 - m2 - m3, each plus the start. */
static inline int64_t combined(const int32_t *sums, int32_t start, int32_t side) {
    const int32_t size = PANEL_ROWS * TILE_LANES;
    const int64_t second = sums[size], third = sums[2 * size];
    return (side ? second - third - sums[3 * size] : sums[0] + second + third) + start;
}

#ifndef OWN_LEAVING
static inline void leave_lanes(const int32_t *units, uint16_t *halves) {
    for (int32_t i = 0; i < LANES; i++) halves[i] = half_of_units(units[i]);
}
#endif

#ifndef OWN_GAIN
static inline void scale_row(const int32_t *units, int64_t count, const struct gain *behind, uint16_t *halves) {
    for (int64_t i = 0; i < count; i += LANES) scale_sixteen(units + i, behind, halves + i);
}
#endif

/* Sums of one row as they leave, some times sixteen: fp16, infinite from 2^15 on; or with gain and offset. Plain ones stay
 * below the `plain_reach` of the row. */
static void leave_row(const struct plan *plan, const struct gain *gain, bool plain, const int32_t *units, int64_t count,
                      uint16_t *halves) {
#ifdef OWN_PASSING
    if (plain) {
        leave_plain_row(units, count, gain, halves);
        return;
    }
#else
    (void)plain;
#endif
    if (plan->behind.gain) {
        scale_row(units, count, gain, halves);
        return;
    }
    for (int64_t i = 0; i < count; i += LANES) leave_lanes(units + i, halves + i);
}

/* Gain and offset of every row of a panel; return what `plain_reach` is for all of them. */
static double set_gains(const struct plan *plan, const struct region *region, int64_t first_row, struct gain *gains) {
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS), channel = region->group * plan->rows + first_row;
    const bool gained = plan->behind.gain != NULL;
    double reach = INFINITY;
    for (int64_t row = 0; row < rows; row++) {
        gains[row] = gained ? gain_of(&plan->behind, channel + row) : no_gain();
        reach = fmin(reach, plain_reach(&gains[row], gained));
    }
    return reach;
}

/* Sums of a tile that are proved to stay below the edge, to their places. */
static void leave_tile(const struct plan *plan, struct region *region, int32_t tile, int64_t first_row,
                       const struct gain *gains, bool plain, const int32_t *totals) {
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS);
    const int64_t lanes = (region->tile_first[tile + 1] - region->tile_first[tile]) * LANES;
#ifdef OWN_PASSING
    if (plain && !plan->behind.table && !plan->out_turned) {
        pass_totals(plan, region, tile, first_row, gains, totals);
        return;
    }
#endif
    uint16_t halves[PANEL_ROWS * TILE_LANES];
    for (int64_t row = 0; row < rows; row++)
        leave_row(plan, &gains[row], plain, totals + row * TILE_LANES, lanes, halves + row * TILE_LANES);
    store_tile(plan, region, tile, first_row, halves);
}

/* The combined sums of Winograd as they leave. */
static void leave_combined(const int32_t *totals, const int32_t *start, int32_t rows, uint16_t *halves) {
    for (int32_t i = 0; i < rows * RESULTS_LANES; i++) {
        const int64_t units = combined(totals + i / 2, start[i / 2], i % 2);
        const bool infinite = (units < 0 ? -units : units) >= (int64_t)EDGE_UNITS;
        const uint16_t sign = units < 0 ? 0x8000u : 0u;
        halves[i] = infinite ? (uint16_t)(sign | HALF_INFINITY) : half_of_units((int32_t)units);
    }
}

/* Gain and offset on sums before they are rounded, in the operations of `golden.apply_gain`: what is not a number is 0. */
static void leave_gained(const struct plan *plan, const struct region *region, int64_t first_row,
                         const struct gain *gains, const double *wide, uint16_t *halves) {
    const int64_t rows = at_most(plan->rows - first_row, PANEL_ROWS);
    const int32_t lanes = TILE_LANES * region->scale;
    for (int64_t row = 0; row < rows; row++) {
        const struct gain gain = gains[row];
        for (int64_t first = row * lanes; first < (row + 1) * lanes; first += LANES) {
            double results[LANES];
            for (int32_t i = 0; i < LANES; i++) results[i] = wide[first + i] * gain.gain + gain.offset;
            for (int32_t i = 0; i < LANES; i++) results[i] = results[i] == results[i] ? results[i] : 0.0;
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
