/* The C interface of the fast kernels. Every function equals the golden model bit for bit, on every path.
 *
 * Plain C without Python's headers: one shared library serves every Python version, and a machine needs a C compiler
 * alone. Lengths, strides and places are counted in elements. Half-precision numbers travel as their bits.
 */

#ifndef ANEFORGE_KERNELS_H
#define ANEFORGE_KERNELS_H

#include <stdint.h>

#if defined(__GNUC__)
#define ANEFORGE_EXPORT __attribute__((visibility("default")))
#else
#define ANEFORGE_EXPORT
#endif

/* Changed with every change of this file; the binding refuses a library of another number. */
#define ANEFORGE_INTERFACE 11

/* ANEFORGE_INEXACT: sums are so large that they may depend on the order of their terms, and the golden model has to say. */
enum aneforge_status { ANEFORGE_OK = 0, ANEFORGE_NO_MEMORY = 1, ANEFORGE_NO_PATH = 2, ANEFORGE_INEXACT = 3 };

enum aneforge_element { ANEFORGE_FP16 = 0, ANEFORGE_INT8 = 1 };

/* What is done to the results of a product on their way out, and what is noted of them; for fp16 results alone. */
struct aneforge_behind {
    /* Where `gain` is not null: gain * sum + offset in double, rounded once to fp16; what is no number is 0. One of each for
     * every row (output channel), `gain_row` apart; `offset` may be null. */
    const double *gain, *offset;
    int64_t gain_row;
    const uint16_t *table; /* of 65,536 entries, through which every result goes; or null */
    int64_t rectifies;     /* not 0: negative results become 0 instead, and none is larger than the number of these bits */
    int64_t *seen;         /* [ANEFORGE_SEEN], or null */
};
/* The bits of the largest magnitude before the table, whether +0 (1) and -0 (2) were there, and the largest after it. */
enum aneforge_seen { ANEFORGE_LARGEST_BEFORE, ANEFORGE_ZEROS_BEFORE, ANEFORGE_LARGEST_AFTER, ANEFORGE_SEEN };

/* A matrix of weights in codes, from which fp16 numbers are decoded where they are needed (codes.h). Codes of a line lie
 * side by side, and lines one after the other: all codes of an output, or, where `by_step` is not 0, all of a step. Those of
 * a table may have less than a byte each, without gaps even between lines, the first in the lowest bits.
 * Numbers are table[code], or else (code - shift) * factor: one of each for every block, which are counted along lines first.
 * Factors are finite, and shifts whole numbers of at most 2^10. */
struct aneforge_codes {
    const uint8_t *codes;
    int64_t bits; /* of a code: 8, or with a table 1, 2, 3, 4 or 6 */
    int64_t by_step;
    int64_t lines, length;
    int64_t mask, sign;    /* the bits of a byte that count, and that of the sign, or 0 */
    const uint16_t *table; /* or null */
    int64_t entries;       /* of the table: no code is larger */
    int64_t lines_of_block, codes_of_block;
    const uint16_t *factors;
    const uint16_t *shifts; /* or null */
};

/* out[b][m][n] = sum over k of left[b][m][k] * right[b][k][n], from a start value.
 * fp16 operands give fp16, int8 operands give their exact 32-bit sum (no start value there). */
struct aneforge_matmul {
    int64_t element;
    int64_t unrounded; /* 1: the sums of fp16 operands leave in float64, before they are rounded */
    int64_t batch, rows, depth, columns;
    const void *left;
    const int64_t *left_places; /* where each matrix of the batch begins */
    int64_t left_row, left_step;
    const struct aneforge_codes *left_codes; /* what all of the batch have on the left, in place of numbers; or null */
    const void *right;
    const int64_t *right_places;
    int64_t right_step, right_column;
    const struct aneforge_codes *right_codes; /* likewise */
    const double *bias; /* or null */
    const int64_t *bias_places;
    int64_t bias_row, bias_column;
    int64_t bias_count; /* how many numbers stand at `bias` */
    struct aneforge_behind behind;
    const int64_t *out_places;
    int64_t out_row, out_column; /* one of them is 1; `out_row` only where the results are fp16 */
    void *out;
};

/* Images [batch, groups * channels, height, width], kernels [groups * rows, channels, kernel_height, kernel_width],
 * all contiguous. */
struct aneforge_convolution {
    int64_t element;
    int64_t unrounded;
    int64_t winograd; /* 1: F(2,3) along the width; kernel 3x3, stride, dilation and groups 1 */
    int64_t batch, groups, rows, channels;
    int64_t height, width;
    int64_t kernel_height, kernel_width;
    int64_t stride_height, stride_width;
    int64_t dilation_height, dilation_width;
    int64_t pad_top, pad_left;
    int64_t out_height, out_width;
    const void *images;
    const void *kernels;
    const struct aneforge_codes *codes; /* in place of kernels, a line for each output channel; or null */
    const double *bias; /* one for each output channel, or null */
    struct aneforge_behind behind;
    void *out; /* [batch, groups * rows, out_height, out_width] */
};

enum aneforge_pair { ANEFORGE_ADD, ANEFORGE_SUB, ANEFORGE_MUL, ANEFORGE_MAX, ANEFORGE_MIN };

ANEFORGE_EXPORT int32_t aneforge_interface(void);
/* Name of path number `path`, or null; a path that is not in this build or not on this processor has no name.
 * Numbers count up from the best one. */
ANEFORGE_EXPORT const char *aneforge_path(int32_t path);
ANEFORGE_EXPORT int32_t aneforge_processors(void);

ANEFORGE_EXPORT int32_t aneforge_run_matmul(const struct aneforge_matmul *matmul, int32_t path, int32_t threads);
ANEFORGE_EXPORT int32_t aneforge_run_convolution(const struct aneforge_convolution *convolution, int32_t path,
                                                 int32_t threads);

/* Decode lines first ... first + count - 1. */
ANEFORGE_EXPORT int32_t aneforge_decode(const struct aneforge_codes *codes, int64_t first, int64_t count, uint16_t *out,
                                        int32_t path, int32_t threads);

/* Round to fp16, ties away from zero. */
ANEFORGE_EXPORT int32_t aneforge_from_float(const float *values, uint16_t *out, int64_t count, int32_t path,
                                            int32_t threads);
ANEFORGE_EXPORT int32_t aneforge_from_double(const double *values, uint16_t *out, int64_t count, int32_t path,
                                             int32_t threads);
/* Ties to even; inexact where one overflows or is not finite: that is left to the host. */
ANEFORGE_EXPORT int32_t aneforge_from_host(const float *values, uint16_t *out, int64_t count, int32_t path,
                                           int32_t threads);
/* out[i] = table[values[i]], a table of 65,536 entries. */
ANEFORGE_EXPORT int32_t aneforge_lookup(const uint16_t *values, const uint16_t *table, uint16_t *out, int64_t count,
                                        int32_t path, int32_t threads);
/* Pairs of elements, in runs: out[r][i] = x[x_places[r] + i * x_step] op y[y_places[r] + i * y_step], steps 0 or 1. What is
 * behind has no gain. */
struct aneforge_pairs {
    int64_t pair;
    const uint16_t *x;
    const int64_t *x_places;
    int64_t x_step;
    const uint16_t *y;
    const int64_t *y_places;
    int64_t y_step;
    int64_t runs, length;
    struct aneforge_behind behind;
    uint16_t *out; /* [runs, length] */
};
ANEFORGE_EXPORT int32_t aneforge_run_pairs(const struct aneforge_pairs *pairs, int32_t path, int32_t threads);

/* Distances from shifts, in double, and then rounded to fp16: (x - shift) * factor. A run has its shifts from
 * shift_places[r] on, shift_step apart, steps 0 or 1; so its factors. */
struct aneforge_distances {
    const uint16_t *x; /* [runs, length] */
    const double *shift;
    const int64_t *shift_places;
    int64_t shift_step;
    const double *factor;
    const int64_t *factor_places;
    int64_t factor_step;
    int64_t runs, length;
    uint16_t *out; /* [runs, length] */
};
ANEFORGE_EXPORT int32_t aneforge_run_distances(const struct aneforge_distances *distances, int32_t path,
                                               int32_t threads);
/* out[0] = the bits of the largest magnitude, 0 for no numbers. */
ANEFORGE_EXPORT int32_t aneforge_largest_magnitude(const uint16_t *values, int64_t count, uint16_t *out, int32_t path,
                                                   int32_t threads);

enum aneforge_reduction { ANEFORGE_VALUES, ANEFORGE_MAGNITUDES, ANEFORGE_SQUARES, ANEFORGE_LARGEST, ANEFORGE_SMALLEST };

/* How sums are rounded on their way; see adder.h. `chain` is 0 where they are added in groups. */
struct aneforge_adder {
    int64_t group, tree, window;
    int64_t chain, times, bits;
};
/* The largest `group` or `chain`, `tree` and `times` there are. */
#define ANEFORGE_MOST_GROUP 64
#define ANEFORGE_MOST_TREE 64
#define ANEFORGE_MOST_TIMES 8

/* Sums (double, before their last rounding) or extremes (fp16) of the elements `place + i * step + taps[t]` for each
 * place i of each run. */
struct aneforge_reduce {
    int64_t kind;
    const uint16_t *x;
    const int64_t *places; /* [runs] */
    int64_t runs, length, step;
    const int64_t *taps;
    int64_t tap_count; /* at least 1 */
    struct aneforge_adder adder;
    void *out; /* [runs, length] */
};
ANEFORGE_EXPORT int32_t aneforge_run_reduce(const struct aneforge_reduce *reduce, int32_t path, int32_t threads);

enum aneforge_norm_kind {
    ANEFORGE_SOFTMAX,
    ANEFORGE_STANDARDISED,
    ANEFORGE_BY_LENGTH,
    ANEFORGE_SUM,
    ANEFORGE_SUM_OF_MAGNITUDES,
    ANEFORGE_SUM_OF_SQUARES
};

/* Softmax and norms along the middle axis of x [outer, length, inner], each step as `normalisation.py` has it.
 *
 *   softmax       t = (x - largest) * factor; p = powers[t]; p times the inverse of the sum of p
 *   standardised  (x - mean) times the reciprocal root of (sum of squared distances * factor + epsilon)
 *   by length     x times the reciprocal root of the sum of squares, which is at least `epsilon`
 *   sums          of x, of |x| or of x², in double, before they are rounded: out is [outer, inner], and that is all
 *
 * Then times `gain` and plus `offset`, where they are not null: one of each for every place of the axis. */
struct aneforge_norm {
    int64_t kind;
    const uint16_t *x;
    int64_t outer, length, inner;
    struct aneforge_adder adder;
    const double *factor, *epsilon; /* of softmax, log2 e; else 1 over the length */
    const double *knots;            /* 33, of the table that the sum is read off: inverse or reciprocal root */
    const uint16_t *powers;         /* 65,536, of softmax */
    const uint16_t *gain, *offset;  /* [length] */
    void *out;                      /* fp16, as x; or the sums */
};
ANEFORGE_EXPORT int32_t aneforge_run_norm(const struct aneforge_norm *norm, int32_t path, int32_t threads);

#endif
