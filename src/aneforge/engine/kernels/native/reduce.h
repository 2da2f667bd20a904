/* Sums and extremes over many elements for each result, on one path: reductions and pooling.
 *
 * Results come in runs; that number i of a run sees the elements at `place + i * step + taps[t]`. Sixteen results go side
 * by side. `adder.h` says how a sum is rounded on its way.
 */

#ifndef ANEFORGE_REDUCE_H
#define ANEFORGE_REDUCE_H

#include "adder.h"

/* Elements of sixteen results at one tap; lanes behind the last are zero. */
static inline void gather(const uint16_t *from, int64_t step, int32_t lanes, uint16_t *to) {
    if (step == 1 && lanes == LANES) {
        memcpy(to, from, LANES * sizeof *to);
        return;
    }
    if (step == 2 && lanes == LANES) { /* apart, because compilers make vectors of it */
        for (int32_t lane = 0; lane < LANES; lane++) to[lane] = from[2 * lane];
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

static bool sum_lanes(const struct aneforge_reduce *job, const uint16_t *from, int32_t lanes, double *out) {
    reals terms[ANEFORGE_MOST_GROUP * PARTS];
    struct adding adding;
    const int64_t most = neighbours(&job->adder);
    begin_sums(&adding, &job->adder);
    for (int64_t tap = 0; tap < job->tap_count; tap += most) {
        const int64_t left = job->tap_count - tap, count = left < most ? left : most;
        read_terms(job, from, tap, count, lanes, terms);
        add_neighbours(&adding, terms, count);
    }
    const bool exact = end_sums(&adding);
    memcpy(out, adding.totals, (size_t)lanes * sizeof *out);
    return exact;
}

/* Numbers in the order of their values: flip what a sign does to the order of bits. Zeros of both signs are one. */
static inline int16_t ordered(uint16_t half) {
    const int16_t negative = (int16_t)((int16_t)half >> 15); /* without a branch: loops of it become vectors */
    return (int16_t)(((int16_t)(half & 0x7FFFu) ^ negative) - negative);
}

static void extreme_lanes(const struct aneforge_reduce *job, const uint16_t *from, int32_t lanes, uint16_t *out) {
    uint16_t best[LANES], halves[LANES];
    int16_t held[LANES]; /* the best in the order of values */
    const uint16_t turn = job->kind == ANEFORGE_LARGEST ? 0 : 0x8000u; /* the smallest is the largest of the opposites */
    gather(from + job->taps[0], job->step, lanes, best);
    for (int32_t lane = 0; lane < LANES; lane++) held[lane] = ordered(best[lane] ^ turn);
    for (int64_t tap = 1; tap < job->tap_count; tap++) {
        gather(from + job->taps[tap], job->step, lanes, halves);
        for (int32_t lane = 0; lane < LANES; lane++) {
            const int16_t other = ordered(halves[lane] ^ turn);
            const uint16_t more = (uint16_t)(0 - (other > held[lane]));
            best[lane] = (uint16_t)((halves[lane] & more) | (best[lane] & ~more));
            held[lane] = other > held[lane] ? other : held[lane];
        }
    }
    for (int32_t lane = 0; lane < lanes; lane++) {
        const uint16_t magnitude = best[lane] & 0x7FFFu;
        out[lane] = magnitude > HALF_INFINITY ? (uint16_t)((best[lane] & 0x8000u) | HALF_INFINITY) : best[lane];
    }
}

/* Results first ... first + count - 1 of one run; false where a sum may depend on the order of its terms. */
static bool reduce(const struct aneforge_reduce *job, int64_t run, int64_t first, int64_t count) {
    const bool extreme = job->kind == ANEFORGE_LARGEST || job->kind == ANEFORGE_SMALLEST;
    bool exact = true;
    for (int64_t next = first; next < first + count; next += LANES) {
        /* The last vector is a whole one too, with some results again: parts of vectors are gathered one by one. */
        const int64_t left = first + count - next, i = left < LANES && count >= LANES ? first + count - LANES : next;
        const int32_t lanes = (int32_t)(first + count - i < LANES ? first + count - i : LANES);
        const uint16_t *const from = job->x + job->places[run] + i * job->step;
        const int64_t place = run * job->length + i;
        if (extreme) extreme_lanes(job, from, lanes, (uint16_t *)job->out + place);
        if (!extreme) exact &= sum_lanes(job, from, lanes, (double *)job->out + place);
    }
    return exact;
}

#endif
