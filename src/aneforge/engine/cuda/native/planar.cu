/* Elements and pairs of elements, tables, copies, magnitudes: grids over elements, one or more for each thread. */

/* out[i] = table[x[i]] for every sample; what the flags of a table say of the numbers met is gathered for each. */
struct lookup_args {
    const void *x;
    const void *table;
    void *out;
    const uint8_t *flags; /* one for every number, or none */
    uint32_t *found;      /* for every sample */
    int64_t count;        /* of a sample */
    int64_t in_bytes, out_bytes;
};
KERNEL(lookup, 256) {
    __shared__ uint32_t met;
    const int64_t sample = blockIdx.y;
    if (threadIdx.x == 0) met = 0;
    __syncthreads();
    uint32_t seen = 0;
    const bool eights = a.in_bytes == 2 && a.out_bytes == 2 && in_eights(a.x, a.out, a.count);
    for (int64_t i = first_index(); eights && i < a.count / 8; i += index_step()) {
        const int64_t at = sample * (a.count / 8) + i;
        struct eight_halves halves = ((const struct eight_halves *)a.x)[at];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            if (a.flags) seen |= a.flags[halves.at[j]];
            halves.at[j] = ((const uint16_t *)a.table)[halves.at[j]];
        }
        ((struct eight_halves *)a.out)[at] = halves;
    }
    for (int64_t i = first_index(); !eights && i < a.count; i += index_step()) {
        const int64_t at = sample * a.count + i;
        const uint32_t bits = a.in_bytes == 2 ? ((const uint16_t *)a.x)[at] : ((const uint8_t *)a.x)[at];
        if (a.flags) seen |= a.flags[bits];
        if (a.out_bytes == 2) ((uint16_t *)a.out)[at] = ((const uint16_t *)a.table)[bits];
        if (a.out_bytes == 1) ((uint8_t *)a.out)[at] = ((const uint8_t *)a.table)[bits];
        if (a.out_bytes == 4) ((uint32_t *)a.out)[at] = ((const uint32_t *)a.table)[bits];
        if (a.out_bytes == 8) ((uint64_t *)a.out)[at] = ((const uint64_t *)a.table)[bits];
    }
    if (!a.flags) return;
    if (seen) atomicOr(&met, seen);
    __syncthreads();
    if (threadIdx.x == 0 && met) atomicOr(&a.found[sample], met);
}

/* The largest magnitude, the least one above 0, and which zeros there are (1 for +0, 2 for -0), for every sample and,
 * behind the last, for all. */
struct magnitude_args {
    const uint16_t *x;
    uint32_t *largest, *least, *zeros;
    int64_t count, samples;
};
struct extremes {
    uint32_t large, small, zeros;
};
static inline void see(struct extremes &met, uint32_t bits) {
    const uint32_t here = bits & 0x7FFFu;
    met.large = here > met.large ? here : met.large;
    if (here) met.small = here < met.small ? here : met.small;
    if (!here) met.zeros |= bits ? 2u : 1u;
}
KERNEL(magnitude, 256) {
    __shared__ uint32_t most, fewest, met;
    const int64_t sample = blockIdx.y;
    if (threadIdx.x == 0) {
        most = 0;
        fewest = 0xFFFF;
        met = 0;
    }
    __syncthreads();
    struct extremes seen = {0, 0xFFFF, 0};
    const bool eights = in_eights(a.x, a.x, a.count);
    for (int64_t i = first_index(); eights && i < a.count / 8; i += index_step()) {
        const struct eight_halves halves = ((const struct eight_halves *)a.x)[sample * (a.count / 8) + i];
#pragma unroll
        for (int j = 0; j < 8; j++) see(seen, halves.at[j]);
    }
    for (int64_t i = first_index(); !eights && i < a.count; i += index_step()) see(seen, a.x[sample * a.count + i]);
    atomicMax(&most, seen.large);
    atomicMin(&fewest, seen.small);
    atomicOr(&met, seen.zeros);
    __syncthreads();
    if (threadIdx.x) return;
    const int64_t places[2] = {sample, a.samples};
    for (int i = 0; i < 2; i++) {
        atomicMax(&a.largest[places[i]], most);
        atomicMin(&a.least[places[i]], fewest);
        atomicOr(&a.zeros[places[i]], met);
    }
}

enum pair { PAIR_ADD, PAIR_SUB, PAIR_MUL, PAIR_MAX, PAIR_MIN, PAIR_SLOPE };
enum comparison { IS_EQUAL, IS_NOT_EQUAL, IS_GREATER, IS_GREATER_EQUAL, IS_LESS, IS_LESS_EQUAL };

/* Pairs of fp16 numbers: one exact operation, one rounding. Of two equal ones the larger or smaller is the second. */
struct pairs_args {
    const uint16_t *x, *y;
    uint16_t *out;
    uint32_t *found; /* 4 where zeros of both signs were compared, for every sample; or none */
    int64_t count, sample_count, kind;
    struct axes axes;
    struct steps x_steps, y_steps;
};
static inline float combined(int64_t kind, float x, float y) {
    switch (kind) {
    case PAIR_ADD: return x + y;
    case PAIR_SUB: return x - y;
    case PAIR_MUL: return x * y;
    case PAIR_MAX: return x > y ? x : y;
    case PAIR_MIN: return x < y ? x : y;
    default: return x < 0 ? x * y : x; /* PAIR_SLOPE */
    }
}
static inline bool unlike_zeros(uint16_t left, uint16_t right) { return !((left | right) & 0x7FFFu) && left != right; }
KERNEL(pairs, 256) {
    const bool eights = rows_of_eights(a.axes, a.out);
    for (int64_t i = first_index(); eights && i < a.count / 8; i += index_step()) {
        const struct eight_halves left = load_eight(a.x, 8 * i, a.axes, a.x_steps), right = load_eight(a.y, 8 * i, a.axes, a.y_steps);
        struct eight_halves out;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            out.at[j] = half_of_float(combined(a.kind, decoded(left.at[j]), decoded(right.at[j])));
            if (a.found && unlike_zeros(left.at[j], right.at[j])) atomicOr(&a.found[(8 * i + j) / a.sample_count], 4u);
        }
        ((struct eight_halves *)a.out)[i] = out;
    }
    for (int64_t i = first_index(); !eights && i < a.count; i += index_step()) {
        const uint16_t left = a.x[place_of(i, a.axes, a.x_steps)], right = a.y[place_of(i, a.axes, a.y_steps)];
        a.out[i] = half_of_float(combined(a.kind, decoded(left), decoded(right)));
        if (a.found && unlike_zeros(left, right)) atomicOr(&a.found[i / a.sample_count], 4u);
    }
}

struct compare_args {
    const uint16_t *x, *y;
    uint8_t *out;
    int64_t count, kind;
    struct axes axes;
    struct steps x_steps, y_steps;
};
KERNEL(compare, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const float x = decoded(a.x[place_of(i, a.axes, a.x_steps)]), y = decoded(a.y[place_of(i, a.axes, a.y_steps)]);
        const bool results[] = {x == y, x != y, x > y, x >= y, x < y, x <= y};
        a.out[i] = results[a.kind];
    }
}

/* A choice; what is larger than any number leaves as infinite. */
struct choose_args {
    const uint8_t *condition;
    const uint16_t *x, *y;
    uint16_t *out;
    int64_t count;
    struct axes axes;
    struct steps condition_steps, x_steps, y_steps;
};
KERNEL(choose, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const bool yes = a.condition[place_of(i, a.axes, a.condition_steps)] != 0;
        const uint16_t half = yes ? a.x[place_of(i, a.axes, a.x_steps)] : a.y[place_of(i, a.axes, a.y_steps)];
        const uint16_t large = half & 0x7FFFu;
        a.out[i] = (uint16_t)((half & 0x8000u) | (large > HALF_INFINITY ? HALF_INFINITY : large));
    }
}

/* gain * (x op y) + offset, one rounding: what a gain directly after a pair does. The gain and offset are float64. */
struct gained_pairs_args {
    const uint16_t *x, *y;
    const double *gain, *offset; /* or none */
    uint16_t *out;
    int64_t count, kind;
    struct axes axes;
    struct steps x_steps, y_steps, gain_steps, offset_steps;
};
KERNEL(gained_pairs, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const double x = decoded(a.x[place_of(i, a.axes, a.x_steps)]), y = decoded(a.y[place_of(i, a.axes, a.y_steps)]);
        double total = 0;
        switch (a.kind) {
        case PAIR_ADD: total = x + y; break;
        case PAIR_SUB: total = x - y; break;
        case PAIR_MUL: total = x * y; break;
        case PAIR_MAX: total = x > y ? x : y; break;
        case PAIR_MIN: total = x < y ? x : y; break;
        }
        if (a.gain) total = total * a.gain[place_of(i, a.axes, a.gain_steps)];
        if (a.offset) total = total + a.offset[place_of(i, a.axes, a.offset_steps)];
        a.out[i] = total != total ? 0 : half_of_double(total);
    }
}

/* gain * total + offset of unrounded sums, one rounding. */
struct gained_totals_args {
    const double *totals;
    const double *gain, *offset; /* or none */
    uint16_t *out;
    int64_t count;
    struct axes axes;
    struct steps gain_steps, offset_steps;
};
KERNEL(gained_totals, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        double total = a.totals[i];
        if (a.gain) total = total * a.gain[place_of(i, a.axes, a.gain_steps)];
        if (a.offset) total = total + a.offset[place_of(i, a.axes, a.offset_steps)];
        a.out[i] = total != total ? 0 : half_of_double(total);
    }
}

static inline void move_element(void *to, int64_t at, const void *from, int64_t place, int64_t bytes) {
    if (bytes == 2) ((uint16_t *)to)[at] = ((const uint16_t *)from)[place];
    if (bytes == 1) ((uint8_t *)to)[at] = ((const uint8_t *)from)[place];
    if (bytes == 4) ((uint32_t *)to)[at] = ((const uint32_t *)from)[place];
    if (bytes == 8) ((uint64_t *)to)[at] = ((const uint64_t *)from)[place];
}

/* Copies of what lies in an affine pattern, one after the other. */
struct move_args {
    const void *x;
    void *out;
    int64_t count, bytes;
    struct axes axes;
    struct steps steps;
};
KERNEL(move, 256) {
    const bool eights = a.bytes == 2 && rows_of_eights(a.axes, a.out);
    for (int64_t i = first_index(); eights && i < a.count / 8; i += index_step())
        ((struct eight_halves *)a.out)[i] = load_eight((const uint16_t *)a.x, 8 * i, a.axes, a.steps);
    for (int64_t i = first_index(); !eights && i < a.count; i += index_step())
        move_element(a.out, i, a.x, place_of(i, a.axes, a.steps), a.bytes);
}

/* Copies by lists of places, the same for every sample. A sample of a constant is the same one. */
struct pick_args {
    const void *x;
    void *out;
    const int32_t *from;
    const int32_t *to; /* or none: one after the other */
    int64_t count, bytes, x_sample, out_sample;
};
KERNEL(pick, 256) {
    const int64_t sample = blockIdx.y;
    for (int64_t i = first_index(); i < a.count; i += index_step())
        move_element(a.out, sample * a.out_sample + (a.to ? a.to[i] : i), a.x, sample * a.x_sample + a.from[i],
                     a.bytes);
}

/* Elements of an axis by indices that are computed: x [outer, extent, inner], a negative one counts from the end. One
 * that is past the axis was noted before; it reads the first element, so as to stay in memory. */
struct pick_axis_args {
    const void *x;
    const int32_t *indices;
    void *out;
    int64_t bytes, outer, extent, inner, picks, x_sample, indices_sample, each; /* each: one list for every outer and inner */
};
KERNEL(pick_axis, 256) {
    const int64_t sample = blockIdx.y, count = a.outer * a.picks * a.inner;
    for (int64_t i = first_index(); i < count; i += index_step()) {
        const int64_t inner = i % a.inner, pick = i / a.inner % a.picks, outer = i / a.inner / a.picks;
        int64_t index = a.indices[sample * a.indices_sample + (a.each ? i : pick)];
        index += index < 0 ? a.extent : 0;
        index = index < 0 || index >= a.extent ? 0 : index;
        move_element(a.out, sample * count + i, a.x, sample * a.x_sample + (outer * a.extent + index) * a.inner + inner,
                     a.bytes);
    }
}

/* One number everywhere. */
struct fill_args {
    uint32_t *out;
    int64_t count, value;
};
KERNEL(fill, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) a.out[i] = (uint32_t)a.value;
}

/* Sums that an infinite activation flooded are infinite; all others are those without it. */
struct flooded_args {
    const void *flooded;
    void *out;
    int64_t count, bytes;
    const uint32_t *gate;
    int64_t gate_from;
};
KERNEL(flooded, 256) {
    if ((int64_t)*a.gate < a.gate_from) return;
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        if (a.bytes == 2) {
            const uint16_t half = ((const uint16_t *)a.flooded)[i];
            if ((half & 0x7FFFu) == HALF_INFINITY) ((uint16_t *)a.out)[i] = half;
        } else {
            const double total = ((const double *)a.flooded)[i];
            if (!is_finite(total)) ((double *)a.out)[i] = total;
        }
    }
}

/* Planes of fp16 with something around them and, for transposed convolutions, between their elements; what begins
 * before 0 is cut. */
struct pad_planes_args {
    const uint16_t *x;
    uint16_t *out;
    int64_t count, filled;
    int64_t extents[3], out_extents[3], before[3], gaps[3];
};
KERNEL(pad_planes, 256) {
    const int64_t plane = a.extents[0] * a.extents[1] * a.extents[2];
    for (int64_t begin = first_index() * 8; begin < a.count; begin += index_step() * 8) {
        int64_t rest = begin;
        int32_t at[3]; /* in the planes that come out */
#pragma unroll
        for (int axis = 2; axis >= 0; axis--) {
            const uint32_t extent = (uint32_t)a.out_extents[axis];
            const int64_t next = rest <= 0xFFFFFFFF ? (int64_t)((uint32_t)rest / extent) : rest / extent;
            at[axis] = (int32_t)(rest - next * extent);
            rest = next;
        }
        struct eight_halves halves;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int64_t place = 0;
            bool inside = begin + i < a.count;
#pragma unroll
            for (int axis = 0; axis < 3; axis++) {
                const int32_t gap = (int32_t)a.gaps[axis], from = at[axis] - (int32_t)a.before[axis];
                const int32_t whole = gap == 1 ? from : from / gap;
                inside = inside && from >= 0 && whole * gap == from && whole < (int32_t)a.extents[axis];
                place = place * a.extents[axis] + whole;
            }
            halves.at[i] = inside ? a.x[rest * plane + place] : (uint16_t)a.filled;
            bool carry = true; /* on to the next */
#pragma unroll
            for (int axis = 2; axis >= 0; axis--) {
                at[axis] += carry;
                carry = carry && at[axis] == (int32_t)a.out_extents[axis];
                at[axis] = carry ? 0 : at[axis];
            }
            rest += carry;
        }
        if (begin + 8 <= a.count) *(struct eight_halves *)(a.out + begin) = halves;
        for (int i = 0; begin + 8 > a.count && begin + i < a.count; i++) a.out[begin + i] = halves.at[i];
    }
}
