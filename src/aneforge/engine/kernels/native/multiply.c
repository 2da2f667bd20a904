/* Plans: how a product of matrices or a convolution is cut into tasks, and the entry points that run them. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "path.h"
#include "select.h"
#include "workers.h"

/* Numbers of a region take five bytes each; a region of this size leaves room for panels in a second-level cache. */
#define REGION_BYTES ((int64_t)640 << 10)
#define NUMBER_BYTES 5
#define BLOCK_DEPTH 2048
#define REGION_COLUMNS 512
/* Steps of an image's block: two of its panels still fit a second-level cache beside a region. */
#define IMAGE_DEPTH 5120
#define MOST_TILES 16
#define ROWS_TRIED 64
/* Numbers of regions that are tried for several threads, beside the least one. */
#define REGIONS_TRIED 8
/* Numbers of one channel in a region, however far apart a kernel's taps are; a thread takes fifteen bytes for each. */
#define MOST_NUMBERS ((int64_t)1 << 27)
/* Products below which starting threads costs more than it saves. */
#define PRODUCTS_PER_THREAD 100000.0
#define TASKS_PER_THREAD 6
#define REGIONS_PER_THREAD 3
#define LEAST_TASK_ROWS 64
/* The same where a region is shared that would be the last one. */
#define LEAST_LAST_ROWS 32
/* Parts of the channels of a convolution of every channel by itself. */
#define PARTS_PER_THREAD 8
/* Panels of a task from which on sorting steps pays: it costs as much as a quarter of a panel or so. */
#define SORTED_PANELS 3
/* A packed operand may take this many times what the tensors take; the regions of all threads take the rest of the
 * budget of three times. Small ones are packed in any case. */
#define MOST_PACKED 1.6
#define SMALL_PACKED 1048576.0
/* What a thread may take for one channel of a convolution of every channel by itself. */
#define MOST_DEPTHWISE ((size_t)4 << 20)

static int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

static int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

static int64_t greater(int64_t x, int64_t y) { return x > y ? x : y; }

size_t panel_size(const struct plan *plan, size_t limit_bytes) {
    const size_t bytes = panel_numbers(plan) * (sizeof(float) + limit_bytes) +
                         (size_t)plan->most_depth * (1 + 2 * sizeof(uint16_t)) +
                         2 * sizeof(float) * (size_t)plan->most_pieces;
    return ((bytes + 63) & ~(size_t)63) * (size_t)plan->sums;
}

/* Short pieces of some channels; a piece never leaves its group of channels, whose norms it uses. */
int32_t pieces_of(const struct plan *plan, int64_t channels, struct piece *pieces) {
    const int64_t together = plan->taps >= PIECE_STEPS ? 1 : divided_up(PIECE_STEPS, plan->taps);
    int32_t count = 0, group = 0;
    for (int64_t channel = 0; channel < channels; channel += together, group++) {
        const int64_t end = smaller(channel + together, channels) * plan->taps;
        for (int64_t first = channel * plan->taps; first < end; first += PIECE_MOST) {
            if (pieces) pieces[count] = (struct piece){(int32_t)first, (int32_t)smaller(first + PIECE_MOST, end), group};
            count++;
        }
    }
    return count;
}

static bool set_axis(struct axis *axis) {
    axis->phase = malloc((size_t)axis->taps * 3 * sizeof(int32_t));
    if (!axis->phase) return false;
    axis->distance = axis->phase + axis->taps;
    axis->offset = axis->distance + axis->taps;
    axis->phases = 0;
    axis->reach = 0;
    for (int64_t tap = 0; tap < axis->taps; tap++) {
        const int32_t remainder = (int32_t)(tap * axis->dilation % axis->stride);
        int32_t phase = 0;
        while (phase < axis->phases && axis->offset[phase] != remainder) phase++;
        if (phase == axis->phases) axis->offset[axis->phases++] = remainder;
        axis->phase[tap] = phase;
        axis->distance[tap] = (int32_t)(tap * axis->dilation / axis->stride);
        if (axis->distance[tap] > axis->reach) axis->reach = axis->distance[tap];
    }
    return true;
}

/* The bias in units, and which numbers of it need care. */
static bool set_starts(struct plan *plan, int64_t count) {
    plan->start = malloc((size_t)greater(count, 1) * (sizeof(int32_t) + 1));
    if (!plan->start) return false;
    uint8_t *const special = (uint8_t *)(plan->start + count);
    bool any = false;
    for (int64_t i = 0; i < count; i++) {
        const double scaled = plan->bias[i] * 65536.0;
        const double units = trunc(scaled + copysign(0.5, scaled));
        const bool plain = fabs(units) < EDGE_UNITS;
        plan->start[i] = plain ? (int32_t)units : 0;
        special[i] = !plain ? START_EXACT : units == 0 && signbit(units) ? START_NEGATIVE_ZERO : START_PLAIN;
        any |= special[i] != START_PLAIN;
    }
    plan->special = any ? special : NULL;
    return true;
}

/* Regions of a matrix: a few tiles of columns each; for several threads rather more regions, which take turns. */
static void cut_matrix(struct plan *plan, int32_t threads) {
    plan->block_channels = smaller(plan->channels, BLOCK_DEPTH);
    const int64_t tile_bytes = plan->block_channels * TILE_LANES * NUMBER_BYTES;
    const int64_t tiles = divided_up(plan->across.out, TILE_LANES);
    const int64_t fitting = smaller(greater(REGION_BYTES / tile_bytes, 1), MOST_TILES);
    const int64_t shares = tiles * plan->batch * plan->groups / (threads * REGIONS_PER_THREAD);
    const bool few_rows = plan->rows < (int64_t)threads * LEAST_TASK_ROWS; /* too few for a task of rows each */
    const bool many = threads > 1 && (tiles > fitting || few_rows);
    const int64_t most = many ? smaller(fitting, greater(shares, 1)) : fitting;
    const int64_t each = divided_up(tiles, divided_up(tiles, most));
    plan->region_rows = 1;
    plan->region_columns = smaller(each * TILE_LANES, plan->across.out);
    plan->most_vectors = (int32_t)divided_up(plan->region_columns, LANES);
}

/* About how long a region of so many rows takes, in cycles for each channel: to multiply, by tiles of three vectors or
 * two or one, ... */
static double multiplying_cost(const struct plan *plan, int64_t rows) {
    if (rows == 0) return 0;
    const int64_t by_rows = rows * divided_up(plan->region_columns, LANES);
    const int64_t flat = divided_up((rows - 1) * plan->plane_pitch + plan->region_columns, LANES);
    const int64_t vectors = smaller(by_rows, flat), threes = vectors / TILE_VECTORS;
    static const double rest[TILE_VECTORS] = {0.0, 2.0, 2.5};
    const double tiles = (double)threes * 3.0 + rest[vectors % TILE_VECTORS];
    const double products = (double)divided_up(plan->rows, PANEL_ROWS) * (double)plan->taps * plan->sums;
    return tiles * 10.0 * products;
}

/* ... and to convert, with the rows around it. */
static double converting_cost(const struct plan *plan, int64_t rows) {
    if (rows == 0) return 0;
    return (double)((rows + plan->down.reach) * plan->plane_pitch) * plan->planes * 0.5;
}

static double image_cost(const struct plan *plan, int64_t rows) {
    const int64_t whole = plan->down.out / rows, rest = plan->down.out % rows;
    return (double)whole * (multiplying_cost(plan, rows) + converting_cost(plan, rows)) + multiplying_cost(plan, rest) +
           converting_cost(plan, rest);
}

/* About how long the slowest thread takes where regions have so many rows, and tasks a part of the kernels each. What is
 * left over when every thread has had as many regions is shared (see `cut`). */
static double slowest_cost(const struct plan *plan, int32_t threads, int64_t rows, int64_t parts) {
    const int64_t images = plan->batch * plan->groups * divided_up(plan->across.out, plan->region_columns);
    const int64_t regions = images * divided_up(plan->down.out, rows), rest = plan->down.out % rows;
    const double multiplying = multiplying_cost(plan, rows), converting = converting_cost(plan, rows);
    if (parts > 1) {
        const int64_t rounds = divided_up(regions * parts, threads);
        return (double)rounds * multiplying / (double)parts + (double)smaller(regions, rounds) * converting;
    }
    const double shared = (double)greater(smaller(threads, plan->rows / LEAST_LAST_ROWS), 1);
    const double last = multiplying_cost(plan, rest ? rest : rows) / shared;
    return (double)(regions / threads) * (multiplying + converting) + (double)(regions % threads) * (last + converting);
}

/* Rows of a region so that threads have equal shares: a few more regions than the least number, or parts of the kernels
 * for each. Return how many parts. */
static int64_t share_rows(struct plan *plan, int32_t threads, int64_t most) {
    const int64_t least = divided_up(plan->down.out, most), parts = greater(plan->rows / LEAST_TASK_ROWS, 1);
    int64_t best_parts = 1;
    double best = slowest_cost(plan, threads, plan->region_rows, 1);
    for (int64_t count = least; count <= smaller(least + REGIONS_TRIED, plan->down.out); count++)
        for (int64_t each = 1; each <= smaller(parts, 2 * threads); each *= 2) {
            const int64_t rows = divided_up(plan->down.out, count);
            const double cost = slowest_cost(plan, threads, rows, each);
            if (cost >= best) continue;
            best = cost;
            best_parts = each;
            plan->region_rows = rows;
        }
    return best_parts;
}

/* Regions of images: whole rows where they are not too long, and as many as fit and serve best. Return false where the
 * taps of a kernel lie so far apart that one region would be enormous. */
static bool cut_images(struct plan *plan, int32_t threads) {
    const int64_t parts = divided_up(plan->across.out, REGION_COLUMNS);
    plan->region_columns = divided_up(plan->across.out, parts);
    const int64_t least_plane = (plan->region_columns + plan->across.reach) * (1 + (int64_t)plan->down.reach);
    if (least_plane > MOST_NUMBERS / plan->down.phases / plan->across.phases || plan->taps > MOST_NUMBERS) return false;
    plan->plane_pitch = (int32_t)(plan->region_columns + plan->across.reach);
    plan->planes = plan->layout == LAYOUT_WINOGRAD ? 4 : plan->down.phases * plan->across.phases;
    const int64_t row_bytes = (int64_t)plan->planes * plan->plane_pitch * NUMBER_BYTES;
    const int64_t fitting = REGION_BYTES / (plan->channels * row_bytes) - plan->down.reach;
    const int64_t most = smaller(greater(fitting, divided_up(TILE_LANES, plan->region_columns)), plan->down.out);
    plan->region_rows = most;
    for (int64_t rows = most; 2 * rows > most && rows > most - ROWS_TRIED; rows--)
        if (image_cost(plan, rows) < image_cost(plan, plan->region_rows)) plan->region_rows = rows;
    plan->row_tasks = threads > 1 ? share_rows(plan, threads, most) : 1;
    const int64_t most_rows = MOST_NUMBERS / plan->planes / plan->plane_pitch - plan->down.reach;
    plan->region_rows = smaller(plan->region_rows, greater(most_rows, 1));
    const int64_t used = (plan->region_rows + plan->down.reach) * plan->plane_pitch;
    /* Planes at distances that are multiples of a page's size would compete for the same lines of a cache. */
    plan->plane_size = (int32_t)((used + LANES - 1) / LANES * LANES);
    if (plan->plane_size % 256 == 0) plan->plane_size += LANES;
    const int64_t channel_bytes = (int64_t)plan->planes * plan->plane_size * NUMBER_BYTES;
    const int64_t by_memory = greater(2 * REGION_BYTES / channel_bytes, 1);
    const int64_t by_depth = greater(IMAGE_DEPTH / plan->taps, 1);
    plan->block_channels = smaller(smaller(by_memory, by_depth), plan->channels);
    plan->most_vectors = (int32_t)greater(divided_up(plan->region_rows * plan->plane_pitch, LANES),
                                          plan->region_rows * divided_up(plan->region_columns, LANES));
    return true;
}

static double product_count(const struct plan *plan) {
    return (double)plan->batch * (double)plan->groups * (double)plan->rows * (double)plan->depth *
           (double)plan->down.out * (double)plan->across.out * plan->sums;
}

static double tensor_bytes(const struct plan *plan) {
    const double out = (double)plan->batch * (double)plan->groups * (double)plan->rows * (double)plan->down.out *
                       (double)plan->across.out;
    const double left = (double)plan->groups * (double)plan->rows * (double)plan->depth * (plan->sums == 1 ? 1 : 3);
    const double right = (double)plan->batch * (double)plan->groups * (double)plan->channels *
                         (plan->layout == LAYOUT_MATRIX ? (double)plan->across.out
                                                        : (double)plan->down.extent * (double)plan->across.extent);
    return 2 * (out + left + right);
}

static bool cut(struct plan *plan, const struct path *path, int32_t threads) {
    if (plan->layout == LAYOUT_MATRIX)
        cut_matrix(plan, threads);
    else if (!cut_images(plan, threads))
        return false;
    plan->blocks = divided_up(plan->channels, plan->block_channels);
    plan->most_tiles = (int32_t)divided_up(plan->most_vectors, TILE_VECTORS);
    plan->most_depth = (int32_t)(plan->block_channels * plan->taps);
    plan->most_pieces = pieces_of(plan, plan->block_channels, NULL);
    plan->regions_down = divided_up(plan->down.out, plan->region_rows);
    plan->regions_across = divided_up(plan->across.out, plan->region_columns);
    plan->panels = divided_up(plan->rows, PANEL_ROWS);
    plan->panel_room = panel_rows(plan->rows);
    plan->least_panels = SORTED_PANELS;
    const int64_t regions = plan->batch * plan->groups * plan->regions_down * plan->regions_across;
    /* A region is converted by every thread that has a task of it: where there are enough, each is one task. */
    const bool enough = threads == 1 || regions >= (int64_t)threads * REGIONS_PER_THREAD;
    const int64_t wanted = enough ? 1 : divided_up((int64_t)threads * TASKS_PER_THREAD, regions);
    const int64_t of_matrix = greater(smaller(wanted, plan->rows / LEAST_TASK_ROWS), 1);
    const int64_t row_tasks = plan->layout == LAYOUT_MATRIX ? of_matrix : plan->row_tasks;
    plan->task_rows = divided_up(divided_up(plan->rows, row_tasks), PANEL_ROWS) * PANEL_ROWS;
    plan->row_tasks = divided_up(plan->rows, plan->task_rows);
    /* What is left over when every thread has had as many regions is shared by rows, so that no thread waits for another. */
    const int64_t left = plan->row_tasks == 1 ? regions % threads : 0, parts = smaller(threads, plan->rows / LEAST_LAST_ROWS);
    plan->whole_regions = left && parts > 1 ? regions - left : regions;
    plan->last_rows = divided_up(divided_up(plan->rows, greater(parts, 1)), PANEL_ROWS) * PANEL_ROWS;
    plan->last_row_tasks = divided_up(plan->rows, plan->last_rows);
    plan->tasks = plan->whole_regions * plan->row_tasks + (regions - plan->whole_regions) * plan->last_row_tasks;
    plan->panel_bytes = panel_size(plan, path->limit_bytes);
    plan->packed_bytes = (size_t)(plan->groups * plan->panels * plan->blocks) * plan->panel_bytes;
    return true;
}

/* The left operand is packed as a whole where several regions use it and it takes little more than the tensors. */
static bool worth_packing(const struct plan *plan) {
    const int64_t uses = plan->batch * plan->regions_down * plan->regions_across;
    return plan->left_shared && uses > 1 && (double)plan->packed_bytes <= MOST_PACKED * tensor_bytes(plan) + SMALL_PACKED;
}

struct job {
    struct plan *plan;
    const struct path *path;
};

static void pack_part(void *context, int32_t worker) {
    const struct job *const job = context;
    char *const memory = worker_memory(worker, job->path->packing_bytes(job->plan));
    if (!memory) {
        __atomic_store_n(&job->plan->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    job->path->pack_panels(job->plan, memory);
}

static void run_part(void *context, int32_t worker) {
    const struct job *const job = context;
    char *const memory = worker_memory(worker, job->path->task_bytes(job->plan));
    if (!memory) {
        __atomic_store_n(&job->plan->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    job->path->run_tasks(job->plan, memory);
}

static int32_t run_plan(struct plan *plan, const struct path *path, int32_t threads) {
    struct job job = {plan, path};
    const double useful = product_count(plan) / PRODUCTS_PER_THREAD;
    const int32_t most = useful < threads ? (int32_t)useful + 1 : threads;
    if (!cut(plan, path, most)) return ANEFORGE_NO_MEMORY;
    if (worth_packing(plan)) {
        plan->packed = aligned_alloc(64, plan->packed_bytes);
        if (plan->packed) in_parallel(most, pack_part, &job);
    }
    if (!plan->failed) in_parallel((int32_t)smaller(most, plan->tasks), run_part, &job);
    free(plan->packed);
    return plan->failed ? ANEFORGE_NO_MEMORY : ANEFORGE_OK;
}

static void depthwise_part(void *context, int32_t worker) {
    const struct job *const job = context;
    char *const memory = worker_memory(worker, job->path->depthwise_bytes(job->plan));
    if (!memory) {
        __atomic_store_n(&job->plan->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    job->path->run_depthwise(job->plan, memory);
}

/* Convolve every channel by itself; false where a channel has to go the general way, and all are to go it. */
static bool run_by_channels(struct plan *plan, const struct path *path, int32_t threads) {
    struct job job = {plan, path};
    if (path->depthwise_bytes(plan) > MOST_DEPTHWISE) return false;
    const double useful = product_count(plan) / PRODUCTS_PER_THREAD;
    const int32_t most = useful < threads ? (int32_t)useful + 1 : threads;
    plan->channels_at_a_time = divided_up(plan->batch * plan->groups, (int64_t)most * PARTS_PER_THREAD);
    in_parallel(most, depthwise_part, &job);
    if (!plan->beyond) return true;
    plan->next_task = 0;
    if (plan->behind.seen) memset(plan->behind.seen, 0, ANEFORGE_SEEN * sizeof *plan->behind.seen);
    return false;
}

static void forget(struct plan *plan) {
    free(plan->start);
    free(plan->down.phase);
    free(plan->across.phase);
}

/* A product with one column is the product of the transposes, which fills whole vectors. */
static void set_operands(struct plan *plan, const struct aneforge_matmul *matmul, bool turned) {
    plan->rows = turned ? matmul->columns : matmul->rows;
    plan->across.out = turned ? matmul->rows : matmul->columns;
    plan->left = turned ? matmul->right : matmul->left;
    plan->left_places = turned ? matmul->right_places : matmul->left_places;
    plan->left_row = turned ? matmul->right_column : matmul->left_row;
    plan->left_step = turned ? matmul->right_step : matmul->left_step;
    plan->right = turned ? matmul->left : matmul->right;
    plan->right_places = turned ? matmul->left_places : matmul->right_places;
    plan->right_channel = turned ? matmul->left_step : matmul->right_step;
    plan->right_column = turned ? matmul->left_row : matmul->right_column;
    plan->left_codes = turned ? matmul->right_codes : matmul->left_codes;
    plan->right_codes = turned ? matmul->left_codes : matmul->right_codes;
    plan->bias_row = turned ? matmul->bias_column : matmul->bias_row;
    plan->bias_column = turned ? matmul->bias_row : matmul->bias_column;
}

int32_t aneforge_run_matmul(const struct aneforge_matmul *matmul, int32_t path_number, int32_t threads) {
    const struct path *const path = path_numbered(path_number);
    if (!path) return ANEFORGE_NO_PATH;
    struct plan plan = {.element = (enum aneforge_element)matmul->element,
                        .layout = LAYOUT_MATRIX,
                        .sums = 1,
                        .batch = matmul->batch,
                        .groups = 1,
                        .channels = matmul->depth,
                        .taps = 1,
                        .depth = matmul->depth,
                        .out = matmul->out,
                        .unrounded = matmul->unrounded != 0,
                        .out_places = matmul->out_places,
                        .behind = matmul->behind,
                        .bias = matmul->bias,
                        .bias_places = matmul->bias_places};
    plan.down.out = 1;
    const bool plain_gain = !matmul->behind.gain || matmul->behind.gain_row == 0;
    const bool by_step = matmul->right_codes && matmul->right_codes->by_step; /* only on the right */
    const bool turned = matmul->columns == 1 && matmul->rows > 1 && matmul->out_row == 1 && plain_gain && !by_step;
    set_operands(&plan, matmul, turned);
    plan.left_shared = true;
    for (int64_t one = 1; one < matmul->batch; one++)
        plan.left_shared &= plan.left_places[one] == plan.left_places[0];
    plan.out_columns = plan.across.out;
    plan.out_row = turned ? plan.across.out : matmul->out_row;
    plan.out_turned = !turned && matmul->out_column != 1 ? matmul->out_column : 0;
    int32_t status = ANEFORGE_NO_MEMORY;
    if (!plan.bias || set_starts(&plan, matmul->bias_count)) status = run_plan(&plan, path, threads);
    forget(&plan);
    return status;
}

/* Images of one place each are the rows of a matrix. */
static int32_t run_as_matmul(const struct aneforge_convolution *given, int32_t path, int32_t threads) {
    static const int64_t origin = 0;
    const int64_t depth = given->channels;
    const struct aneforge_matmul matmul = {.element = given->element,
                                           .unrounded = given->unrounded,
                                           .batch = 1,
                                           .rows = given->batch,
                                           .depth = depth,
                                           .columns = given->rows,
                                           .left = given->images,
                                           .left_places = &origin,
                                           .left_row = depth,
                                           .left_step = 1,
                                           .right = given->kernels,
                                           .right_places = &origin,
                                           .right_step = 1,
                                           .right_column = depth,
                                           .right_codes = given->codes,
                                           .bias = given->bias,
                                           .bias_places = &origin,
                                           .bias_column = 1,
                                           .bias_count = given->rows,
                                           .behind = given->behind,
                                           .out_places = &origin,
                                           .out_row = given->rows,
                                           .out_column = 1,
                                           .out = given->out};
    return aneforge_run_matmul(&matmul, path, threads);
}

static bool is_pointwise(const struct aneforge_convolution *given) {
    return !given->winograd && given->kernel_height == 1 && given->kernel_width == 1 && given->stride_height == 1 &&
           given->stride_width == 1 && given->pad_top == 0 && given->pad_left == 0 &&
           given->out_height == given->height && given->out_width == given->width;
}

static void set_axes(struct plan *plan, const struct aneforge_convolution *given) {
    plan->down = (struct axis){.extent = given->height,
                               .out = given->out_height,
                               .taps = given->kernel_height,
                               .stride = given->stride_height,
                               .pad = given->pad_top,
                               .dilation = given->dilation_height};
    plan->across = (struct axis){.extent = given->width,
                                 .out = given->out_width,
                                 .taps = given->kernel_width,
                                 .stride = given->stride_width,
                                 .pad = given->pad_left,
                                 .dilation = given->dilation_width};
    if (plan->layout == LAYOUT_MATRIX) {
        plan->down.out = 1;
        plan->across.out = given->height * given->width;
    }
    if (plan->layout == LAYOUT_WINOGRAD) {
        plan->across.out = divided_up(given->out_width, 2);
        plan->across.taps = 1;
    }
}

int32_t aneforge_run_convolution(const struct aneforge_convolution *given, int32_t path_number, int32_t threads) {
    const struct path *const path = path_numbered(path_number);
    if (!path) return ANEFORGE_NO_PATH;
    const bool pointwise = is_pointwise(given);
    if (pointwise && given->groups == 1 && given->height * given->width == 1 && !given->behind.gain)
        return run_as_matmul(given, path_number, threads);
    const int64_t plane = given->height * given->width, out_plane = given->out_height * given->out_width;
    struct plan plan = {.element = (enum aneforge_element)given->element,
                        .layout = given->winograd ? LAYOUT_WINOGRAD : pointwise ? LAYOUT_MATRIX : LAYOUT_IMAGE,
                        .sums = given->winograd ? 4 : 1,
                        .batch = given->batch,
                        .groups = given->groups,
                        .rows = given->rows,
                        .channels = given->channels,
                        .left = given->kernels,
                        .left_step = 1,
                        .left_codes = given->codes,
                        .left_shared = true,
                        .right = given->images,
                        .right_group = given->channels * plane,
                        .right_channel = plane,
                        .right_column = 1,
                        .out = given->out,
                        .unrounded = given->unrounded != 0,
                        .out_batch = given->groups * given->rows * out_plane,
                        .out_group = given->rows * out_plane,
                        .out_row = out_plane,
                        .bias = given->bias,
                        .bias_group = given->rows,
                        .bias_row = 1,
                        .behind = given->behind};
    set_axes(&plan, given);
    plan.out_columns = pointwise ? out_plane : given->out_width;
    plan.taps = plan.down.taps * plan.across.taps;
    plan.depth = plan.channels * plan.taps;
    plan.left_row = given->channels * given->kernel_height * given->kernel_width;
    plan.left_group = given->rows * plan.left_row;
    int64_t *const places = calloc((size_t)given->batch, 2 * sizeof(int64_t));
    for (int64_t image = 0; places && image < given->batch; image++)
        places[image] = image * given->groups * given->channels * plane;
    plan.right_places = places;
    plan.left_places = plan.bias_places = places ? places + given->batch : NULL; /* zeros */
    int32_t status = ANEFORGE_NO_MEMORY;
    if (places && set_axis(&plan.down) && set_axis(&plan.across) &&
        (!plan.bias || set_starts(&plan, given->groups * given->rows))) {
        const bool by_channels = given->groups > 1 && given->rows == 1 && given->channels == 1 && !given->winograd &&
                                 !given->unrounded && plan.element == ANEFORGE_FP16 && !pointwise && !given->codes;
        const bool done = by_channels && run_by_channels(&plan, path, threads);
        if (done) status = plan.failed ? ANEFORGE_NO_MEMORY : ANEFORGE_OK;
        if (!done) status = run_plan(&plan, path, threads);
    }
    forget(&plan);
    free(places);
    return status;
}
