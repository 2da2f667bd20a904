/* What all paths share: how a product of matrices or a convolution is cut into panels, regions, tiles and blocks.
 *
 * Everything is a sum over k of left[row][k] * right[k][lane]. The left operand is broadcast: rows of a matrix, or the
 * kernels of a convolution. The right operand fills vectors of LANES lanes: columns of a matrix, or places of images.
 *
 *   panel   PANEL_ROWS rows of the left operand, converted and laid out [k][row]
 *   region  a part of the right operand, converted once into memory that fits a processor's cache. Images are not
 *           unfolded: a tap of the kernel is an offset into the region, so a lane's operand for tap (i, j) lies at the
 *           lane's base plus offsets[k]. A stride becomes one plane for each remainder of the place by the stride.
 *   tile    PANEL_ROWS rows times TILE_VECTORS vectors: what a kernel keeps in registers
 *   block   a range of k that is converted at a time, so that memory stays bounded for any depth
 *   piece   a short range of k with norms of both operands, from which the bounds of partial sums are proved
 *   task    a region times a range of rows: what one thread does at a time
 */

#ifndef ANEFORGE_PLAN_H
#define ANEFORGE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

#define LANES 16
#define PANEL_ROWS 8
#define TILE_VECTORS 3
#define TILE_LANES (LANES * TILE_VECTORS)
#define PIECE_STEPS 16 /* least length of a piece, where the depth has as much */
#define PIECE_MOST 32

/* Exponents are bytes with this added; zeros, which contribute nothing with any partner, have the largest byte. */
#define EXPONENT_BIAS 64
#define EXPONENT_OF_ZERO 255
/* A sum of two such bytes from here on cannot be dropped. */
#define KEPT_FROM (2 * EXPONENT_BIAS + 1 + (-17))
/* ... and from here on a zero is among the two. */
#define ZERO_FROM 200

/* What a zero of the left operand is stored as (see panel.h), but for its sign. */
#define STORED_ZERO 0x00800001u

/* In float32, 1.5 * 2^23 plus a sum in units of 2^-16 is exact, and rounds products to whole units, while the sum stays
 * below 2^22 units. */
#define FLOAT_MAGIC 12582912.0f
#define FLOAT_MAGIC_BITS 0x4B400000u
#define FLOAT_REACH (4194304.0 - 4096.0)
#define DOUBLE_MAGIC 6755399441055744.0
/* Runs in double end here, so that the edge is looked at often enough. */
#define DOUBLE_RUN_REACH 268435456.0
/* Sums that are proved to stay below this many units cannot pass the edge at 2^31. */
#define SAFE_REACH (2147483648.0 - 1048576.0)
/* Norms are sums in float32 of at most a few thousand terms each: this covers their rounding. */
#define NORM_SLACK 1.001f

enum layout { LAYOUT_MATRIX, LAYOUT_IMAGE, LAYOUT_WINOGRAD };

enum special { START_PLAIN = 0, START_EXACT = 1, START_NEGATIVE_ZERO = 2 };

/* One axis of a convolution: where each tap of the kernel reads, as a remainder by the stride and a distance. */
struct axis {
    int64_t extent, out, taps, stride, pad, dilation;
    int32_t phases;    /* remainders that occur */
    int32_t *phase;    /* [taps] which of them */
    int32_t *distance; /* [taps] how many strides away */
    int32_t *offset;   /* [phases] the remainder itself */
    int32_t reach;     /* largest distance */
};

struct plan {
    enum aneforge_element element;
    enum layout layout;
    int32_t sums; /* for each lane: 1, or the 4 of Winograd */
    int64_t batch, groups, rows, channels, taps, depth;

    const void *left;
    const int64_t *left_places;
    int64_t left_group, left_row, left_step;
    const struct aneforge_codes *left_codes; /* in place of its numbers, or null */
    bool left_shared; /* by the whole batch */

    const void *right;
    const int64_t *right_places;
    int64_t right_group, right_channel, right_column;
    const struct aneforge_codes *right_codes; /* likewise, of a matrix */
    struct axis down, across; /* of images; of a matrix only `across.out` */

    void *out;
    bool unrounded; /* sums in float64 instead of fp16 */
    const int64_t *out_places; /* of the batch; or null, and then they are `out_batch` apart */
    int64_t out_batch, out_group, out_row, out_columns;
    int64_t out_turned; /* how far columns lie apart where rows lie side by side; 0 where columns do */

    const double *bias; /* or null */
    const int64_t *bias_places;
    int64_t bias_group, bias_row, bias_column;
    int32_t *start;   /* the bias in units of 2^-16 */
    uint8_t *special; /* enum special for each number, or null if all are plain */
    struct aneforge_behind behind;

    int64_t block_channels, blocks;
    int64_t region_rows, region_columns, regions_down, regions_across;
    int64_t task_rows, row_tasks, tasks;
    int64_t whole_regions, last_rows, last_row_tasks; /* regions after the first ones have tasks of fewer rows */
    int64_t panels;       /* of one group */
    int32_t panel_room;   /* rows of the largest panel */
    int32_t least_panels; /* of a task, from which on it pays to sort steps */
    size_t panel_bytes, packed_bytes;
    char *packed; /* the whole left operand, or null if each task packs its own */
    int32_t plane_pitch, plane_size, planes; /* of one channel in a region */
    int32_t most_vectors, most_tiles, most_pieces, most_depth; /* of one region or block */
    int64_t channels_at_a_time;                                /* of a convolution of every channel by itself */
    int64_t next_task, next_panel;                             /* counted up by the workers */
    int32_t failed;                                            /* a worker had no memory */
    int32_t beyond;                                            /* a channel has to go the general way */
};

/* A piece is k from first up to last; its norms on the right belong to a group of channels. */
struct piece {
    int32_t first, last, group;
};

/* A stretch of a vector's lanes that lies in one row of the output. */
struct segment {
    int32_t lane, length;
    int64_t place;
};

/* Rows of a panel: a power of two, so that a kernel exists for it. */
static inline int32_t panel_rows(int64_t rows_left) {
    return rows_left >= 5 ? 8 : rows_left >= 3 ? 4 : (int32_t)rows_left;
}

/* Numbers of a panel; they are written in whole vectors. */
static inline size_t panel_numbers(const struct plan *plan) {
    return (size_t)plan->most_depth * (size_t)plan->panel_room + LANES;
}

#endif
