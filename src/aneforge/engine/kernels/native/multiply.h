/* Tasks of one path: convert a region block by block, meet it with all panels, and store the sums. */

#ifndef ANEFORGE_MULTIPLY_H
#define ANEFORGE_MULTIPLY_H

#include "codes.h"
#include "exact.h"
#include "leaving.h"
#include "tile.h"
#ifdef OWN_DOTS
#include "dots_avx512.h"
#endif

#define ALIGNED(bytes) (((size_t)(bytes) + 63) & ~(size_t)63)
#define TILE_TOTALS (PANEL_ROWS * TILE_LANES)

/* A part of an operand in codes, decoded. */
struct weights {
    uint16_t *halves;
    int64_t *places; /* [batch] from where on it lies, counted from the beginning of the operand */
};

struct worker {
    struct region region;
    int64_t converted; /* which region stands converted, where there is one block; -1 for none */
    struct lists lists;
    struct run *runs; /* [sum][piece] */
    int32_t run_count[4];
    double *factors, *kept_from; /* [sum][k][row], of the runs in double */
    char *panel;
    struct weights weights;
    int32_t *totals;  /* [panel][tile][sum], or of one tile where there is one block */
    double *reach;    /* likewise */
    uint8_t *failed;  /* [panel][tile] */
    struct gain gains[PANEL_ROWS]; /* of the rows of one panel */
    double plain_reach;            /* of all of them */
#ifdef OWN_DOTS
    struct dots dots;
#endif
};

/* A vector times a matrix whose steps lie side by side. */
static inline bool takes_dots(const struct plan *plan) {
#ifdef OWN_DOTS
    const bool side_by_side = plan->right_codes ? !plan->right_codes->by_step : plan->right_channel == 1;
    return plan->layout == LAYOUT_MATRIX && plan->element == ANEFORGE_FP16 && plan->groups == 1 && plan->rows == 1 &&
           side_by_side && !plan->left_codes;
#else
    (void)plan;
    return false;
#endif
}

/* Hand out parts of one stretch of memory; with no memory, only count. */
struct share {
    char *memory;
    size_t used;
};

static void *part(struct share *share, size_t count, size_t size) {
    char *const at = share->memory ? share->memory + share->used : NULL;
    share->used += ALIGNED(count * size);
    return at;
}

/* Rows of a panel on the left, or the columns of a region on the right; one of the two operands has codes, or none. */
static void share_weights(const struct plan *plan, struct share *share, struct weights *weights) {
    const size_t left = plan->left_codes ? PANEL_ROWS * (size_t)plan->left_codes->length : 0;
    const size_t right = plan->right_codes ? (size_t)(plan->region_columns * plan->depth) : 0;
    const bool coded = plan->left_codes || plan->right_codes;
    weights->halves = part(share, left + right, sizeof(uint16_t));
    weights->places = part(share, coded ? (size_t)plan->batch : 0, sizeof(int64_t));
}

/* The plan as a worker sees it: what it decoded takes the place of the operand. */
static struct plan plan_of_worker(const struct plan *plan, const struct weights *weights) {
    struct plan own = *plan;
    if (plan->left_codes) {
        own.left = weights->halves;
        own.left_places = weights->places;
        own.left_group = 0;
        own.left_row = plan->left_codes->length;
        own.left_step = 1;
    }
    if (plan->right_codes) {
        own.right = weights->halves;
        own.right_places = weights->places;
        own.right_channel = plan->right_codes->by_step ? plan->region_columns : 1;
        own.right_column = plan->right_codes->by_step ? 1 : plan->depth;
    }
    return own;
}

/* Decode some steps of the rows of a panel. */
static void decode_left(const struct plan *plan, const struct weights *weights, int64_t batch, int64_t group, int64_t row,
                        int64_t first, int64_t end) {
    const int64_t length = plan->left_codes->length, each = length / plan->depth; /* three columns with Winograd */
    const int64_t rows = at_most(plan->rows - row, PANEL_ROWS);
    decode_lines(plan->left_codes, group * plan->rows + row, rows, first * each, (end - first) * each,
                 weights->halves + first * each, length);
    weights->places[batch] = -row * length;
}

/* ... those that one block has of them ... */
static void decode_left_block(const struct plan *plan, const struct weights *weights, int64_t batch, int64_t group,
                              int64_t row, int64_t block) {
    const int64_t steps = plan->block_channels * plan->taps, first = block * steps;
    if (plan->left_codes) decode_left(plan, weights, batch, group, row, first, at_most(first + steps, plan->depth));
}

/* ... and all steps of some columns. */
static void decode_right(const struct plan *plan, const struct weights *weights, int64_t batch, int64_t first,
                         int64_t columns) {
    const struct aneforge_codes *const codes = plan->right_codes;
    if (!codes) return;
    if (codes->by_step) decode_lines(codes, 0, plan->depth, first, columns, weights->halves, plan->right_channel);
    if (!codes->by_step) decode_lines(codes, first, columns, 0, plan->depth, weights->halves, plan->depth);
    weights->places[batch] = -first * plan->right_column;
}

static size_t share_out(const struct plan *plan, char *memory, struct worker *worker) {
    struct share share = {memory, 0};
    struct region *const region = &worker->region;
    const size_t sums = (size_t)plan->sums, depth = (size_t)plan->most_depth, pieces = (size_t)plan->most_pieces;
    const size_t vectors = (size_t)plan->most_vectors, tiles = (size_t)plan->most_tiles;
    const bool matrix = plan->layout == LAYOUT_MATRIX;
    const size_t planes = (size_t)plan->planes * (size_t)plan->plane_size;
    const size_t numbers = matrix ? tiles * depth * TILE_LANES : (size_t)plan->block_channels * planes;
    const size_t panels = (size_t)(plan->task_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const size_t open_tiles = plan->blocks > 1 ? panels * tiles : 1;
    region->values = part(&share, numbers + TAIL, sizeof(float));
    region->exponents = part(&share, numbers + TAIL, 1);
    region->offsets = part(&share, sums * depth, sizeof(uint32_t));
    region->tile_first = part(&share, tiles + 1, sizeof(int32_t));
    region->bases = part(&share, vectors, sizeof(uint32_t));
    region->segment_first = part(&share, vectors + 1, sizeof(int32_t));
    region->segments = part(&share, vectors * LANES, sizeof(struct segment));
    region->piece = part(&share, pieces, sizeof(struct piece));
    region->least = part(&share, sums * tiles * depth, 1);
    region->step_largest = part(&share, OWN_DOUBLES ? sums * tiles * depth : 0, sizeof(float));
    region->largest = part(&share, pieces, sizeof(float));
    region->square_norm = part(&share, sums * pieces, sizeof(float));
    region->squares = part(&share, matrix ? 0 : planes + TAIL, sizeof(float));
    region->halves = part(&share, planes, sizeof(uint16_t));
    region->row = part(&share, (size_t)(2 * plan->plane_pitch + 2), sizeof(float));
    worker->lists.plain = part(&share, depth + LANES, sizeof(uint32_t));
    worker->lists.guarded = part(&share, depth + LANES, sizeof(uint32_t));
    worker->lists.single = part(&share, OWN_DOUBLES ? depth + LANES : 0, sizeof(uint32_t));
    for (int half = 0; half < 2; half++)
        worker->lists.in_double[half] = part(&share, OWN_DOUBLES ? depth + LANES : 0, sizeof(uint32_t));
    worker->lists.every = part(&share, depth, sizeof(uint32_t));
    worker->runs = part(&share, sums * pieces, sizeof(struct run));
    worker->factors = part(&share, OWN_DOUBLES ? 0 : sums * panel_numbers(plan), sizeof(double));
    worker->kept_from = part(&share, OWN_DOUBLES ? 0 : sums * panel_numbers(plan), sizeof(double));
    worker->panel = part(&share, plan->packed ? 0 : 1, plan->panel_bytes);
    share_weights(plan, &share, &worker->weights);
    worker->totals = part(&share, open_tiles * sums * TILE_TOTALS, sizeof(int32_t));
    worker->reach = part(&share, open_tiles * sums, sizeof(double));
    worker->failed = part(&share, open_tiles, 1);
#ifdef OWN_DOTS
    const int64_t steps = takes_dots(plan) ? plan->depth : 0;
    worker->dots.values = part(&share, whole_slots(steps), sizeof(float));
    worker->dots.limits = part(&share, whole_slots(steps), sizeof(uint16_t));
    worker->dots.norms = part(&share, stretches(steps) * SLOTS, sizeof(float));
#endif
    return share.used;
}

static size_t task_bytes(const struct plan *plan) {
    struct worker worker;
    return share_out(plan, NULL, &worker);
}

static void finish_tile(const struct plan *plan, struct region *region, int32_t tile, int64_t first_row,
                        int32_t rows, const struct gain *gains, bool plain, const int32_t *totals, bool failed) {
    if (plan->element == ANEFORGE_INT8) {
        store_rows(plan, region, tile, first_row, totals, sizeof *totals);
        return;
    }
    const bool winograd = plan->layout == LAYOUT_WINOGRAD, widened = plan->unrounded || plan->behind.gain;
    if (!failed && !winograd && !plan->unrounded) {
        leave_tile(plan, region, tile, first_row, gains, plain, totals);
        return;
    }
    const int32_t count = rows * TILE_LANES * region->scale;
    double wide[PANEL_ROWS * RESULTS_LANES];
    uint16_t halves[PANEL_ROWS * RESULTS_LANES];
    int32_t start[TILE_TOTALS];
    if (failed) memset(wide, 0, (size_t)count * sizeof *wide);
    if (failed) exact_tile(plan, region, tile, first_row, wide);
    if (!failed && winograd) set_start(plan, region, tile, first_row, rows, start);
    if (!failed && widened) leave_wide(plan, totals, start, rows, wide);
    if (plan->unrounded) {
        store_rows(plan, region, tile, first_row, wide, sizeof *wide);
        return;
    }
    if (!failed && !widened) leave_combined(totals, start, rows, halves);
    for (int32_t i = 0; i < count && failed && !widened; i++) halves[i] = leave_exact(wide[i]);
    if (plan->behind.gain) leave_gained(plan, region, first_row, gains, wide, halves);
    store_tile(plan, region, tile, first_row, halves);
}

/* Add one block's products to one tile and, after the last block, store it. */
static void do_tile(const struct plan *plan, struct worker *worker, int64_t block, int64_t panel_index, int32_t tile,
                    int64_t first_row, char *panel_memory, bool sorted) {
    struct region *const region = &worker->region;
    const int32_t rows = panel_rows(plan->rows - first_row);
    const size_t open = plan->blocks > 1 ? (size_t)(panel_index * plan->most_tiles + tile) : 0;
    int32_t *const totals = worker->totals + open * (size_t)plan->sums * TILE_TOTALS;
    double *const reach = worker->reach + open * (size_t)plan->sums;
    uint8_t *const failed = worker->failed + open;
    const bool direct = plan->layout != LAYOUT_WINOGRAD;
    if (block == 0) {
        const struct start start = set_start(plan, region, tile, first_row, rows, totals);
        *failed = start.exact;
        reach[0] = start.reach;
        for (int32_t sum = 0; sum < plan->sums && !direct; sum++) {
            memset(totals + sum * TILE_TOTALS, 0, sizeof(int32_t) * (size_t)(rows * TILE_LANES));
            reach[sum] = 0;
        }
    }
    for (int32_t sum = 0; sum < plan->sums && !*failed; sum++) {
        const struct panel panel = panel_at(plan, panel_memory, sum, rows);
        const size_t least = ((size_t)sum * (size_t)plan->most_tiles + (size_t)tile) * (size_t)plan->most_depth;
        struct strip strip = {.left = panel.values,
                              .limits = panel.limits,
                              .largest = {panel.largest[0], panel.largest[1]},
                              .factors = worker->factors + (size_t)sum * panel_numbers(plan),
                              .kept_from = worker->kept_from + (size_t)sum * panel_numbers(plan),
                              .rows = rows,
                              .values = region->values,
                              .exponents = region->exponents,
                              .offsets = region->offsets + (size_t)sum * (size_t)plan->most_depth,
                              .vectors = region->tile_first[tile + 1] - region->tile_first[tile],
                              .totals = totals + sum * TILE_TOTALS};
        for (int32_t v = 0; v < strip.vectors; v++) strip.bases[v] = region->bases[region->tile_first[tile] + v];
        const struct steps steps = {panel.least, sorted ? region->least + least : NULL, region->step_largest + least};
        *failed = !add_runs(&strip, worker->runs + sum * plan->most_pieces, worker->run_count[sum], &steps,
                            &worker->lists, &reach[sum]);
    }
    if (block + 1 < plan->blocks) return;
    if (!*failed && direct && plan->special)
        *failed = zero_from_negative_zero(plan, region, tile, first_row, totals);
    if (*failed && plan->left_codes)
        decode_left(plan, &worker->weights, region->batch, region->group, first_row, 0, plan->depth);
    finish_tile(plan, region, tile, first_row, rows, worker->gains, reach[0] < worker->plain_reach, totals, *failed);
}

static void convert_block(const struct plan *plan, struct worker *worker, int64_t block, bool sorted) {
    (void)sorted;
    struct region *const region = &worker->region;
    const int64_t first = block * plan->block_channels;
    region->channels = (int32_t)at_most(plan->channels - first, plan->block_channels);
    region->depth = (int32_t)(region->channels * plan->taps);
    region->pieces = pieces_of(plan, region->channels, region->piece);
    region->largest_known = false;
    if (plan->layout == LAYOUT_MATRIX) convert_matrix(plan, region, first);
    if (plan->layout != LAYOUT_MATRIX) convert_images(plan, region, first);
#if HAS_FLOATS
    if (sorted) find_least(plan, region);
#endif
}

/* Cut k into runs for one panel, and prepare what goes in double. */
static void prepare_runs(const struct plan *plan, struct worker *worker, char *memory, int32_t sum, int64_t row) {
    const struct panel panel = panel_at(plan, memory, sum, panel_rows(plan->rows - row));
    struct run *const runs = worker->runs + sum * plan->most_pieces;
    const int32_t count = find_runs(plan, &worker->region, &panel, sum, runs);
    for (int32_t r = 0; r < count; r++)
        if (runs[r].in_double) {
#if OWN_DOUBLES
            find_largest(plan, &worker->region);
#else
            const size_t at = (size_t)sum * panel_numbers(plan);
            widen(panel.values, panel.rows, runs[r].first, runs[r].last, worker->factors + at, worker->kept_from + at);
#endif
        }
    worker->run_count[sum] = count;
}

#ifdef OWN_DOTS
/* Add the products of the vector and the columns of a tile to its totals, some columns after the other where they are to be
 * decoded. Return what bounds the sums, as `add_dots` does. */
static double add_decoded(const struct plan *plan, struct worker *worker, int64_t first, int64_t columns) {
    const int64_t batch = worker->region.batch, together = plan->right_codes ? COLUMNS_AT_A_TIME : columns;
    double reach = 0;
    for (int64_t at = 0; at < columns; at += together) {
        const int64_t column = first + at, count = at_most(columns - at, together);
        decode_right(plan, &worker->weights, batch, column, count);
        const int64_t place = plan->right_places[batch] + worker->region.group * plan->right_group;
        const uint16_t *const right = (const uint16_t *)plan->right + place + column * plan->right_column;
        reach = fmax(reach, add_dots(plan, &worker->dots, right, count, worker->totals + at));
    }
    return reach;
}
#endif

/* All tiles of a region, column by column; false where they have to go the general way. */
static bool run_dots(const struct plan *plan, struct worker *worker) {
#ifdef OWN_DOTS
    struct region *const region = &worker->region;
    struct dots *const dots = &worker->dots;
    if (dots->batch != region->batch) set_dots(plan, region->batch, dots);
    if (!dots->finite) return false;
    worker->plain_reach = set_gains(plan, region, 0, worker->gains);
    for (int32_t tile = 0; tile < region->tiles; tile++) {
        const int64_t begin = region->tile_first[tile] * LANES, end = region->tile_first[tile + 1] * LANES;
        const int64_t column = region->first_column + begin, columns = at_most(end, region->columns) - begin;
        const struct start start = set_start(plan, region, tile, 0, 1, worker->totals);
        const double reach = start.reach + add_decoded(plan, worker, column, columns);
        if (reach >= SAFE_REACH) return false;
        const bool negative = plan->special && zero_from_negative_zero(plan, region, tile, 0, worker->totals);
        const bool plain = reach < worker->plain_reach;
        if (start.exact || negative) decode_right(plan, &worker->weights, region->batch, column, columns);
        finish_tile(plan, region, tile, 0, 1, worker->gains, plain, worker->totals, start.exact || negative);
    }
    return true;
#else
    (void)plan, (void)worker;
    return false;
#endif
}

static void run_task(const struct plan *plan, struct worker *worker, int64_t task) {
    struct region *const region = &worker->region;
    const int64_t late = task - plan->whole_regions * plan->row_tasks; /* not negative for one of fewer rows */
    const int64_t row_tasks = late < 0 ? plan->row_tasks : plan->last_row_tasks;
    const int64_t task_rows = late < 0 ? plan->task_rows : plan->last_rows;
    const int64_t number = late < 0 ? task / row_tasks : plan->whole_regions + late / row_tasks;
    const int64_t row_task = (late < 0 ? task : late) % row_tasks;
    const int64_t across = number % plan->regions_across;
    const int64_t down = number / plan->regions_across % plan->regions_down;
    const int64_t image = number / plan->regions_across / plan->regions_down;
    region->batch = image / plan->groups;
    region->group = image % plan->groups;
    region->first_row = down * plan->region_rows;
    region->first_column = across * plan->region_columns;
    region->rows = (int32_t)at_most(plan->down.out - region->first_row, plan->region_rows);
    region->columns = (int32_t)at_most(plan->across.out - region->first_column, plan->region_columns);
    region->scale = plan->layout == LAYOUT_WINOGRAD ? 2 : 1;
    const bool known = plan->blocks == 1 && worker->converted == number;
    if (!known) set_vectors(plan, region);
    if (takes_dots(plan) && run_dots(plan, worker)) return;
    const int64_t first_row = row_task * task_rows;
    const int64_t end_row = at_most(first_row + task_rows, plan->rows);
    const bool sorted = HAS_FLOATS && (task_rows + PANEL_ROWS - 1) / PANEL_ROWS >= plan->least_panels;
    worker->converted = number;
    if (!known) decode_right(plan, &worker->weights, region->batch, region->first_column, region->columns);
    for (int64_t block = 0; block < plan->blocks; block++) {
        if (!known) convert_block(plan, worker, block, sorted);
        for (int64_t row = first_row; row < end_row; row += PANEL_ROWS) {
            const int64_t panel = region->group * plan->panels + row / PANEL_ROWS;
            char *const memory =
                plan->packed ? plan->packed + (size_t)(panel * plan->blocks + block) * plan->panel_bytes : worker->panel;
            if (!plan->packed) {
                decode_left_block(plan, &worker->weights, region->batch, region->group, row, block);
                pack_panel(plan, region->batch, region->group, row, block, region->piece, region->pieces, memory);
            }
            for (int32_t sum = 0; sum < plan->sums; sum++) prepare_runs(plan, worker, memory, sum, row);
            worker->plain_reach = set_gains(plan, region, row, worker->gains);
            for (int32_t tile = 0; tile < region->tiles; tile++)
                do_tile(plan, worker, block, (row - first_row) / PANEL_ROWS, tile, row, memory, sorted);
        }
    }
}

/* Join what one worker noted with what others did. */
static void join_seen(const struct plan *plan, const int64_t *seen) {
    for (int one = 0; one < ANEFORGE_SEEN && plan->behind.seen; one++) {
        int64_t *const all = &plan->behind.seen[one];
        int64_t before = __atomic_load_n(all, __ATOMIC_RELAXED), joined;
        do joined = one == ANEFORGE_ZEROS_BEFORE ? before | seen[one] : before > seen[one] ? before : seen[one];
        while (!__atomic_compare_exchange_n(all, &before, joined, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

static void run_tasks(struct plan *plan, char *memory) {
    struct worker worker;
    share_out(plan, memory, &worker);
    const struct plan own = plan_of_worker(plan, &worker.weights);
    worker.converted = -1;
#ifdef OWN_DOTS
    worker.dots.batch = -1;
#endif
    set_offsets(plan, &worker.region);
    for (int32_t k = 0; k < plan->most_depth; k++) worker.lists.every[k] = (uint32_t)k;
    memset(worker.region.seen, 0, sizeof worker.region.seen);
#ifdef OWN_PASSING
    worker.region.passing = begin_passing(plan->behind.rectifies);
#endif
    for (;;) {
        const int64_t task = __atomic_fetch_add(&plan->next_task, 1, __ATOMIC_RELAXED);
        if (task >= plan->tasks) break;
        run_task(&own, &worker, task);
    }
#ifdef OWN_PASSING
    end_passing(&worker.region.passing, worker.region.seen);
#endif
    join_seen(plan, worker.region.seen);
}

static struct piece *share_packing(const struct plan *plan, struct share *share, struct weights *weights) {
    share_weights(plan, share, weights);
    return part(share, (size_t)plan->most_pieces, sizeof(struct piece));
}

static size_t packing_bytes(const struct plan *plan) {
    struct share share = {NULL, 0};
    struct weights weights;
    share_packing(plan, &share, &weights);
    return share.used;
}

/* Convert the whole left operand, panel by panel. */
static void pack_panels(struct plan *plan, char *memory) {
    struct share share = {memory, 0};
    struct weights weights;
    struct piece *const pieces = share_packing(plan, &share, &weights);
    const struct plan own = plan_of_worker(plan, &weights);
    for (;;) {
        const int64_t next = __atomic_fetch_add(&plan->next_panel, 1, __ATOMIC_RELAXED);
        if (next >= plan->groups * plan->panels) return;
        const int64_t group = next / plan->panels, row = next % plan->panels * PANEL_ROWS;
        for (int64_t block = 0; block < plan->blocks; block++) {
            const int64_t channels = at_most(plan->channels - block * plan->block_channels, plan->block_channels);
            const int32_t count = pieces_of(plan, channels, pieces);
            decode_left_block(&own, &weights, 0, group, row, block);
            pack_panel(&own, 0, group, row, block, pieces, count,
                       plan->packed + (size_t)(next * plan->blocks + block) * plan->panel_bytes);
        }
    }
}

#endif
