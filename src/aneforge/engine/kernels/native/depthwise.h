/* Convolutions of every channel by itself: one kernel for each, so no panel and no tile would be filled.
 *
 * Sums go in double (see doubles.h), sixteen places of a row side by side. Channels whose sums are not proved to stay below
 * the edge, or that start from no plain number, are left to the general way, with all others.
 */

#ifndef ANEFORGE_DEPTHWISE_H
#define ANEFORGE_DEPTHWISE_H

#include "adder.h"
#include "multiply.h"

/* Rows of the padded image that a kernel sees. */
static inline int64_t rows_seen(const struct axis *down) {
    return (down->out - 1) * down->stride + (down->taps - 1) * down->dilation + 1;
}

static inline int64_t depthwise_pitch(const struct plan *plan) {
    return (plan->across.out + plan->across.reach + 2 * LANES - 1) / LANES * LANES;
}

static size_t depthwise_bytes(const struct plan *plan) {
    const int64_t numbers = plan->across.phases * rows_seen(&plan->down) * depthwise_pitch(plan);
    return (size_t)numbers * sizeof(double) + (size_t)plan->taps * 2 * sizeof(double);
}

/* One channel as doubles, zeros around it, a plane for each remainder of the column by the stride; return the largest. */
static double spread_channel(const struct plan *plan, const uint16_t *image, double *planes) {
    const struct axis *const down = &plan->down, *const across = &plan->across;
    const int64_t rows = rows_seen(down), pitch = depthwise_pitch(plan);
    uint16_t largest = 0;
    memset(planes, 0, (size_t)(across->phases * rows * pitch) * sizeof *planes);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t y = row - down->pad;
        if (y < 0 || y >= down->extent) continue;
        const uint16_t *const from = image + y * across->extent;
        for (int64_t x = 0; x < across->extent; x++) {
            const uint16_t magnitude = from[x] & 0x7FFFu;
            largest = magnitude > largest ? magnitude : largest;
        }
        for (int32_t phase = 0; phase < across->phases; phase++) {
            double *const to = planes + (phase * rows + row) * pitch;
            const int64_t first = across->offset[phase] - across->pad, stride = across->stride;
            const int64_t begin = first < 0 ? (-first + stride - 1) / stride : 0;
            const int64_t there = first < across->extent ? (across->extent - first + stride - 1) / stride : 0;
            const int64_t end = at_most(there, across->out + across->reach);
            if (stride == 1)
                for (int64_t i = begin; i < end; i++) to[i] = decoded(from[first + i]);
            else
                for (int64_t i = begin; i < end; i++) to[i] = decoded(from[first + i * stride]);
        }
    }
    return decoded(largest);
}

/* Stretches of sixteen places of rows that are summed at the same time, so that additions do not wait for each other. */
#define STRETCHES 4

/* Sums in units; `places` is where the stretches begin in a plane. */
static inline void add_taps(const struct plan *plan, const double *planes, const int64_t *places, const double *factors,
                            const double *kept_from, int32_t start, int32_t *totals) {
    const int64_t rows = rows_seen(&plan->down), pitch = depthwise_pitch(plan);
    reals sums[STRETCHES * PARTS];
    int64_t bits[STRETCHES * LANES];
    for (int part = 0; part < STRETCHES * PARTS; part++) sums[part] = (reals){0} + DOUBLE_MAGIC;
    for (int64_t i = 0; i < plan->down.taps; i++)
        for (int64_t j = 0; j < plan->across.taps; j++) {
            const int64_t seen = plan->across.phase[j] * rows + i * plan->down.dilation;
            const double *const from = planes + seen * pitch + plan->across.distance[j];
            const double factor = factors[i * plan->across.taps + j], kept = kept_from[i * plan->across.taps + j];
            for (int stretch = 0; stretch < STRETCHES; stretch++)
                for (int part = 0; part < PARTS; part++) {
                    const reals values = *(const reals *)(from + places[stretch] + part * REALS);
                    const wholes stays = (wholes)(magnitudes(values) >= kept);
                    sums[stretch * PARTS + part] += (reals)((wholes)(values * factor) & stays);
                }
        }
    memcpy(bits, sums, sizeof bits);
    for (int lane = 0; lane < STRETCHES * LANES; lane++) totals[lane] = (int32_t)bits[lane] + start;
}

/* Sixteen sums on their way out. */
static inline void leave_sums(const struct plan *plan, int64_t channel, const int32_t *totals, uint16_t *halves) {
    const struct aneforge_behind *const behind = &plan->behind;
    if (behind->gain) {
        const int64_t place = channel * behind->gain_row;
        const double gain = behind->gain[place], offset = behind->offset ? behind->offset[place] : -0.0;
        double results[LANES];
        for (int lane = 0; lane < LANES; lane++) results[lane] = totals[lane] * 0x1p-16 * gain + offset;
        halves_of_sixteen(results, halves);
        return;
    }
#ifdef OWN_LEAVING
    leave_lanes(totals, halves);
#else
    for (int lane = 0; lane < LANES; lane++) halves[lane] = half_of_units(totals[lane]);
#endif
}

/* One channel of one image; false where it is left to the general way. */
static bool convolve_channel(const struct plan *plan, int64_t image, int64_t channel, char *memory, int64_t *seen) {
    const uint16_t *const weights = (const uint16_t *)plan->left + channel * plan->left_group;
    double *const factors = (double *)memory, *const kept_from = factors + plan->taps, *const planes = kept_from + plan->taps;
    const int64_t from = plan->bias_group * channel;
    if (plan->special && plan->special[from] != START_PLAIN) return false;
    const int32_t start = plan->start ? plan->start[from] : 0;
    double sum = 0;
    for (int64_t tap = 0; tap < plan->taps; tap++) {
        const int32_t least = DROPPED_UP_TO + 1 - exponent_of(weights[tap]);
        kept_from[tap] = least <= LEAST_EXPONENT ? 0.0 : double_of_bits((uint64_t)(1023 + least) << 52);
        factors[tap] = (double)decoded(weights[tap]) * 65536.0 * (1.0 + 0x1p-41);
        sum += fabs(factors[tap]);
    }
    const int64_t place = plan->right_places[image] + channel * plan->right_group;
    const double largest = spread_channel(plan, (const uint16_t *)plan->right + place, planes);
    if (!(sum * largest + 0.5 * (double)plan->taps + fabs((double)start) < SAFE_REACH)) return false;
    uint16_t *const out = (uint16_t *)plan->out + image * plan->out_batch + channel * plan->out_group;
    const int64_t in_row = (plan->across.out + LANES - 1) / LANES, count = plan->down.out * in_row;
    for (int64_t first = 0; first < count; first += STRETCHES) {
        int64_t places[STRETCHES];
        int32_t totals[STRETCHES * LANES];
        for (int stretch = 0; stretch < STRETCHES; stretch++) {
            const int64_t number = at_most(first + stretch, count - 1);
            places[stretch] = number / in_row * plan->down.stride * depthwise_pitch(plan) + number % in_row * LANES;
        }
        add_taps(plan, planes, places, factors, kept_from, start, totals);
        for (int64_t number = first; number < at_most(first + STRETCHES, count); number++) {
            const int64_t column = number % in_row * LANES, there = at_most(plan->across.out - column, LANES);
            uint16_t halves[LANES];
            leave_sums(plan, channel, totals + (number - first) * LANES, halves);
            map_results(plan, seen, halves, there);
            memcpy(out + number / in_row * plan->out_columns + column, halves, (size_t)there * sizeof *halves);
        }
    }
    return true;
}

/* Channels until there are no more, or one is left to the general way. */
static void run_depthwise(struct plan *plan, char *memory) {
    int64_t seen[ANEFORGE_SEEN] = {0};
    for (;;) {
        const int64_t next = __atomic_fetch_add(&plan->next_task, 1, __ATOMIC_RELAXED);
        if (next >= plan->batch * plan->groups || __atomic_load_n(&plan->beyond, __ATOMIC_RELAXED)) break;
        if (!convolve_channel(plan, next / plan->groups, next % plan->groups, memory, seen))
            __atomic_store_n(&plan->beyond, 1, __ATOMIC_RELAXED);
    }
    join_seen(plan, seen);
}

#endif
