/* Convolutions of every channel by itself: one kernel for each, so no panel and no tile would be filled.
 *
 * A channel is converted to floats, zeros around it, into one plane for each remainder of the place by the stride. A tap of
 * the kernel is then an offset, and lanes go through the rows and the gaps between them: what falls into a gap is computed
 * and not stored. Sums go in float32 where the channel's bound proves that they can (see panel.h), else in double (see
 * doubles.h). Channels whose sums are not proved to stay below the edge, or that start from no plain number, are left to
 * the general way, with all others.
 */

#ifndef ANEFORGE_DEPTHWISE_H
#define ANEFORGE_DEPTHWISE_H

#include "adder.h"
#include "multiply.h"

/* Lines to be spread: elements of each `step` apart. */
struct lines {
    const uint16_t *from;
    int64_t from_apart, lines, count, step;
    float *to;
    int64_t to_apart;
};

/* Places from `begin` to `end`, and which element the first one is. */
struct range {
    int64_t begin, end, element;
};

#ifdef OWN_SPREADING
#include "spread_avx512.h"
#endif

/* Lanes that are summed at the same time, so that additions do not wait for each other. */
#define TOGETHER (4 * LANES)

/* What one channel needs; the planes and the offsets of taps are laid out alike for all. */
struct channel {
    double *wide_factors, *wide_kept_from; /* [tap] for sums in double */
    float *factors, *kept_from;            /* [tap] for sums in float32 */
    int64_t *offsets;                      /* [tap] in the planes */
    float *planes;
    uint16_t *halves; /* results, in rows as far apart as those of the planes */
    uint16_t *line;   /* one row of one plane before it is converted */
    uint16_t *stored; /* [vector] the lanes that lie in no gap between rows */
#ifdef OWN_PASSING
    struct passing passing; /* of all channels of this worker */
#endif
};

static inline int64_t depthwise_pitch(const struct plan *plan) { return plan->across.out + plan->across.reach; }

static inline int64_t depthwise_plane(const struct plan *plan) {
    return (plan->down.out + plan->down.reach) * depthwise_pitch(plan);
}

static inline int64_t depthwise_stretches(const struct plan *plan) {
    return ((plan->down.out - 1) * depthwise_pitch(plan) + plan->across.out + TOGETHER - 1) / TOGETHER;
}

/* Numbers of all planes, and of what the last stretch reads behind them. */
static inline size_t depthwise_numbers(const struct plan *plan) {
    return (size_t)(plan->down.phases * plan->across.phases * depthwise_plane(plan) + TOGETHER);
}

static size_t share_channel(const struct plan *plan, char *memory, struct channel *channel) {
    struct share share = {memory, 0};
    const size_t taps = (size_t)plan->taps;
    channel->wide_factors = part(&share, taps, sizeof(double));
    channel->wide_kept_from = part(&share, taps, sizeof(double));
    channel->factors = part(&share, taps + LANES, sizeof(float));
    channel->kept_from = part(&share, taps + LANES, sizeof(float));
    channel->offsets = part(&share, taps, sizeof(int64_t));
    channel->planes = part(&share, depthwise_numbers(plan), sizeof(float));
    channel->halves = part(&share, (size_t)(depthwise_stretches(plan) * TOGETHER), sizeof(uint16_t));
    channel->line = part(&share, (size_t)depthwise_pitch(plan), sizeof(uint16_t));
    channel->stored = part(&share, (size_t)depthwise_stretches(plan) * TOGETHER / LANES, sizeof(uint16_t));
    return share.used;
}

static size_t depthwise_bytes(const struct plan *plan) {
    struct channel channel;
    return share_channel(plan, NULL, &channel);
}

static void set_planes(const struct plan *plan, struct channel *channel) {
    memset(channel->planes, 0, depthwise_numbers(plan) * sizeof(float));
    for (int64_t tap = 0; tap < plan->taps; tap++) {
        const int64_t i = tap / plan->across.taps, j = tap % plan->across.taps;
        const int64_t plane = plan->down.phase[i] * plan->across.phases + plan->across.phase[j];
        channel->offsets[tap] = plane * depthwise_plane(plan) + plan->down.distance[i] * depthwise_pitch(plan) +
                                plan->across.distance[j];
    }
    for (int64_t lane = 0; lane < depthwise_stretches(plan) * TOGETHER; lane++) {
        const int64_t row = lane / depthwise_pitch(plan), column = lane % depthwise_pitch(plan);
        uint16_t *const stored = &channel->stored[lane / LANES];
        *stored = lane % LANES ? *stored : 0;
        if (row < plan->down.out && column < plan->across.out) *stored |= (uint16_t)(1u << lane % LANES);
    }
}

#ifndef OWN_SPREADING
/* The largest magnitude of a channel, and the least but for 0, less one: then that of 0 is the largest. */
struct magnitudes {
    uint16_t before_least, largest;
};

static inline struct magnitudes no_magnitudes(void) { return (struct magnitudes){0xFFFFu, 0}; }

static inline uint16_t largest_seen(const struct magnitudes *seen) { return seen->largest; }

static inline uint16_t before_least_seen(const struct magnitudes *seen) { return seen->before_least; }

static inline struct magnitudes spread_line(const uint16_t *from, int64_t count, float *to, struct magnitudes seen) {
    uint16_t largest = seen.largest, before_least = seen.before_least;
    for (int64_t i = 0; i < count; i++) to[i] = decoded(from[i]);
    for (int64_t i = 0; i < count; i++) {
        const uint16_t magnitude = from[i] & 0x7FFFu, before = (uint16_t)(magnitude - 1);
        largest = magnitude > largest ? magnitude : largest;
        before_least = before < before_least ? before : before_least;
    }
    return (struct magnitudes){before_least, largest};
}
#define STEPS_SPREAD 1
#else
#define STEPS_SPREAD 2
#endif

/* Lines of one plane as floats. Those of elements further apart than a path reads are copied together first. */
static struct magnitudes spread_plane(const struct plan *plan, struct lines lines, uint16_t *copy, struct magnitudes seen) {
#ifdef OWN_SPREADING
    if (lines.step <= STEPS_SPREAD) return spread_lines(lines, seen);
#endif
    for (int64_t line = 0; line < lines.lines; line++) {
        const uint16_t *from = lines.from + line * lines.from_apart;
        if (lines.step > 1) copy_elements(plan, from - (const uint16_t *)plan->right, lines.step, lines.count, copy);
        if (lines.step > 1) from = copy;
#ifdef OWN_SPREADING
        seen = spread_by(1, (struct lines){from, 0, 1, lines.count, 1, lines.to + line * lines.to_apart, 0}, seen);
#else
        seen = spread_line(from, lines.count, lines.to + line * lines.to_apart, seen);
#endif
    }
    return seen;
}

/* The places along an axis whose elements there are, of those that a phase of it sees. */
static inline struct range there(const struct axis *axis, int32_t phase, int64_t places) {
    const int64_t first = axis->offset[phase] - axis->pad, stride = axis->stride;
    const int64_t begin = first < 0 ? (-first + stride - 1) / stride : 0;
    const int64_t end = first < axis->extent ? (axis->extent - first + stride - 1) / stride : 0;
    return (struct range){begin, at_most(end, places), first + begin * stride};
}

/* One channel into the planes; what lies around it is zero already. Return which magnitudes it has. */
static struct magnitudes spread_channel(const struct plan *plan, const uint16_t *image, const struct channel *channel) {
    struct magnitudes seen = no_magnitudes();
    const struct axis *const down = &plan->down, *const across = &plan->across;
    const int64_t pitch = depthwise_pitch(plan);
    for (int32_t plane = 0; plane < down->phases; plane++)
        for (int32_t phase = 0; phase < across->phases; phase++) {
            const struct range rows = there(down, plane, down->out + down->reach), columns = there(across, phase, pitch);
            const int64_t at = (plane * across->phases + phase) * depthwise_plane(plan) + rows.begin * pitch + columns.begin;
            const struct lines lines = {.from = image + rows.element * across->extent + columns.element,
                                        .from_apart = down->stride * across->extent,
                                        .lines = rows.end - rows.begin,
                                        .count = columns.end - columns.begin,
                                        .step = across->stride,
                                        .to = channel->planes + at,
                                        .to_apart = pitch};
            if (lines.lines > 0 && lines.count > 0) seen = spread_plane(plan, lines, channel->line, seen);
        }
    return seen;
}

#if HAS_FLOATS
#define TOGETHER_VECTORS (TOGETHER / FLOAT_LANES)

/* Sums of one stretch in units; where nothing can be dropped nothing is compared. */
static inline __attribute__((always_inline)) void sum_floats(const struct plan *plan, const struct channel *channel,
                                                             const float *from, const bool guarded, int32_t start,
                                                             int32_t *totals) {
    some_floats sums[TOGETHER_VECTORS];
    for (int v = 0; v < TOGETHER_VECTORS; v++) sums[v] = spread_float(FLOAT_MAGIC);
    for (int64_t tap = 0; tap < plan->taps; tap++) {
        const some_floats factor = spread_float(channel->factors[tap]), least = spread_float(channel->kept_from[tap]);
        const float *const seen = from + channel->offsets[tap];
        for (int v = 0; v < TOGETHER_VECTORS; v++) {
            const some_floats values = *(const some_floats *)(seen + v * FLOAT_LANES);
            const some_floats magnitude = (some_floats)((some_words)values & 0x7FFFFFFF);
            const some_floats partner =
                guarded ? (some_floats)((some_words)values & (some_words)(magnitude >= least)) : values;
            sums[v] = fused_floats(factor, partner, sums[v]);
        }
    }
    for (int v = 0; v < TOGETHER_VECTORS; v++)
        *(some_words *)(totals + v * FLOAT_LANES) = (some_words)sums[v] - (int32_t)FLOAT_MAGIC_BITS + start;
}

static void sum_plain(const struct plan *plan, const struct channel *channel, const float *from, int32_t start,
                      int32_t *totals) {
    sum_floats(plan, channel, from, false, start, totals);
}

static void sum_guarded(const struct plan *plan, const struct channel *channel, const float *from, int32_t start,
                        int32_t *totals) {
    sum_floats(plan, channel, from, true, start, totals);
}
#endif

/* The same in double. */
static void sum_doubles(const struct plan *plan, const struct channel *channel, const float *from, int32_t start,
                        int32_t *totals) {
    reals sums[TOGETHER / REALS];
    int64_t bits[TOGETHER];
    for (int v = 0; v < TOGETHER / REALS; v++) sums[v] = (reals){0} + DOUBLE_MAGIC;
    for (int64_t tap = 0; tap < plan->taps; tap++) {
        const double factor = channel->wide_factors[tap], kept = channel->wide_kept_from[tap];
        for (int v = 0; v < TOGETHER / REALS; v++) {
            const singles values = *(const singles *)(from + channel->offsets[tap] + v * REALS);
            const reals wide = __builtin_convertvector(values, reals);
            sums[v] += (reals)((wholes)(wide * factor) & (wholes)(magnitudes(wide) >= kept));
        }
    }
    memcpy(bits, sums, sizeof bits);
    for (int lane = 0; lane < TOGETHER; lane++) totals[lane] = (int32_t)bits[lane] + start;
}

typedef void (*summing)(const struct plan *, const struct channel *, const float *, int32_t, int32_t *);

/* How the sums of a channel go, none where it is left to the general way, and what they stay below, in units. */
struct way {
    summing sum;
    double reach;
};

static struct way choose_way(const struct plan *plan, const struct channel *channel, const struct magnitudes *seen,
                             int32_t start) {
    const float largest = decoded(largest_seen(seen));
    reals sums = {0};
    uint32_t kept_from = 0; /* the largest of numbers that are not negative, by their bits */
    for (int64_t tap = 0; tap < plan->taps; tap += LANES) /* behind the last tap are zeros */
        for (int64_t i = tap; i < tap + LANES; i++) {
            const uint32_t bits = bits_of_float(channel->kept_from[i]);
            kept_from = bits > kept_from ? bits : kept_from;
        }
    for (int64_t tap = 0; tap < plan->taps; tap += REALS)
        sums += magnitudes(__builtin_convertvector(*(const singles *)(channel->factors + tap), reals));
    double sum = 0;
    for (int i = 0; i < REALS; i++) sum += sums[i];
    const double bound = sum * largest * (1 + 0x1p-20) + 0.5 * (double)plan->taps, reach = bound + fabs((double)start);
    if (!(reach < SAFE_REACH)) return (struct way){NULL, reach};
#if HAS_FLOATS
    const uint16_t before_least = before_least_seen(seen);
    const float least = decoded(before_least == 0xFFFFu ? 0x7FFFu : (uint16_t)(before_least + 1));
    if (bound < FLOAT_REACH) return (struct way){least >= float_of_bits(kept_from) ? sum_plain : sum_guarded, reach};
#endif
    return (struct way){sum_doubles, reach};
}

/* The taps of a channel as panel.h says, and the magnitudes from which on their partners are kept. */
static void set_factors(const struct plan *plan, const uint16_t *weights, const struct channel *channel) {
    for (int64_t tap = 0; tap < plan->taps; tap += LANES) {
        uint16_t halves[LANES] = {0};
        limit limits[LANES];
        memcpy(halves, weights + tap, (size_t)at_most(plan->taps - tap, LANES) * sizeof *halves);
        store_lanes(halves, channel->factors + tap, limits);
        for (int lane = 0; lane < LANES; lane++) {
            const uint32_t magnitude = halves[lane] & 0x7FFFu, field = magnitude >> 10;
            const int32_t exponent = (int32_t)(field + (field == 0)) - 15, least = DROPPED_UP_TO + 1 - exponent;
            const int always = (least <= LEAST_EXPONENT) | (magnitude == 0);
            channel->kept_from[tap + lane] = float_of_bits(choice(always, 0, (uint32_t)(127 + least) << 23));
        }
    }
}

/* ... in double. */
static void widen_factors(const struct plan *plan, const uint16_t *weights, const struct channel *channel) {
    for (int64_t tap = 0; tap < plan->taps; tap++) {
        channel->wide_factors[tap] = (double)decoded(weights[tap]) * 65536.0 * (1.0 + 0x1p-41);
        channel->wide_kept_from[tap] = channel->kept_from[tap];
    }
}

/* Copy rows of results from where they lie apart to where they lie side by side. Whole pieces are copied as long as later
 * rows will write over what is too much. */
static void gather_rows(const struct plan *plan, const uint16_t *from, uint16_t *out) {
    const int64_t width = plan->across.out, end = plan->down.out * width;
    for (int64_t row = 0; row < plan->down.out; row++) {
        const uint16_t *const line = from + row * depthwise_pitch(plan);
        int64_t column = 0;
        for (; column < width && row * width + column + LANES <= end; column += LANES)
            memcpy(out + row * width + column, line + column, LANES * sizeof *out);
        if (column < width) memcpy(out + row * width + column, line + column, (size_t)(width - column) * sizeof *out);
    }
}

#ifdef OWN_PASSING
/* All sums of a channel that `plain_reach` allows: what lies in gaps is left out while results are rounded, noted, rectified
 * and stored side by side. Whole vectors are stored as long as later ones will write over what is too much. */
static void pass_channel(const struct plan *plan, struct channel *channel, summing sum, int32_t start,
                         const struct gain *gain, uint16_t *out) {
    const uint16_t *const end = out + plan->down.out * plan->across.out;
    const __m512 factor = _mm512_set1_ps(gain->factor), moved = _mm512_set1_ps(gain->moved);
    struct passing passing = channel->passing;
    for (int64_t stretch = 0; stretch < depthwise_stretches(plan); stretch++) {
        int32_t totals[TOGETHER];
        sum(plan, channel, channel->planes + stretch * TOGETHER, start, totals);
        for (int64_t i = 0; i < TOGETHER; i += LANES) {
            const uint32_t stored = channel->stored[(stretch * TOGETHER + i) / LANES];
            const __m512 given = _mm512_cvtepi32_ps(_mm512_loadu_si512(totals + i));
            const __m512 together = _mm512_maskz_compress_ps((__mmask16)stored, given);
            const __mmask16 there = (__mmask16)some_lanes(__builtin_popcount(stored));
            const __m256i passed = pass_sixteen(&passing, leave_sixteen(together, factor, moved), there);
            if (end - out >= LANES) _mm256_storeu_si256((__m256i *)out, passed);
            if (end - out < LANES) _mm256_mask_storeu_epi16(out, there, passed);
            out += __builtin_popcount(stored);
        }
    }
    channel->passing = passing;
}
#endif

/* One channel of one image; false where it is left to the general way. */
static bool convolve_channel(const struct plan *plan, int64_t image, int64_t number, struct channel *channel,
                             int64_t *seen) {
    const int64_t from = plan->bias_group * number, place = plan->right_places[image] + number * plan->right_group;
    if (plan->special && plan->special[from] != START_PLAIN) return false;
    const int32_t start = plan->start ? plan->start[from] : 0;
    set_factors(plan, (const uint16_t *)plan->left + number * plan->left_group, channel);
    const struct magnitudes magnitudes = spread_channel(plan, (const uint16_t *)plan->right + place, channel);
    const struct way way = choose_way(plan, channel, &magnitudes, start);
    if (!way.sum) return false;
    if (way.sum == sum_doubles) widen_factors(plan, (const uint16_t *)plan->left + number * plan->left_group, channel);
    const struct gain gain = plan->behind.gain ? gain_of(&plan->behind, number) : no_gain();
    const bool plain = way.reach < plain_reach(&gain, plan->behind.gain != NULL);
    uint16_t *const out = (uint16_t *)plan->out + image * plan->out_batch + number * plan->out_group;
#ifdef OWN_PASSING
    if (plain && !plan->behind.table) {
        pass_channel(plan, channel, way.sum, start, &gain, out);
        return true;
    }
#endif
    for (int64_t stretch = 0; stretch < depthwise_stretches(plan); stretch++) {
        int32_t totals[TOGETHER];
        way.sum(plan, channel, channel->planes + stretch * TOGETHER, start, totals);
        leave_row(plan, &gain, plain, totals, TOGETHER, channel->halves + stretch * TOGETHER);
    }
    gather_rows(plan, channel->halves, out);
    map_results(plan, seen, out, plan->down.out * plan->across.out);
    return true;
}

/* Channels, some at a time, until there are no more, or one is left to the general way. */
static void run_depthwise(struct plan *plan, char *memory) {
    int64_t seen[ANEFORGE_SEEN] = {0};
    const int64_t channels = plan->batch * plan->groups;
    struct channel channel;
    share_channel(plan, memory, &channel);
    set_planes(plan, &channel);
#ifdef OWN_PASSING
    channel.passing = begin_passing(plan->behind.rectifies);
#endif
    for (;;) {
        const int64_t first = __atomic_fetch_add(&plan->next_task, plan->channels_at_a_time, __ATOMIC_RELAXED);
        if (first >= channels || __atomic_load_n(&plan->beyond, __ATOMIC_RELAXED)) break;
        for (int64_t next = first; next < at_most(first + plan->channels_at_a_time, channels); next++)
            if (!convolve_channel(plan, next / plan->groups, next % plan->groups, &channel, seen))
                __atomic_store_n(&plan->beyond, 1, __ATOMIC_RELAXED);
    }
#ifdef OWN_PASSING
    end_passing(&channel.passing, seen);
#endif
    join_seen(plan, seen);
}

#endif
