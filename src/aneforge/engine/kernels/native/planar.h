/* Elements and pairs of elements, on one path: plain loops that the compiler turns into the path's vectors. */

#ifndef ANEFORGE_PLANAR_H
#define ANEFORGE_PLANAR_H

#include "multiply.h"
#include "numbers.h"
#include "path.h"
#ifdef OWN_PAIRS
#include "pairs_avx512.h"
#endif

static void from_float(const float *values, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_of_float(values[i]);
}

static void from_double(const double *values, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_of_double(values[i]);
}

/* ... ties to even; false where one overflows or is not finite. */
static bool from_host(const float *values, uint16_t *out, int64_t count) {
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t magnitude = bits_of_float(values[i]) & 0x7FFFFFFFu;
        most = magnitude > most ? magnitude : most;
        out[i] = half_of_host(values[i]);
    }
    return float_of_bits(most) < 65520.0f;
}

static void lookup(const uint16_t *values, const uint16_t *table, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = table[values[i]];
}

/* One exact operation, one rounding. A product of two fp16 numbers is exact in float32. A sum is exact, or the smaller
 * number is less than a quarter of a unit of the larger and no tie is near: rounded to float32 and then to fp16 it is
 * rounded as if once. Of two equal numbers the larger or smaller is the second, which tells for +0 and -0. */
#define PAIRS(name, expression)                                                                                       \
    static void name(const uint16_t *x, int64_t x_step, const uint16_t *y, int64_t y_step, uint16_t *out,             \
                     int64_t count) {                                                                                 \
        if (x_step && y_step) {                                                                                       \
            for (int64_t i = 0; i < count; i++) {                                                                     \
                const float a = decoded(x[i]), b = decoded(y[i]);                                                     \
                out[i] = half_of_float(expression);                                                                   \
            }                                                                                                         \
            return;                                                                                                   \
        }                                                                                                             \
        const float single = decoded(x_step ? *y : *x);                                                               \
        const uint16_t *const other = x_step ? x : y;                                                                 \
        const int64_t step = x_step | y_step;                                                                         \
        for (int64_t i = 0; i < count; i++) {                                                                         \
            const float here = decoded(other[i * step]);                                                              \
            const float a = x_step ? here : single, b = x_step ? single : here;                                       \
            out[i] = half_of_float(expression);                                                                       \
        }                                                                                                             \
    }
PAIRS(add_pairs, a + b)
PAIRS(sub_pairs, a - b)
PAIRS(mul_pairs, a *b)
PAIRS(max_pairs, float_of_bits(choice(a > b, bits_of_float(a), bits_of_float(b))))
PAIRS(min_pairs, float_of_bits(choice(a < b, bits_of_float(a), bits_of_float(b))))
#undef PAIRS

static void plain_pairs(int64_t pair, const uint16_t *x, int64_t x_step, const uint16_t *y, int64_t y_step, uint16_t *out,
                        int64_t count) {
    static void (*const functions[])(const uint16_t *, int64_t, const uint16_t *, int64_t, uint16_t *, int64_t) = {
        [ANEFORGE_ADD] = add_pairs, [ANEFORGE_SUB] = sub_pairs, [ANEFORGE_MUL] = mul_pairs,
        [ANEFORGE_MAX] = max_pairs, [ANEFORGE_MIN] = min_pairs,
    };
    functions[pair](x, x_step, y, y_step, out, count);
}

/* A part of one run, or several short runs, with what is behind. */
static void pairs(const struct aneforge_pairs *job, int64_t first_run, int64_t runs, int64_t first, int64_t count) {
    uint16_t *const out = job->out + first_run * job->length + first;
    for (int64_t run = 0; run < runs; run++) {
        const uint16_t *const x = job->x + job->x_places[first_run + run] + first * job->x_step;
        const uint16_t *const y = job->y + job->y_places[first_run + run] + first * job->y_step;
#ifdef OWN_PAIRS
        int64_t done = lane_pairs(job->pair, x, job->x_step, y, job->y_step, out + run * count, count);
#else
        int64_t done = 0;
#endif
        plain_pairs(job->pair, x + done * job->x_step, job->x_step, y + done * job->y_step, job->y_step,
                    out + run * count + done, count - done);
    }
    const struct plan leaving = {.behind = job->behind};
    int64_t seen[ANEFORGE_SEEN] = {0};
    map_results(&leaving, seen, out, runs * count);
    join_seen(&leaving, seen);
}

/* Each operation in double, as the golden model does it. Steps are known where this is called, so that loops with them
 * become vectors. */
static inline __attribute__((always_inline)) void scale_distances(const uint16_t *x, const double *shift,
                                                                  const int64_t shift_step, const double *factor,
                                                                  const int64_t factor_step, uint16_t *out,
                                                                  int64_t count) {
    for (int64_t i = 0; i < count; i++)
        out[i] = half_of_double(((double)decoded(x[i]) - shift[i * shift_step]) * factor[i * factor_step]);
}

static void distances(const struct aneforge_distances *job, int64_t run, int64_t first, int64_t count) {
    const uint16_t *const x = job->x + run * job->length + first;
    uint16_t *const out = job->out + run * job->length + first;
    const double *const shift = job->shift + job->shift_places[run] + first * job->shift_step;
    const double *const factor = job->factor + job->factor_places[run] + first * job->factor_step;
    if (job->shift_step && job->factor_step) scale_distances(x, shift, 1, factor, 1, out, count);
    if (job->shift_step && !job->factor_step) scale_distances(x, shift, 1, factor, 0, out, count);
    if (!job->shift_step && job->factor_step) scale_distances(x, shift, 0, factor, 1, out, count);
    if (!job->shift_step && !job->factor_step) scale_distances(x, shift, 0, factor, 0, out, count);
}

static uint16_t largest_half(const uint16_t *values, int64_t count) {
    uint16_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint16_t magnitude = values[i] & 0x7FFFu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

#endif
