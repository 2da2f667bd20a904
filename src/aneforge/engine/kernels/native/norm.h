/* Softmax and norms: every step of `normalisation.py` on sixteen sums side by side, in one pass through memory. */

#ifndef ANEFORGE_NORM_H
#define ANEFORGE_NORM_H

#include "adder.h"
#include "blocks.h"
#include "halves.h"

#define SEGMENTS 32

/* Sixteen sums: what they see as [place][lane], and where it lies in x and out. */
struct block {
    const struct aneforge_norm *job;
    int64_t first; /* place of the first number */
    int32_t lanes; /* that are stored */
    float *values;
    uint16_t *halves;
};

/* Between two knots of a table, as `activations.between` does it: three roundings. */
static double between(const double *knots, double coordinate) {
    const double floored = floor(coordinate), place = floored < SEGMENTS - 1 ? floored : SEGMENTS - 1;
    const double start = knots[(int32_t)place], end = knots[(int32_t)place + 1];
    const double difference = decoded(half_of_double(end - start)), part = (coordinate - place) * difference;
    const uint64_t eleven_bits = (bits_of_double(part) + ((uint64_t)1 << 41)) & ~(((uint64_t)1 << 42) - 1);
    return decoded(half_of_double(start + double_of_bits(eleven_bits)));
}

/* 1 over a number that is not rounded to fp16, as `activations.inverse` has it. */
static uint16_t inverse_of(const double *knots, double x) {
    int32_t exponent;
    const double mantissa = frexp(fabs(x), &exponent);
    if (x == 0) return HALF_INFINITY;
    if (!(fabs(x) < INFINITY)) return 0;
    const uint16_t magnitude = half_of_double(ldexp(between(knots, (mantissa - 0.5) * 2 * SEGMENTS), -exponent));
    return (uint16_t)(magnitude | (x < 0 ? 0x8000u : 0u));
}

/* 1 over the root of a number that is not rounded to fp16, as `activations.rsqrt` has it. */
static uint16_t reciprocal_root_of(const double *knots, double x) {
    int32_t exponent;
    const double mantissa = frexp(x, &exponent);
    if (x == 0) return HALF_INFINITY;
    if (!(x > 0 && x < INFINITY)) return 0;
    const int32_t odd = exponent & 1, quarter = (exponent - odd) / 2;
    return half_of_double(ldexp(between(knots, mantissa * (odd ? 2.0 : 1.0) * 16), -quarter));
}

/* Rows side by side, or rows again; `to_rows` says which. */
static void turn_rows(struct block *block, uint16_t *rows, const bool to_rows) {
    const int64_t length = block->job->length, whole = block->lanes == LANES ? length / 8 * 8 : 0;
    for (int64_t i = 0; i < whole; i += 8)
        for (int32_t lane = 0; lane < LANES; lane += 8) {
            uint16_t *const row = rows + lane * length + i, *const turned = block->halves + i * LANES + lane;
            if (to_rows) transpose_square(turned, LANES, row, length);
            if (!to_rows) transpose_square(row, length, turned, LANES);
        }
    for (int32_t lane = 0; lane < block->lanes; lane++)
        for (int64_t i = whole; i < length; i++) {
            uint16_t *const row = rows + lane * length + i, *const turned = block->halves + i * LANES + lane;
            if (to_rows) *row = *turned;
            if (!to_rows) *turned = *row;
        }
}

static void load_block(struct block *block) {
    const struct aneforge_norm *const job = block->job;
    if (block->lanes < LANES) memset(block->halves, 0, (size_t)job->length * LANES * sizeof(uint16_t));
    if (job->inner == 1) turn_rows(block, (uint16_t *)job->x + block->first, false);
    for (int64_t i = 0; i < job->length && job->inner > 1; i++)
        memcpy(block->halves + i * LANES, job->x + block->first + i * job->inner, (size_t)block->lanes * sizeof(uint16_t));
    for (int64_t i = 0; i < job->length * LANES; i++) block->values[i] = decoded(block->halves[i]);
}

static void store_block(struct block *block) {
    const struct aneforge_norm *const job = block->job;
    uint16_t *const out = (uint16_t *)job->out + block->first;
    if (job->inner == 1) turn_rows(block, out, true);
    for (int64_t i = 0; i < job->length && job->inner > 1; i++)
        memcpy(out + i * job->inner, block->halves + i * LANES, (size_t)block->lanes * sizeof(uint16_t));
}

/* Sums of the values, or of the squared distances from shifts, rounded to fp16. */
static inline __attribute__((always_inline)) bool add_block(const struct block *block, const bool squared,
                                                            const double *shift, double *sums) {
    const struct aneforge_norm *const job = block->job;
    const int64_t most = neighbours(&job->adder);
    reals terms[ANEFORGE_MOST_GROUP * PARTS], shifts[PARTS];
    struct adding adding;
    begin_sums(&adding, &job->adder);
    if (squared) memcpy(shifts, shift, sizeof shifts);
    for (int64_t first = 0; first < job->length; first += most) {
        const int64_t left = job->length - first, count = left < most ? left : most;
        for (int64_t t = 0; t < count; t++)
            for (int part = 0; part < PARTS; part++) {
                const float *const from = block->values + (first + t) * LANES + part * REALS;
                const reals value = __builtin_convertvector(*(const singles *)from, reals);
                const reals distance = squared ? value - shifts[part] : value;
                terms[t * PARTS + part] = squared ? through_half(distance * distance) : value;
            }
        add_neighbours(&adding, terms, count);
    }
    const bool exact = end_sums(&adding);
    memcpy(sums, adding.totals, sizeof adding.totals);
    return exact;
}

static bool softmax_block(struct block *block) {
    const struct aneforge_norm *const job = block->job;
    const double factor = *job->factor;
    float largest[LANES], inverse[LANES];
    double sums[LANES];
    memcpy(largest, block->values, sizeof largest);
    for (int64_t i = 1; i < job->length; i++)
        for (int lane = 0; lane < LANES; lane++) {
            const float value = block->values[i * LANES + lane];
            largest[lane] = value > largest[lane] ? value : largest[lane];
        }
    for (int64_t i = 0; i < job->length; i++) {
        uint16_t *const halves = block->halves + i * LANES;
        float *const values = block->values + i * LANES;
        double scaled[LANES];
        for (int lane = 0; lane < LANES; lane++) scaled[lane] = ((double)values[lane] - (double)largest[lane]) * factor;
        halves_of_sixteen(scaled, halves);
        for (int lane = 0; lane < LANES; lane++) halves[lane] = job->powers[halves[lane]];
        for (int lane = 0; lane < LANES; lane++) values[lane] = decoded(halves[lane]);
    }
    const bool exact = add_block(block, false, NULL, sums);
    for (int lane = 0; lane < LANES; lane++) inverse[lane] = decoded(inverse_of(job->knots, sums[lane]));
    for (int64_t i = 0; i < job->length; i++)
        for (int lane = 0; lane < LANES; lane++)
            block->halves[i * LANES + lane] = half_of_float(block->values[i * LANES + lane] * inverse[lane]);
    return exact;
}

static bool standardise_block(struct block *block) {
    const struct aneforge_norm *const job = block->job;
    double sums[LANES], mean[LANES], root[LANES];
    bool exact = add_block(block, false, NULL, sums);
    for (int lane = 0; lane < LANES; lane++) mean[lane] = decoded(half_of_double(sums[lane] * *job->factor));
    exact &= add_block(block, true, mean, sums);
    for (int lane = 0; lane < LANES; lane++)
        root[lane] = decoded(reciprocal_root_of(job->knots, sums[lane] * *job->factor + *job->epsilon));
    for (int64_t i = 0; i < job->length; i++) {
        double scaled[LANES];
        for (int lane = 0; lane < LANES; lane++)
            scaled[lane] = ((double)block->values[i * LANES + lane] - mean[lane]) * root[lane];
        halves_of_sixteen(scaled, block->halves + i * LANES);
    }
    return exact;
}

static bool shorten_block(struct block *block) {
    static const double nothing[LANES] = {0};
    const struct aneforge_norm *const job = block->job;
    double sums[LANES];
    float root[LANES];
    const bool exact = add_block(block, true, nothing, sums);
    for (int lane = 0; lane < LANES; lane++) {
        const double power = sums[lane] > *job->epsilon ? sums[lane] : *job->epsilon;
        root[lane] = decoded(reciprocal_root_of(job->knots, power));
    }
    for (int64_t i = 0; i < job->length; i++)
        for (int lane = 0; lane < LANES; lane++)
            block->halves[i * LANES + lane] = half_of_float(block->values[i * LANES + lane] * root[lane]);
    return exact;
}

/* Sums alone; they lie one after the other in blocks as in the output. */
static bool sum_block(struct block *block, int64_t place) {
    static const double nothing[LANES] = {0};
    const struct aneforge_norm *const job = block->job;
    double sums[LANES];
    if (job->kind == ANEFORGE_SUM_OF_MAGNITUDES)
        for (int64_t i = 0; i < job->length * LANES; i++) block->values[i] = fabsf(block->values[i]);
    const bool squared = job->kind == ANEFORGE_SUM_OF_SQUARES;
    const bool exact = squared ? add_block(block, true, nothing, sums) : add_block(block, false, NULL, sums);
    memcpy((double *)job->out + place, sums, (size_t)block->lanes * sizeof *sums);
    return exact;
}

/* Gain and offset of every place of the axis, two operations. */
static void scale_block(struct block *block) {
    const struct aneforge_norm *const job = block->job;
    for (int64_t i = 0; i < job->length; i++) {
        uint16_t *const halves = block->halves + i * LANES;
        if (job->gain) {
            const float gain = decoded(job->gain[i]);
            for (int lane = 0; lane < LANES; lane++) halves[lane] = half_of_float(decoded(halves[lane]) * gain);
        }
        if (job->offset) {
            const float offset = decoded(job->offset[i]);
            for (int lane = 0; lane < LANES; lane++) halves[lane] = half_of_float(decoded(halves[lane]) + offset);
        }
    }
}

/* One block; false where a sum may depend on the order of its terms. */
static bool norm(const struct aneforge_norm *job, int64_t number, char *memory) {
    const int64_t across = blocks_of_sums(job), first = number % across * LANES, left = norm_sums(job) - first;
    struct block block = {.job = job, .lanes = (int32_t)(left < LANES ? left : LANES)};
    block.first = job->inner > 1 ? number / across * job->length * job->inner + first : first * job->length;
    block.values = (float *)memory;
    block.halves = (uint16_t *)(block.values + job->length * LANES);
    load_block(&block);
    bool exact = true;
    if (job->kind >= ANEFORGE_SUM) return sum_block(&block, number / across * (job->inner > 1 ? job->inner : 0) + first);
    switch ((enum aneforge_norm_kind)job->kind) {
        case ANEFORGE_SOFTMAX: exact = softmax_block(&block); break;
        case ANEFORGE_STANDARDISED: exact = standardise_block(&block); break;
        case ANEFORGE_BY_LENGTH: exact = shorten_block(&block); break;
        default: break;
    }
    scale_block(&block);
    store_block(&block);
    return exact;
}

#endif
