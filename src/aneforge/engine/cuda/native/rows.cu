/* Sums, softmax and norms: one block for each row of numbers, in the order of the golden model (engine/reductions.py).
 *
 * A row is cut into stretches of whole work units, whose partial sums are exact in double in any order. Within a
 * stretch every level of partial sums is one pass of the block.
 */

#define ROW_THREADS 128
#define STRETCH 4096 /* elements; a multiple of the largest work unit, 512 */
#define NODES (STRETCH / 4)

/* How numbers are added: group, tree and window of early targets; chain, times and bits of late ones; neither: products
 * with 1 in the accumulator of convolutions. */
struct adder {
    int64_t group, tree, window, chain, times, bits;
};

/* Where rows begin, and where the elements of one lie. */
struct rows {
    struct axes axes;
    struct steps steps;
    const int32_t *taps; /* or none: `step` apart */
    int64_t step, length;
};

enum summand { SUM_VALUES, SUM_MAGNITUDES, SUM_SQUARES };

struct row_memory {
    double partial[ROW_THREADS];
    double nodes[2 * NODES]; /* a launch has as many as its rows need: `nodes_of` on either side */
};

static inline int64_t nodes_of(const struct rows &rows) {
    return ((rows.length < STRETCH ? rows.length : STRETCH) + 3) / 4;
}

static inline int64_t element_of(const struct rows &rows, int64_t j) { return rows.taps ? rows.taps[j] : j * rows.step; }

static inline double cut_to(double term, double unit) {
    const double scaled = magnitude_of(term) / unit;
    const double cut = (double)(int64_t)scaled * unit;
    return term < 0 ? -cut : cut;
}

/* Add a few terms that lie side by side, cut to a window, and round to fp16. */
static inline double add_window(const double *terms, int count, int64_t window) {
    double largest = 0, total = 0;
    for (int t = 0; t < count; t++) largest = magnitude_of(terms[t]) > largest ? magnitude_of(terms[t]) : largest;
    const int32_t exponent = leading_exponent(largest) < LEAST_EXPONENT ? LEAST_EXPONENT : leading_exponent(largest);
    const double unit = power_of_two(exponent - (int32_t)(window - 1));
    for (int t = 0; t < count; t++) total += window ? cut_to(terms[t], unit) : terms[t];
    return through_half(total);
}

static inline double to_bits(double value, int64_t bits) {
    const int64_t below = 53 - bits;
    const uint64_t held = bits_of_double(value) + ((uint64_t)1 << (below - 1));
    return double_of_bits(held & ~(((uint64_t)1 << below) - 1));
}

static inline double to_grid_of_products(double value) { return (double)(int64_t)(value * 65536.0 + 0.5) * 0x1p-16; }

/* The sum of what all threads bring; sums are exact, so any order will do. Every thread gets it. */
static inline double add_threads(struct row_memory *memory, double mine) {
    __syncthreads();
    memory->partial[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) memory->partial[threadIdx.x] += memory->partial[threadIdx.x + half];
        __syncthreads();
    }
    const double total = memory->partial[0];
    __syncthreads();
    return total;
}

static inline double largest_of_threads(struct row_memory *memory, double mine) {
    __syncthreads();
    memory->partial[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half && memory->partial[threadIdx.x + half] > memory->partial[threadIdx.x])
            memory->partial[threadIdx.x] = memory->partial[threadIdx.x + half];
        __syncthreads();
    }
    const double most = memory->partial[0];
    __syncthreads();
    return most;
}

/* A number to be added: x itself, what a table made of it, its distance from a shift squared. */
struct source {
    const uint16_t *x;
    double shift;
    int64_t kind;
    bool shifted;
};

static inline double term_of(const struct source &from, const struct rows &rows, int64_t j) {
    double value = decoded(from.x[element_of(rows, j)]);
    if (from.shifted) value = value - from.shift;
    if (from.kind == SUM_SQUARES) return through_half(value * value);
    return from.kind == SUM_MAGNITUDES ? magnitude_of(value) : value;
}

static inline double sum_row(struct row_memory *memory, const struct source &from, const struct rows &rows,
                             const struct adder &adder) {
    double mine = 0;
    if (!adder.group && !adder.chain) {
        for (int64_t j = threadIdx.x; j < rows.length; j += blockDim.x) mine += to_grid_of_products(term_of(from, rows, j));
        return add_threads(memory, mine);
    }
    for (int64_t begin = 0; begin < rows.length; begin += STRETCH) {
        const int64_t there = rows.length - begin < STRETCH ? rows.length - begin : STRETCH;
        const int64_t width = adder.chain ? adder.chain : adder.group;
        int64_t count = (there + width - 1) / width;
        int side = 0;
        for (int64_t g = threadIdx.x; g < count; g += blockDim.x) {
            double terms[8] = {0};
            for (int t = 0; t < width; t++)
                terms[t] = g * width + t < there ? term_of(from, rows, begin + g * width + t) : 0.0;
            if (adder.chain) {
                double total = terms[0];
                for (int t = 1; t < width; t++) total = to_bits(total + terms[t], adder.bits);
                memory->nodes[g] = total;
            } else {
                memory->nodes[g] = add_window(terms, (int)width, adder.window);
            }
        }
        __syncthreads();
        for (int64_t level = adder.chain ? adder.times - 1 : adder.tree - 1; level > 0; level = adder.chain ? level - 1 : level / 2) {
            const int64_t each = adder.chain ? adder.chain : 2, next = (count + each - 1) / each;
            const double *const before = memory->nodes + side * nodes_of(rows);
            double *const after = memory->nodes + (1 - side) * nodes_of(rows);
            for (int64_t g = threadIdx.x; g < next; g += blockDim.x) {
                if (adder.chain) {
                    double total = before[g * each];
                    for (int64_t t = 1; t < each; t++)
                        total = to_bits(total + (g * each + t < count ? before[g * each + t] : 0.0), adder.bits);
                    after[g] = total;
                } else {
                    const double pair[2] = {before[2 * g], 2 * g + 1 < count ? before[2 * g + 1] : 0.0};
                    after[g] = add_window(pair, 2, adder.window);
                }
            }
            count = next;
            side = 1 - side;
            __syncthreads();
        }
        for (int64_t g = threadIdx.x; g < count; g += blockDim.x) mine += memory->nodes[side * nodes_of(rows) + g];
        __syncthreads();
    }
    return add_threads(memory, mine);
}

/* Tables of 33 knots with the engine's three roundings, read at sums that were not rounded (engine/activations.py). */

static inline double to_eleven_bits(double value) {
    const double unit = power_of_two(leading_exponent(value) - 10), scaled = magnitude_of(value) / unit;
    const double rounded = (double)(int64_t)(scaled + 0.5) * unit;
    return value < 0 ? -rounded : rounded;
}

/* As `half_of_double`, as a number; infinite from 65536 on. */
static inline double to_half_value(double value) {
    const uint16_t half = half_of_double(value);
    return (half & 0x7FFFu) == HALF_INFINITY ? double_of_bits(((uint64_t)(half >> 15) << 63) | REAL_NAN) : decoded(half);
}

static inline double between(const double *knots, double coordinate) {
    int64_t place = (int64_t)coordinate;
    place = place > 31 ? 31 : place;
    const double difference = to_half_value(knots[place + 1] - knots[place]);
    const double part = to_eleven_bits((coordinate - (double)place) * difference);
    return to_half_value(knots[place] + part);
}

/* value = mantissa * 2^exponent, the mantissa from 1/2 up to 1, for positive numbers that are not subnormal. */
static inline double split_number(double value, int32_t *exponent) {
    *exponent = leading_exponent(value) + 1;
    return double_of_bits((bits_of_double(value) & 0x000FFFFFFFFFFFFFu) | ((uint64_t)1022 << 52));
}

static inline uint16_t read_inverse(const double *knots, double value) {
    if (value == 0) return HALF_INFINITY;
    if (!is_finite(value)) return 0;
    int32_t exponent;
    const double mantissa = split_number(magnitude_of(value), &exponent);
    const uint16_t half = half_of_double(between(knots, (mantissa - 0.5) * 64) * power_of_two(-exponent));
    return (uint16_t)(half | (value < 0 ? 0x8000u : 0u));
}

static inline uint16_t read_rsqrt(const double *knots, double value) {
    if (value == 0) return HALF_INFINITY;
    if (!is_finite(value) || value < 0) return 0;
    int32_t exponent;
    const double mantissa = split_number(value, &exponent);
    const int32_t odd = exponent & 1, quarter = (exponent - odd) / 2;
    return half_of_double(between(knots, mantissa * (odd ? 2.0 : 1.0) * 16) * power_of_two(-quarter));
}

enum row_result { ROW_TOTAL, ROW_HALF, ROW_SQUARE };

/* Sums of rows: unrounded; times a factor and rounded; or squared and rounded. */
struct sum_rows_args {
    const uint16_t *x;
    void *out;
    const double *factors; /* one for every row of a period, or none */
    int64_t period;
    int64_t kind, result;
    struct rows rows;
    struct adder adder;
};
KERNEL(sum_rows, ROW_THREADS) {
    LAUNCHED_MEMORY(shared, sizeof(struct row_memory));
    struct row_memory *const memory = (struct row_memory *)shared;
    const int64_t row = blockIdx.x + (int64_t)blockIdx.y * gridDim.x;
    const struct source from = {a.x + place_of(row, a.rows.axes, a.rows.steps), 0, a.kind, false};
    double total = sum_row(memory, from, a.rows, a.adder);
    if (threadIdx.x) return;
    if (a.factors) total = total * a.factors[row % a.period];
    if (a.result == ROW_TOTAL) ((double *)a.out)[row] = total;
    if (a.result == ROW_HALF) ((uint16_t *)a.out)[row] = half_of_double(total);
    if (a.result == ROW_SQUARE) ((uint16_t *)a.out)[row] = half_of_double(total * total);
}

/* e^x / sum of e^x; `powers` is the table of powers of two, `knots` that of reciprocals. */
struct softmax_rows_args {
    const uint16_t *x;
    uint16_t *out;
    const uint16_t *powers;
    const double *knots;
    double factor; /* log2 e */
    struct rows rows;
    struct adder adder;
};
KERNEL(softmax_rows, ROW_THREADS) {
    LAUNCHED_MEMORY(shared, sizeof(struct row_memory));
    struct row_memory *const memory = (struct row_memory *)shared;
    const int64_t row = blockIdx.x + (int64_t)blockIdx.y * gridDim.x;
    const int64_t begin = place_of(row, a.rows.axes, a.rows.steps);
    double most = -1e30;
    for (int64_t j = threadIdx.x; j < a.rows.length; j += blockDim.x) {
        const double value = decoded(a.x[begin + element_of(a.rows, j)]);
        most = value > most ? value : most;
    }
    most = largest_of_threads(memory, most);
    for (int64_t j = threadIdx.x; j < a.rows.length; j += blockDim.x) {
        const int64_t at = begin + element_of(a.rows, j);
        a.out[at] = a.powers[half_of_double(((double)decoded(a.x[at]) - most) * a.factor)];
    }
    __syncthreads();
    const struct source from = {a.out + begin, 0, SUM_VALUES, false};
    double total = sum_row(memory, from, a.rows, a.adder);
    if (!a.adder.group && !a.adder.chain && total >= 32768.0) total = double_of_bits(REAL_NAN);
    const float inverse = decoded(read_inverse(a.knots, total));
    for (int64_t j = threadIdx.x; j < a.rows.length; j += blockDim.x) {
        const int64_t at = begin + element_of(a.rows, j);
        a.out[at] = half_of_float(decoded(a.out[at]) * inverse);
    }
}

/* (x - mean) / root of the variance and epsilon, or x / root of the sum of squares, at least `epsilon`. */
struct standardise_rows_args {
    const uint16_t *x;
    uint16_t *out;
    const double *knots; /* of the reciprocal root */
    double epsilon, reciprocal;
    int64_t centred;
    struct rows rows;
    struct adder adder;
};
KERNEL(standardise_rows, ROW_THREADS) {
    LAUNCHED_MEMORY(shared, sizeof(struct row_memory));
    struct row_memory *const memory = (struct row_memory *)shared;
    const int64_t row = blockIdx.x + (int64_t)blockIdx.y * gridDim.x;
    const int64_t begin = place_of(row, a.rows.axes, a.rows.steps);
    struct source from = {a.x + begin, 0, SUM_VALUES, false};
    double power;
    if (a.centred) {
        from.shift = through_half(sum_row(memory, from, a.rows, a.adder) * a.reciprocal);
        from.shifted = true;
        from.kind = SUM_SQUARES;
        power = sum_row(memory, from, a.rows, a.adder) * a.reciprocal + a.epsilon;
    } else {
        from.kind = SUM_SQUARES;
        power = sum_row(memory, from, a.rows, a.adder);
        power = power > a.epsilon ? power : a.epsilon;
    }
    const double root = decoded(read_rsqrt(a.knots, power));
    for (int64_t j = threadIdx.x; j < a.rows.length; j += blockDim.x) {
        const int64_t at = element_of(a.rows, j);
        const double value = decoded(a.x[begin + at]);
        a.out[begin + at] = half_of_double((a.centred ? value - from.shift : value) * root);
    }
}

/* The first of the largest or smallest numbers of every row, or its place: one thread for each result. */
struct extreme_rows_args {
    const uint16_t *x;
    void *out;
    int64_t count, sign, place_bytes; /* place_bytes: 0 for the number itself */
    struct rows rows;
};
KERNEL(extreme_rows, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const uint16_t *const row = a.x + place_of(i, a.rows.axes, a.rows.steps);
        uint16_t best = row[element_of(a.rows, 0)];
        int64_t place = 0;
        for (int64_t j = 1; j < a.rows.length; j++) {
            const uint16_t here = row[element_of(a.rows, j)];
            const float one = decoded(here), other = decoded(best);
            if (a.sign > 0 ? one > other : one < other) {
                best = here;
                place = j;
            }
        }
        const uint16_t large = best & 0x7FFFu;
        if (a.place_bytes == 0) ((uint16_t *)a.out)[i] = (uint16_t)((best & 0x8000u) | (large > HALF_INFINITY ? HALF_INFINITY : large));
        if (a.place_bytes == 2) ((uint16_t *)a.out)[i] = (uint16_t)place;
        if (a.place_bytes == 4) ((uint32_t *)a.out)[i] = (uint32_t)place;
    }
}
