/* Sums and extremes over many elements for each result, on one path: reductions and pooling.
 *
 * Results come in runs; that number i of a run sees the elements at `place + i * step + taps[t]`. Sixteen results go side
 * by side. How a sum is rounded on its way is said by three numbers, as the golden model's reductions take them: `group`
 * neighbours are added exactly and rounded to fp16, `tree` of those two by two, each sum rounded, and the rest exactly.
 * Sums of fp16 numbers are exact in double as long as `most_reduced` of the binding is kept.
 */

#ifndef ANEFORGE_REDUCE_H
#define ANEFORGE_REDUCE_H

#include <math.h>
#include <string.h>

#include "numbers.h"
#include "path.h"

#define PARTS (LANES / REALS) /* vectors of doubles that hold sixteen lanes; the path gives REALS */
#define SIGN INT64_MIN

typedef double reals __attribute__((vector_size(REALS * 8), aligned(8)));
typedef int64_t wholes __attribute__((vector_size(REALS * 8), aligned(8)));
typedef float singles __attribute__((vector_size(REALS * 4), aligned(4)));

static inline reals chosen(wholes mask, reals yes, reals no) {
    return (reals)(((wholes)yes & mask) | ((wholes)no & ~mask));
}

static inline reals magnitudes(reals values) { return (reals)((wholes)values & ~SIGN); }

/* Numbers without their fractions; they are not negative and below 2^52. */
static inline reals without_fraction(reals values) {
    const reals nearest = (values + 0x1p52) - 0x1p52;
    return nearest - chosen(nearest > values, (reals){0} + 1.0, (reals){0});
}

/* The power of two of the leading bit, but at least 2^-14; so for 0. */
static inline reals leading_power(reals magnitude) {
    const reals power = (reals)((wholes)magnitude & 0x7FF0000000000000);
    return chosen(power < 0x1p-14, (reals){0} + 0x1p-14, power);
}

/* 1 over powers of two. */
static inline reals reciprocals(reals powers) { return (reals)(((int64_t)2046 << 52) - (wholes)powers); }

/* Sums of fp16 numbers, rounded to fp16 and read again as the engine reads it: infinity is 2^16. */
static inline reals through_half(reals sums) {
    const reals magnitude = magnitudes(sums), unit = leading_power(magnitude) * 0x1p-10;
    const reals rounded = without_fraction(magnitude * reciprocals(unit) + 0.5) * unit;
    const reals limited = chosen(rounded > 65536.0, (reals){0} + 65536.0, rounded);
    return (reals)((wholes)limited | ((wholes)sums & SIGN));
}

/* Cut terms towards zero at the last bit of a window that begins at the largest of them. */
static inline void cut_terms(reals *terms, int64_t count, int64_t window) {
    reals largest = {0};
    for (int64_t t = 0; t < count; t++)
        largest = chosen(magnitudes(terms[t * PARTS]) > largest, magnitudes(terms[t * PARTS]), largest);
    const reals unit = leading_power(largest) * double_of_bits((uint64_t)(1023 - (window - 1)) << 52);
    for (int64_t t = 0; t < count; t++) {
        const reals cut = without_fraction(magnitudes(terms[t * PARTS]) * reciprocals(unit)) * unit;
        terms[t * PARTS] = (reals)((wholes)cut | ((wholes)terms[t * PARTS] & SIGN));
    }
}

/* Add terms [t][part], cut to the window if there is one, and round to fp16. Terms that are not here are zeros. */
static inline void add_terms(reals *terms, int64_t count, int64_t window, reals *sums) {
    for (int part = 0; part < PARTS; part++) {
        reals total = {0};
        if (window) cut_terms(terms + part, count, window);
        for (int64_t t = 0; t < count; t++) total += terms[t * PARTS + part];
        sums[part] = through_half(total);
    }
}

/* Elements of sixteen results at one tap; lanes behind the last are zero. */
static inline void gather(const uint16_t *from, int64_t step, int32_t lanes, uint16_t *to) {
    if (step == 1 && lanes == LANES) {
        memcpy(to, from, LANES * sizeof *to);
        return;
    }
    if (lanes < LANES) memset(to, 0, LANES * sizeof *to);
    for (int32_t lane = 0; lane < lanes; lane++) to[lane] = from[lane * step];
}

static inline void read_terms(const struct aneforge_reduce *job, const uint16_t *from, int64_t tap, int64_t count,
                              int32_t lanes, reals *terms) {
    for (int64_t t = 0; t < count; t++) {
        uint16_t halves[LANES];
        uint8_t exponents[LANES];
        float values[LANES];
        gather(from + job->taps[tap + t], job->step, lanes, halves);
        convert_lanes(halves, values, exponents);
        for (int part = 0; part < PARTS; part++) {
            const reals value = __builtin_convertvector(*(const singles *)(values + part * REALS), reals);
            reals *const term = &terms[t * PARTS + part];
            *term = value;
            if (job->kind == ANEFORGE_MAGNITUDES) *term = magnitudes(value);
            if (job->kind == ANEFORGE_SQUARES) *term = through_half(value * value);
        }
    }
}

/* Add the rounded sums two by two; those that are not there are zeros. One number and zeros stay as they are, unless a
 * window cuts below the bits of fp16. */
static inline void add_tree(const struct aneforge_reduce *job, reals *nodes, int64_t there) {
    const bool stays = job->window == 0 || job->window > 10;
    for (int64_t left = job->tree; left > 1 && !(there == 1 && stays); left /= 2) {
        for (int64_t node = 0; node < (there + 1) / 2; node++)
            add_terms(nodes + 2 * node * PARTS, 2 * node + 1 < there ? 2 : 1, job->window, nodes + node * PARTS);
        there = (there + 1) / 2;
    }
}

static void sum_lanes(const struct aneforge_reduce *job, const uint16_t *from, int32_t lanes, double *out) {
    reals terms[ANEFORGE_MOST_GROUP * PARTS], nodes[ANEFORGE_MOST_TREE * PARTS], totals[PARTS] = {{0}};
    for (int64_t tap = 0; tap < job->tap_count; tap += job->group * job->tree) {
        int64_t there = 0;
        for (; there < job->tree && tap + there * job->group < job->tap_count; there++) {
            const int64_t first = tap + there * job->group, left = job->tap_count - first;
            const int64_t count = left < job->group ? left : job->group;
            read_terms(job, from, first, count, lanes, terms);
            add_terms(terms, count, job->window, nodes + there * PARTS);
        }
        add_tree(job, nodes, there);
        for (int part = 0; part < PARTS; part++) totals[part] += nodes[part];
    }
    memcpy(out, totals, (size_t)lanes * sizeof *out);
}

/* Numbers in the order of their values: flip what a sign does to the order of bits. Zeros of both signs are one. */
static inline int32_t ordered(uint16_t half) {
    const int32_t magnitude = half & 0x7FFF;
    return half & 0x8000 ? -magnitude : magnitude;
}

static void extreme_lanes(const struct aneforge_reduce *job, const uint16_t *from, int32_t lanes, uint16_t *out) {
    uint16_t best[LANES], halves[LANES];
    const int32_t sign = job->kind == ANEFORGE_LARGEST ? 1 : -1;
    gather(from + job->taps[0], job->step, lanes, best);
    for (int64_t tap = 1; tap < job->tap_count; tap++) {
        gather(from + job->taps[tap], job->step, lanes, halves);
        for (int32_t lane = 0; lane < LANES; lane++)
            best[lane] = sign * ordered(halves[lane]) > sign * ordered(best[lane]) ? halves[lane] : best[lane];
    }
    for (int32_t lane = 0; lane < lanes; lane++) {
        const uint16_t magnitude = best[lane] & 0x7FFFu;
        out[lane] = magnitude > HALF_INFINITY ? (uint16_t)((best[lane] & 0x8000u) | HALF_INFINITY) : best[lane];
    }
}

/* Results first ... first + count - 1 of one run. */
static void reduce(const struct aneforge_reduce *job, int64_t run, int64_t first, int64_t count) {
    const bool extreme = job->kind == ANEFORGE_LARGEST || job->kind == ANEFORGE_SMALLEST;
    for (int64_t i = first; i < first + count; i += LANES) {
        const int32_t lanes = (int32_t)(first + count - i < LANES ? first + count - i : LANES);
        const uint16_t *const from = job->x + job->places[run] + i * job->step;
        const int64_t place = run * job->length + i;
        if (extreme) extreme_lanes(job, from, lanes, (uint16_t *)job->out + place);
        if (!extreme) sum_lanes(job, from, lanes, (double *)job->out + place);
    }
}

#endif
