/* One tile: runs of k whose partial sums are proved to stay in range.
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
    uint32_t *single, *in_double[2]; /* further ones of paths that split runs in double */
};

/* What is known of the steps of a tile: least exponent bytes, by which steps are sorted, and largest magnitudes. */
struct steps {
    const uint8_t *left_least, *right_least; /* or null, and steps are not sorted */
    const float *right_largest;
};

/* Choose the lists of k of a run. */
static inline void choose_steps(struct strip *strip, const struct run *run, const struct steps *steps,
                                const struct lists *lists) {
    if (steps->right_least) {
        sort_steps(strip, steps->left_least, steps->right_least, run->first, run->last, lists->plain, lists->guarded);
        return;
    }
    strip->plain_count = 0;
    strip->guarded = lists->every + run->first;
    strip->guarded_count = run->last - run->first;
}

/* Add the products of a run. */
static void add_run(struct strip *strip, const struct run *run, const struct steps *steps, const struct lists *lists) {
#if OWN_DOUBLES
    if (run->in_double && steps->right_least && strip->rows % DOUBLE_ROWS == 0) {
        struct split splits[2] = {{.single = lists->plain, .in_double = lists->in_double[0]},
                                  {.single = lists->single, .in_double = lists->in_double[1]}};
        split_steps(strip, steps->left_least, steps->right_least, steps->right_largest, run->first, run->last,
                    lists->guarded, splits);
        multiply_both(strip, splits);
        return;
    }
#endif
    choose_steps(strip, run, steps, lists);
    if (run->in_double) multiply_doubles(strip);
    if (!run->in_double) multiply_floats(strip);
}

/* The next run; several in double are one, as far as sums that have come so far cannot pass the edge on the way. */
static inline struct run joined_run(const struct run *runs, int32_t *next, int32_t count, double reach) {
    struct run run = runs[(*next)++];
    for (; *next < count && run.in_double && runs[*next].in_double; (*next)++) {
        if (reach + run.bound + runs[*next].bound >= SAFE_REACH) break;
        run.last = runs[*next].last;
        run.bound += runs[*next].bound;
    }
    return run;
}

/* Add the products of one block to a tile's sums. Return false where they might pass the edge. */
static bool add_runs(struct strip *strip, const struct run *runs, int32_t count, const struct steps *steps,
                     const struct lists *lists, double *reach) {
    for (int32_t r = 0; r < count;) {
        if (*reach + runs[r].bound >= SAFE_REACH)
            *reach = largest_total(strip->totals, strip->rows, strip->vectors);
        const struct run run = joined_run(runs, &r, count, *reach);
        if (*reach + run.bound >= SAFE_REACH) return false;
        *reach += run.bound;
        add_run(strip, &run, steps, lists);
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

#endif
