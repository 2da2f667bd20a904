/* The right operand, converted: a part of a matrix or of images, as floats and exponent bytes.
 *
 * A number of fp16 is a normal number of float32, whatever it is (exponent 31 is an ordinary exponent, see `decoded`).
 */

#ifndef ANEFORGE_REGION_H
#define ANEFORGE_REGION_H

#include <math.h>
#include <string.h>

#include "numbers.h"
#include "path.h"
#include "strip.h"

/* Kernels read whole vectors: so much may be read behind the last number. */
#define TAIL 64
/* Below so many rows the norms that sum squares cost more than they save. */
#define ROWS_FOR_SQUARES 16
/* In place of a norm that is not computed: larger than any, and finite, because its product with 0 must be 0. */
#define NO_NORM 0x1p120f

struct region {
    int64_t batch, group;
    int64_t first_row, first_column; /* of the output */
    int32_t rows, columns;
    int32_t scale; /* columns of the output for each lane */
    int32_t vectors, tiles;
    int32_t *tile_first;        /* [tile + 1] first vector of each tile */
    uint32_t *bases;            /* [vector] */
    int32_t *segment_first;     /* [vector + 1] */
    struct segment *segments;
    int32_t depth, channels;    /* of the block that is converted */
    int32_t pieces;
    struct piece *piece;
    float *values;
    uint8_t *exponents;
    uint32_t *offsets;          /* [sum][k] */
    uint8_t *least;             /* [sum][tile][k] */
    float *step_largest;        /* [sum][tile][k], where it is known */
    bool largest_known;
    float *largest;             /* [group of channels] */
    float *square_norm;         /* [sum][group of channels] */
    float *squares;             /* one channel's planes */
    uint16_t *halves;           /* one channel's planes, before they are converted */
    int64_t seen[ANEFORGE_SEEN]; /* of the results of all tasks of this worker */
#ifdef OWN_PASSING
    struct passing passing; /* likewise, as vectors */
#endif
    float *row;                 /* one decoded row */
};

static inline float larger(float x, float y) { return x > y ? x : y; }

static inline int64_t at_most(int64_t value, int64_t bound) { return value < bound ? value : bound; }

static inline int64_t at_least(int64_t value, int64_t bound) { return value > bound ? value : bound; }

/* Where the start of one sum stands. */
static int64_t start_place(const struct plan *plan, const struct region *region, int64_t row, int64_t column) {
    return plan->bias_places[region->batch] + region->group * plan->bias_group + row * plan->bias_row +
           column * plan->bias_column;
}

/* Copy elements of the right operand from `place` on, `step` apart, as fp16. A byte is a whole number that fp16 holds. */
static void copy_elements(const struct plan *plan, int64_t place, int64_t step, int64_t count, uint16_t *to) {
    if (plan->element == ANEFORGE_INT8) {
        const int8_t *const from = (const int8_t *)plan->right + place;
        for (int64_t i = 0; i < count; i++) to[i] = half_of_float((float)from[i * step]);
        return;
    }
    const uint16_t *const from = (const uint16_t *)plan->right + place;
    if (step == 1)
        memcpy(to, from, (size_t)count * sizeof *to);
    else if (step == 2) /* apart, because compilers make vectors of it */
        for (int64_t i = 0; i < count; i++) to[i] = from[2 * i];
    else
        for (int64_t i = 0; i < count; i++) to[i] = from[i * step];
}

static void convert(const uint16_t *halves, size_t count, float *values, uint8_t *exponents) {
    for (size_t i = 0; i < count; i += LANES) convert_lanes(halves + i, values + i, exponents + i);
}

typedef float lane_floats __attribute__((vector_size(LANES * 4), aligned(4)));

static void add_squares(const float *values, size_t count, float *squares) {
    for (size_t i = 0; i < count; i++) squares[i] += values[i] * values[i];
}

static float largest_magnitude(const float *values, size_t count) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = bits_of_float(values[i]) & 0x7FFFFFFFu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return float_of_bits(largest);
}

/* Steps of the columns of a transposed matrix, whose steps lie side by side: turn squares of it. */
static void turn_columns(const struct plan *plan, int64_t from, int64_t columns, int32_t steps, uint16_t *to) {
    const uint16_t *const right = (const uint16_t *)plan->right + from;
    int64_t column = 0;
    for (; column + 8 <= columns; column += 8) {
        int32_t step = 0;
        for (; step + 8 <= steps; step += 8)
            transpose_square(right + column * plan->right_column + step, plan->right_column,
                             to + step * TILE_LANES + column, TILE_LANES);
        for (; step < steps; step++)
            for (int64_t i = column; i < column + 8; i++) to[step * TILE_LANES + i] = right[i * plan->right_column + step];
    }
    for (; column < columns; column++)
        for (int32_t step = 0; step < steps; step++)
            to[step * TILE_LANES + column] = right[column * plan->right_column + step];
}

/* One piece of one tile of a matrix. */
static void convert_piece(const struct plan *plan, struct region *region, int64_t from, struct piece piece,
                          int64_t columns, size_t to) {
    uint16_t halves[PIECE_MOST * TILE_LANES];
    const int32_t steps = piece.last - piece.first;
    if (columns < TILE_LANES) memset(halves, 0, sizeof halves);
    if (plan->element == ANEFORGE_FP16 && plan->right_column != 1 && plan->right_channel == 1)
        turn_columns(plan, from + piece.first, columns, steps, halves);
    else
        for (int32_t step = 0; step < steps; step++)
            copy_elements(plan, from + (piece.first + step) * plan->right_channel, plan->right_column, columns,
                          halves + step * TILE_LANES);
    const size_t at = to + (size_t)(piece.first * TILE_LANES);
    convert(halves, (size_t)(steps * TILE_LANES), region->values + at, region->exponents + at);
}

/* Largest norm of a column of one piece of a tile. */
static float norm_of_columns(const float *values, size_t steps) {
    lane_floats squares[TILE_VECTORS] = {{0}};
    float most = 0;
    for (size_t step = 0; step < steps; step++)
        for (size_t v = 0; v < TILE_VECTORS; v++) {
            const lane_floats here = *(const lane_floats *)(values + step * TILE_LANES + v * LANES);
            squares[v] += here * here;
        }
    for (size_t i = 0; i < TILE_LANES; i++) most = larger(most, squares[i / LANES][i % LANES]);
    return sqrtf(most) * NORM_SLACK;
}

/* Columns of a matrix: each tile has its steps one after the other. */
static void convert_matrix(const struct plan *plan, struct region *region, int64_t first_step) {
    const int64_t place = plan->right_places[region->batch] + region->group * plan->right_group +
                          first_step * plan->right_channel + region->first_column * plan->right_column;
    memset(region->largest, 0, (size_t)plan->most_pieces * sizeof(float));
    memset(region->square_norm, 0, (size_t)plan->most_pieces * sizeof(float));
    for (int32_t tile = 0; tile < region->tiles; tile++) {
        const int64_t first = region->tile_first[tile] * LANES, end = region->tile_first[tile + 1] * LANES;
        const int64_t columns = at_most(end, region->columns) - first;
        const size_t at = (size_t)tile * (size_t)plan->most_depth * TILE_LANES;
        for (int32_t p = 0; p < region->pieces; p++) {
            const struct piece piece = region->piece[p];
            const float *const values = region->values + at + (size_t)(piece.first * TILE_LANES);
            const size_t steps = (size_t)(piece.last - piece.first);
            convert_piece(plan, region, place + first * plan->right_column, piece, columns, at);
            region->largest[p] = larger(region->largest[p], largest_magnitude(values, steps * TILE_LANES));
            region->square_norm[p] = larger(region->square_norm[p], norm_of_columns(values, steps));
        }
    }
}

/* One row of one plane: columns of an image that leave the same remainder by the stride; zeros outside stay. */
static void copy_row(const struct plan *plan, const struct region *region, int64_t image, int64_t y, int32_t phase,
                     uint16_t *to) {
    const struct axis *const across = &plan->across;
    const int64_t pitch = plan->plane_pitch, stride = across->stride;
    const int64_t x = region->first_column * stride + across->offset[phase] - across->pad;
    const int64_t before = x < 0 ? (-x + stride - 1) / stride : 0;
    const int64_t there = across->extent <= x ? 0 : (across->extent - x + stride - 1) / stride;
    const int64_t end = at_most(there, pitch);
    if (before >= end) return;
    copy_elements(plan, image + y * across->extent + x + before * stride, stride, end - before, to + before);
}

/* One row of the four planes of Winograd F(2,3): the exact transforms of the data, rounded once to fp16. Differences of
 * two fp16 numbers in float32, rounded again to fp16, are rounded as if once: where the difference is not exact in
 * float32, the smaller number is below a quarter of a unit of the larger, and no tie is near. */
static void transform_row(const struct plan *plan, const struct region *region, int64_t image, int64_t y, uint16_t *to) {
    const uint16_t *const from = (const uint16_t *)plan->right + image + y * plan->across.extent;
    const int64_t x = 2 * region->first_column - plan->across.pad;
    const int32_t tiles = plan->plane_pitch, count = 2 * tiles + 2, size = plan->plane_size;
    const int64_t first = at_most(at_least(-x, 0), count);
    const int64_t end = at_least(at_most(plan->across.extent - x, count), first);
    float *const row = region->row;
    for (int64_t i = 0; i < first; i++) row[i] = 0;
    for (int64_t i = first; i < end; i++) row[i] = decoded(from[x + i]);
    for (int64_t i = end; i < count; i++) row[i] = 0;
    for (int32_t i = 0; i < tiles; i++) to[i] = half_of_float(row[2 * i] - row[2 * i + 2]);
    for (int32_t i = 0; i < tiles; i++) to[size + i] = half_of_float(row[2 * i + 1] + row[2 * i + 2]);
    for (int32_t i = 0; i < tiles; i++) to[2 * size + i] = half_of_float(row[2 * i + 2] - row[2 * i + 1]);
    for (int32_t i = 0; i < tiles; i++) to[3 * size + i] = half_of_float(row[2 * i + 1] - row[2 * i + 3]);
}

/* All planes of one channel, beginning at `to`. */
static void convert_channel(const struct plan *plan, struct region *region, int64_t image, size_t to) {
    const int32_t rows = region->rows + plan->down.reach, across = plan->across.phases;
    const size_t size = (size_t)plan->plane_size, planes = (size_t)plan->planes * size;
    memset(region->halves, 0, planes * sizeof(uint16_t));
    for (int32_t down = 0; down < plan->down.phases; down++)
        for (int32_t row = 0; row < rows; row++) {
            const int64_t y = (region->first_row + row) * plan->down.stride + plan->down.offset[down] - plan->down.pad;
            if (y < 0 || y >= plan->down.extent) continue;
            uint16_t *const line = region->halves + (size_t)(down * across) * size + (size_t)(row * plan->plane_pitch);
            if (plan->layout == LAYOUT_WINOGRAD)
                transform_row(plan, region, image, y, line);
            else
                for (int32_t phase = 0; phase < across; phase++)
                    copy_row(plan, region, image, y, phase, line + (size_t)phase * size);
        }
    convert(region->halves, planes, region->values + to, region->exponents + to);
}

/* Largest norm of what any lane multiplies with, over the taps of some channels whose squares are summed. */
static float norm_of_squares(const struct plan *plan, const struct region *region, const uint32_t *offsets) {
    float most = 0;
    for (int32_t v = 0; v < region->vectors; v++) {
        lane_floats sums = {0};
        for (int64_t tap = 0; tap < plan->taps; tap++)
            sums += *(const lane_floats *)(region->squares + region->bases[v] + offsets[tap]);
        for (int32_t lane = 0; lane < LANES; lane++) most = larger(most, sums[lane]);
    }
    return sqrtf(most) * (NORM_SLACK + (float)plan->taps * 0x1p-23f);
}

static void convert_images(const struct plan *plan, struct region *region, int64_t first_channel) {
    const size_t planes = (size_t)plan->planes * (size_t)plan->plane_size;
    const int64_t image = plan->right_places[region->batch] + region->group * plan->right_group;
    const bool squares = plan->rows >= ROWS_FOR_SQUARES;
    int32_t group = -1;
    for (int32_t p = 0; p < region->pieces; p++) {
        if (region->piece[p].group == group) continue;
        group = region->piece[p].group;
        /* A group is one piece of several channels, or one channel of several pieces. */
        const int64_t first = region->piece[p].first / plan->taps;
        const int64_t last = (region->piece[p].last + plan->taps - 1) / plan->taps;
        if (squares) memset(region->squares, 0, (planes + TAIL) * sizeof(float));
        float largest = 0;
        for (int64_t channel = first; channel < last; channel++) {
            const size_t to = (size_t)channel * planes;
            const int64_t place = image + (first_channel + channel) * plan->right_channel;
            convert_channel(plan, region, place, to);
            largest = larger(largest, largest_magnitude(region->values + to, planes));
            if (squares) add_squares(region->values + to, planes, region->squares);
        }
        region->largest[group] = largest;
        for (int32_t sum = 0; sum < plan->sums; sum++)
            region->square_norm[sum * plan->most_pieces + group] =
                squares ? norm_of_squares(plan, region, region->offsets + (size_t)sum * (size_t)plan->most_depth)
                        : NO_NORM;
    }
    memset(region->values + (size_t)region->channels * planes, 0, TAIL * sizeof(float));
    memset(region->exponents + (size_t)region->channels * planes, EXPONENT_OF_ZERO, TAIL);
}

static void set_offsets(const struct plan *plan, struct region *region) {
    if (plan->layout == LAYOUT_MATRIX) {
        for (int32_t k = 0; k < plan->most_depth; k++) region->offsets[k] = (uint32_t)(k * TILE_LANES);
        return;
    }
    const size_t size = (size_t)plan->plane_size, planes = (size_t)plan->planes * size;
    for (int32_t sum = 0; sum < plan->sums; sum++) {
        uint32_t *offset = region->offsets + (size_t)sum * (size_t)plan->most_depth;
        for (int64_t channel = 0; channel < plan->block_channels; channel++)
            for (int64_t i = 0; i < plan->down.taps; i++)
                for (int64_t j = 0; j < plan->across.taps; j++) {
                    const int32_t plane = plan->down.phase[i] * plan->across.phases + plan->across.phase[j] + sum;
                    const int64_t step = (int64_t)plan->down.distance[i] * plan->plane_pitch + plan->across.distance[j];
                    *offset++ = (uint32_t)((size_t)channel * planes + (size_t)plane * size + (size_t)step);
                }
    }
}

/* Share vectors out to tiles: three each, but rather twice two than three and one. */
static void set_tiles(struct region *region) {
    region->tiles = (region->vectors + TILE_VECTORS - 1) / TILE_VECTORS;
    for (int32_t tile = 0; tile < region->tiles; tile++) region->tile_first[tile] = tile * TILE_VECTORS;
    region->tile_first[region->tiles] = region->vectors;
    if (region->vectors > 1 && region->vectors % TILE_VECTORS == 1) region->tile_first[region->tiles - 1]--;
}

static void set_segments(const struct plan *plan, struct region *region, int32_t vector, int32_t place, bool by_rows) {
    const int32_t pitch = plan->layout == LAYOUT_MATRIX ? region->columns : plan->plane_pitch;
    int32_t next = region->segment_first[vector];
    for (int32_t lane = 0; lane < LANES;) {
        const int32_t row = place / pitch, column = place % pitch;
        const int32_t in_line = (int32_t)at_most(pitch - column, LANES - lane);
        const int32_t length = (int32_t)at_most(region->columns - column, LANES - lane);
        const int64_t out = (region->first_row + row) * plan->out_columns + region->scale * (region->first_column + column);
        if (length > 0 && row < region->rows) region->segments[next++] = (struct segment){lane, length, out};
        lane += by_rows ? LANES : in_line;
        place += in_line;
    }
    region->segment_first[vector + 1] = next;
}

/* Where lanes lie: by rows of the output, or through the rows and the gaps between them, whichever takes fewer. */
static void set_vectors(const struct plan *plan, struct region *region) {
    const bool matrix = plan->layout == LAYOUT_MATRIX;
    const int32_t pitch = matrix ? region->columns : plan->plane_pitch;
    const int32_t in_row = (region->columns + LANES - 1) / LANES;
    const int32_t flat = ((region->rows - 1) * pitch + region->columns + LANES - 1) / LANES;
    const bool by_rows = matrix || region->rows * in_row <= flat;
    region->vectors = by_rows ? region->rows * in_row : flat;
    set_tiles(region);
    region->segment_first[0] = 0;
    for (int32_t tile = 0; tile < region->tiles; tile++)
        for (int32_t vector = region->tile_first[tile]; vector < region->tile_first[tile + 1]; vector++) {
            const int32_t place = by_rows ? vector / in_row * pitch + vector % in_row * LANES : vector * LANES;
            const int32_t in_tile = (vector - region->tile_first[tile]) * LANES;
            region->bases[vector] = (uint32_t)(matrix ? tile * plan->most_depth * TILE_LANES + in_tile : place);
            set_segments(plan, region, vector, place, by_rows);
        }
}

#if HAS_FLOATS
static void find_least(const struct plan *plan, struct region *region) {
    for (int32_t sum = 0; sum < plan->sums; sum++) {
        const uint32_t *const offsets = region->offsets + (size_t)sum * (size_t)plan->most_depth;
        for (int32_t tile = 0; tile < region->tiles; tile++) {
            const uint32_t *const bases = region->bases + region->tile_first[tile];
            const int32_t vectors = region->tile_first[tile + 1] - region->tile_first[tile];
            uint8_t *const least =
                region->least + (size_t)(sum * plan->most_tiles + tile) * (size_t)plan->most_depth;
            for (int32_t k = 0; k < region->depth; k++)
                least[k] = least_exponent(region->exponents + offsets[k], bases, vectors);
        }
    }
}
#endif

#if OWN_DOUBLES
/* The largest magnitude of every tile at every step, once for each block. */
static void find_largest(const struct plan *plan, struct region *region) {
    for (int32_t sum = 0; sum < plan->sums && !region->largest_known; sum++)
        for (int32_t tile = 0; tile < region->tiles; tile++) {
            const uint32_t *const bases = region->bases + region->tile_first[tile];
            const int32_t vectors = region->tile_first[tile + 1] - region->tile_first[tile];
            const uint32_t *const offsets = region->offsets + (size_t)sum * (size_t)plan->most_depth;
            float *const largest =
                region->step_largest + (size_t)(sum * plan->most_tiles + tile) * (size_t)plan->most_depth;
            for (int32_t k = 0; k < region->depth; k++)
                largest[k] = largest_in_tile(region->values + offsets[k], bases, vectors);
        }
    region->largest_known = true;
}
#endif

#endif
