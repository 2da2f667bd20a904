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
}

#ifndef OWN_SPREADING
static inline void spread_line(const uint16_t *from, int64_t count, float *to) {
    for (int64_t i = 0; i < count; i++) to[i] = decoded(from[i]);
}
#endif

/* One channel into the planes; what lies around it is zero already. */
static void spread_channel(const struct plan *plan, const uint16_t *image, const struct channel *channel) {
    const struct axis *const down = &plan->down, *const across = &plan->across;
    const int64_t pitch = depthwise_pitch(plan), stride = across->stride;
    for (int32_t phase = 0; phase < across->phases; phase++) {
        const int64_t first = across->offset[phase] - across->pad;
        const int64_t begin = first < 0 ? (-first + stride - 1) / stride : 0;
        const int64_t there = first < across->extent ? (across->extent - first + stride - 1) / stride : 0;
        const int64_t count = at_most(there, pitch) - begin;
        for (int32_t plane = 0; plane < down->phases && count > 0; plane++)
            for (int64_t row = 0; row < down->out + down->reach; row++) {
                const int64_t y = row * down->stride + down->offset[plane] - down->pad;
                if (y < 0 || y >= down->extent) continue;
                const uint16_t *from = image + y * across->extent + first + begin * stride;
                const int64_t at = (plane * across->phases + phase) * depthwise_plane(plan) + row * pitch + begin;
                if (stride != 1) copy_elements(plan, from - (const uint16_t *)plan->right, stride, count, channel->line);
                spread_line(stride == 1 ? from : channel->line, count, channel->planes + at);
            }
    }
}

/* The largest magnitude of a channel, and the least that is not zero. */
static void measure_channel(const uint16_t *image, int64_t count, uint16_t *largest, uint16_t *least) {
    uint16_t most = 0, fewest = 0xFFFFu;
    for (int64_t i = 0; i < count; i++) {
        const uint16_t magnitude = image[i] & 0x7FFFu, before = (uint16_t)(magnitude - 1); /* that of 0 is the largest */
        most = magnitude > most ? magnitude : most;
        fewest = before < fewest ? before : fewest;
    }
    *largest = most;
    *least = fewest == 0xFFFFu ? 0x7FFFu : (uint16_t)(fewest + 1);
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

/* How the sums of a channel go; null where it is left to the general way. */
static summing choose_summing(const struct plan *plan, const struct channel *channel, const uint16_t *image, int32_t start) {
    uint16_t largest, least;
    double sum = 0;
    float kept_from = 0;
    measure_channel(image, plan->down.extent * plan->across.extent, &largest, &least);
    for (int64_t tap = 0; tap < plan->taps; tap++) {
        sum += fabsf(channel->factors[tap]);
        kept_from = kept_from > channel->kept_from[tap] ? kept_from : channel->kept_from[tap];
    }
    const double bound = sum * decoded(largest) * (1 + 0x1p-20) + 0.5 * (double)plan->taps;
    if (!(bound + fabs((double)start) < SAFE_REACH)) return NULL;
#if HAS_FLOATS
    if (bound < FLOAT_REACH) return decoded(least) >= kept_from ? sum_plain : sum_guarded;
#endif
    return sum_doubles;
}

/* The taps of a channel as panel.h says, and the magnitudes from which on their partners are kept. */
static void set_factors(const struct plan *plan, const uint16_t *weights, const struct channel *channel) {
    for (int64_t tap = 0; tap < plan->taps; tap += LANES) {
        uint16_t halves[LANES] = {0};
        limit limits[LANES];
        memcpy(halves, weights + tap, (size_t)at_most(plan->taps - tap, LANES) * sizeof *halves);
        store_lanes(halves, channel->factors + tap, limits);
        for (int lane = 0; lane < LANES; lane++) {
            const int32_t least = DROPPED_UP_TO + 1 - exponent_of(halves[lane]);
            const int always = (least <= LEAST_EXPONENT) | ((halves[lane] & 0x7FFFu) == 0);
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

/* One channel of one image; false where it is left to the general way. */
static bool convolve_channel(const struct plan *plan, int64_t image, int64_t number, const struct channel *channel,
                             int64_t *seen) {
    const int64_t from = plan->bias_group * number, place = plan->right_places[image] + number * plan->right_group;
    if (plan->special && plan->special[from] != START_PLAIN) return false;
    const int32_t start = plan->start ? plan->start[from] : 0;
    const uint16_t *const pixels = (const uint16_t *)plan->right + place;
    const uint16_t *const weights = (const uint16_t *)plan->left + number * plan->left_group;
    set_factors(plan, weights, channel);
    const summing sum = choose_summing(plan, channel, pixels, start);
    if (!sum) return false;
    if (sum == sum_doubles) widen_factors(plan, weights, channel);
    spread_channel(plan, pixels, channel);
    struct gain gain = {0};
    if (plan->behind.gain) gain = gain_of(&plan->behind, number);
    for (int64_t stretch = 0; stretch < depthwise_stretches(plan); stretch++) {
        int32_t totals[TOGETHER];
        sum(plan, channel, channel->planes + stretch * TOGETHER, start, totals);
        leave_row(plan, &gain, totals, TOGETHER, channel->halves + stretch * TOGETHER);
    }
    uint16_t *const out = (uint16_t *)plan->out + image * plan->out_batch + number * plan->out_group;
    gather_rows(plan, channel->halves, out);
    map_results(plan, seen, out, plan->down.out * plan->across.out);
    return true;
}

/* Channels until there are no more, or one is left to the general way. */
static void run_depthwise(struct plan *plan, char *memory) {
    int64_t seen[ANEFORGE_SEEN] = {0};
    struct channel channel;
    share_channel(plan, memory, &channel);
    set_planes(plan, &channel);
    for (;;) {
        const int64_t next = __atomic_fetch_add(&plan->next_task, 1, __ATOMIC_RELAXED);
        if (next >= plan->batch * plan->groups || __atomic_load_n(&plan->beyond, __ATOMIC_RELAXED)) break;
        if (!convolve_channel(plan, next / plan->groups, next % plan->groups, &channel, seen))
            __atomic_store_n(&plan->beyond, 1, __ATOMIC_RELAXED);
    }
    join_seen(plan, seen);
}

#endif
