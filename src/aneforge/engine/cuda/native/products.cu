/* Sums of products: one general matrix product whose operands are found by tables of places, so that convolutions of
 * any window, transposed matrices and Winograd's four sums are all the same kernel.
 *
 * A left operand lies at places[batch] + lines[m] + steps[k], a right one at places[batch] + lines[n] + steps[k].
 *
 * How it is fast. One fused multiply-add in float32 multiplies, rounds half away from zero to 2^-16 and adds: the sum
 * carries 192, so that its last bit is 2^-16 while it stays between 128 and 256, and the left operand is moved by one
 * unit in its last place away from zero, which decides every tie and moves nothing else (the proof stands in
 * kernels/native/panel.h). A product whose exponents add to -17 or less is dropped: one comparison of two fp16 numbers
 * each with a threshold of the left operand gives two predicates, so a product costs one and a half instructions.
 * What is gathered beside 192 moves into whole numbers in shared memory before it can reach 64. How often that is needed
 * bounds say, sums of magnitudes or norms of every PART steps; tiles for which they prove nothing, and those whose sums
 * may pass the edge at 2^15, are done by `exact_product` in the order and with the operations of the golden model.
 */

#define TILE 128
#define CHUNK 16 /* steps that are brought to shared memory at a time */
#define PART 4   /* steps that a bound is of */
#define THREADS 256
#define CARRIED 192.0f
#define LIMIT 63.0f
#define EDGE 32768.0
#define EXACT_TILE 64

/* Along what neighbours in memory lie, and whether eight of them can be read at once. Lines and steps are listed up to
 * whole tiles and chunks; what is listed too many is some line again. */
enum reading { ALONG_LINES, ALONG_STEPS, EIGHT_LINES, EIGHT_STEPS };

struct operand {
    const uint16_t *values;
    const int64_t *places; /* of every batch */
    const int32_t *lines, *steps;
    int64_t reading;         /* enum reading */
    const uint32_t *largest; /* magnitude of all its numbers, as fp16 */
    const uint32_t *least;  /* the least one above 0 */
    const float *sums;      /* [batch][tile][part], the largest of the lines of a tile; or none */
    const float *norms;     /* likewise */
    int64_t bound_tiles;    /* tiles of a batch; batches share bounds by `bound_batch` */
    const int32_t *bound_batch;
};

struct product_args {
    struct operand left, right;
    int64_t rows, columns, depth;
    const double *start;        /* or none */
    const int32_t *start_units; /* the same on the grid of products */
    double start_most;
    int64_t start_row, start_column;
    const double *gain, *offset; /* after the sum, with the steps of the start; or none */
    const int32_t *start_batch;  /* first row of the start of every batch, or none */
    void *out;
    const int64_t *out_places;
    const int32_t *out_columns;
    int64_t out_row;
    int64_t unrounded; /* float64 comes out */
    int64_t edgeless;  /* sums that pass the edge are numbers all the same (Winograd's) */
    const uint32_t *gate; /* runs only where this magnitude reaches `gate_from`; or none */
    int64_t gate_from;
};

/* The largest sum of magnitudes and norm of every part, among the lines of a tile. */
struct bounds_args {
    const uint16_t *values;
    const int64_t *places;
    const int32_t *lines, *steps;
    int64_t count, depth;
    float *sums, *norms;
};
KERNEL(bounds, TILE) {
    __shared__ float most[2][TILE];
    const int64_t line = (int64_t)blockIdx.y * TILE + threadIdx.x, part = blockIdx.x;
    float sum = 0, square = 0;
    if (line < a.count)
        for (int64_t k = part * PART; k < (part + 1) * PART && k < a.depth; k++) {
            const float value = decoded(a.values[a.places[blockIdx.z] + a.lines[line] + a.steps[k]]);
            sum += value < 0 ? -value : value;
            square += value * value;
        }
    most[0][threadIdx.x] = sum;
    most[1][threadIdx.x] = square;
    __syncthreads();
    for (unsigned half = TILE / 2; half; half /= 2) {
        if (threadIdx.x < half)
            for (int i = 0; i < 2; i++)
                if (most[i][threadIdx.x + half] > most[i][threadIdx.x]) most[i][threadIdx.x] = most[i][threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x) return;
    const int64_t at = ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + part;
    a.sums[at] = most[0][0] * 1.0001f;
    a.norms[at] = sqrtf(most[1][0]) * 1.0001f;
}

static inline const float *bounds_of(const float *found, const struct operand &operand, int64_t batch, int64_t tile,
                                     int64_t parts) {
    return found ? found + ((int64_t)operand.bound_batch[batch] * operand.bound_tiles + tile) * parts : 0;
}

struct verdict {
    bool fast;      /* every part stays below 64, and the whole below the edge */
    bool edge;      /* a sum may pass the edge */
    bool huge;      /* it may pass what `exact_product` carries */
    int32_t period; /* parts that stay below 64 together */
};

/* What bounds say of a tile. */
static inline struct verdict judge(const struct product_args &a, int64_t batch, int64_t row_tile, int64_t column_tile,
                                   float (*shared)[THREADS]) {
    const int64_t parts = (a.depth + PART - 1) / PART;
    const float *const left_sums = bounds_of(a.left.sums, a.left, batch, row_tile, parts);
    const float *const left_norms = bounds_of(a.left.norms, a.left, batch, row_tile, parts);
    const float *const right_sums = bounds_of(a.right.sums, a.right, batch, column_tile, parts);
    const float *const right_norms = bounds_of(a.right.norms, a.right, batch, column_tile, parts);
    const float left_most = decoded((uint16_t)*a.left.largest), right_most = decoded((uint16_t)*a.right.largest);
    float most = 0, total = 0;
    for (int64_t part = threadIdx.x; part < parts; part += THREADS) {
        float here = left_most * right_most * (float)PART;
        if (left_sums) here = fminf(here, left_sums[part] * right_most);
        if (right_sums) here = fminf(here, right_sums[part] * left_most);
        if (left_norms && right_norms) here = fminf(here, left_norms[part] * right_norms[part]);
        here += PART * 0x1p-17f; /* every product is rounded */
        most = fmaxf(most, here);
        total += here;
    }
    shared[0][threadIdx.x] = most;
    shared[1][threadIdx.x] = total;
    __syncthreads();
    for (unsigned half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) {
            shared[0][threadIdx.x] = fmaxf(shared[0][threadIdx.x], shared[0][threadIdx.x + half]);
            shared[1][threadIdx.x] += shared[1][threadIdx.x + half];
        }
        __syncthreads();
    }
    most = shared[0][0];
    const double reach = (double)shared[1][0] * 1.001 + a.start_most;
    const bool numbers = left_most < 65536.0f && right_most < 65536.0f;
    const float together = LIMIT / most;
    const struct verdict found = {numbers && most < LIMIT && reach < EDGE * 0.999, reach >= EDGE * 0.999,
                                  !(reach < 0x1p34), together < 1e9f ? (int32_t)together : 1000000000};
    __syncthreads();
    return found;
}

static inline bool gated_off(const struct product_args &a) { return a.gate && (int64_t)*a.gate < a.gate_from; }

/* fp16 bits of the magnitude from which on a number is not dropped beside this one; 0 where none is. */
static inline uint32_t threshold_of(uint16_t half) {
    const int32_t exponent = exponent_of(half);
    return exponent <= -3 ? (uint32_t)(-1 - exponent) << 10 : 0u;
}

/* Whether a sum that starts at -0 stays so: every product is -0 on the grid, and none is dropped, which would be +0. */
static inline bool stays_below_zero(const struct product_args &a, int64_t batch, int64_t row, int64_t column) {
    const uint16_t *const left = a.left.values + a.left.places[batch] + a.left.lines[row];
    const uint16_t *const right = a.right.values + a.right.places[batch] + a.right.lines[column];
    for (int64_t k = 0; k < a.depth; k++) {
        const uint16_t one = left[a.left.steps[k]], other = right[a.right.steps[k]];
        const bool kept = exponent_of(one) + exponent_of(other) > DROPPED_UP_TO;
        if (!kept || !((one ^ other) & 0x8000u) || decoded(one) * decoded(other) <= -0x1p-17f) return false;
    }
    return true;
}

static inline void leave(const struct product_args &a, int64_t batch, int64_t row, int64_t column, double total) {
    const int64_t at = a.out_places[batch] + row * a.out_row + a.out_columns[column];
    if (a.unrounded) {
        ((double *)a.out)[at] = total;
        return;
    }
    const int64_t place = (row + (a.start_batch ? a.start_batch[batch] : 0)) * a.start_row + column * a.start_column;
    if (a.gain) {
        double gained = total * a.gain[place];
        if (a.offset) gained = gained + a.offset[place];
        ((uint16_t *)a.out)[at] = gained != gained ? 0 : half_of_double(gained);
        return;
    }
    uint16_t half = half_of_double(total);
    const uint16_t large = half & 0x7FFFu;
    if (total == 0 && a.start && bits_of_double(a.start[place]) >> 63 && stays_below_zero(a, batch, row, column)) half = 0x8000u;
    ((uint16_t *)a.out)[at] = (uint16_t)((half & 0x8000u) | (large >= HALF_EDGE ? HALF_INFINITY : large));
}

static inline double to_units(double scaled) {
    return copysign((double)(int64_t)(magnitude_of(scaled) + 0.5), scaled);
}

static inline double start_of(const struct product_args &a, int64_t batch, int64_t row, int64_t column) {
    if (!a.start) return 0.0;
    const int64_t first = a.start_batch ? a.start_batch[batch] : 0;
    return to_units(a.start[(row + first) * a.start_row + column * a.start_column] * 65536.0);
}

/* Rows are padded so that what lies side by side along the steps does not meet in one bank. */
struct stage {
    float left[CHUNK][TILE + 4]; /* moved by one unit in the last place */
    uint16_t thresholds[CHUNK][TILE + 8];
    uint16_t right[CHUNK][TILE + 8];
};
struct product_memory {
    int32_t units[TILE][TILE];
    struct stage stages[2];
};
#define PRODUCT_MEMORY 99840
static_assert(sizeof(struct product_memory) == PRODUCT_MEMORY, "what a launch asks for");

struct alignas(16) eight_halves {
    uint16_t at[8];
};
struct alignas(16) four_floats {
    float at[4];
};
struct alignas(16) four_wholes {
    int32_t at[4];
};
struct alignas(8) two_words {
    uint32_t at[2];
};

/* The number of a thread, found anew: what is made of it is not kept in registers, of which the sums need nearly all. */
static inline int32_t this_thread(void) {
#ifdef ANEFORGE_EMULATED
    return (int32_t)threadIdx.x;
#else
    int32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
#endif
}

/* Which of its eight numbers of a chunk a thread brings. */
static inline int32_t line_of(int64_t reading, int32_t thread, int i) {
    if (reading == ALONG_STEPS) return thread / CHUNK + 16 * i;
    return reading == EIGHT_LINES ? thread % 16 * 8 + i : thread % TILE;
}
static inline int32_t step_of(int64_t reading, int32_t thread, int i) {
    if (reading == ALONG_STEPS) return thread % CHUNK;
    if (reading == EIGHT_LINES) return thread / 16;
    return reading == EIGHT_STEPS ? thread / TILE * 8 + i : thread / TILE + 2 * i;
}

/* Bring eight numbers from device memory. */
static inline struct eight_halves bring(const struct operand &operand, const uint16_t *values, int32_t first, int32_t k) {
    struct eight_halves found;
    const int32_t thread = this_thread();
    const int32_t *const lines = operand.lines + first, *const steps = operand.steps + k;
    if (operand.reading >= EIGHT_LINES) {
        const int32_t place = lines[line_of(operand.reading, thread, 0)] + steps[step_of(operand.reading, thread, 0)];
        return *(const struct eight_halves *)(values + place);
    }
    if (operand.reading == ALONG_STEPS) {
        const uint16_t *const at = values + steps[step_of(ALONG_STEPS, thread, 0)];
#pragma unroll
        for (int i = 0; i < 8; i++) found.at[i] = at[lines[line_of(ALONG_STEPS, thread, i)]];
        return found;
    }
    const uint16_t *const at = values + lines[line_of(ALONG_LINES, thread, 0)];
#pragma unroll
    for (int i = 0; i < 8; i++) found.at[i] = at[steps[step_of(ALONG_LINES, thread, i)]];
    return found;
}

static inline float number_of(uint32_t half) {
#ifdef ANEFORGE_EMULATED
    return decoded((uint16_t)half);
#else
    float value;
    asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "r"(half));
    return value;
#endif
}

/* Put left numbers into shared memory with their thresholds (`threshold_of`, of the exponent's bits alone). */
static inline void put_left(const struct product_args &a, struct stage *stage, const struct eight_halves &given, int32_t k) {
    const int32_t thread = this_thread();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int32_t line = line_of(a.left.reading, thread, i), step = step_of(a.left.reading, thread, i);
        const uint32_t half = k + step < (int32_t)a.depth ? given.at[i] : 0u; /* zeros behind the last step */
        const uint32_t field = half & 0x7C00u;
        stage->left[step][line] = float_of_bits(bits_of_float(number_of(half)) + 1u);
        stage->thresholds[step][line] = (uint16_t)(field > 0x3000u ? 0u : 0x3800u - (field < 0x400u ? 0x400u : field));
    }
}

static inline void put_right(const struct product_args &a, struct stage *stage, const struct eight_halves &given) {
    const int32_t thread = this_thread();
    if (a.right.reading == EIGHT_LINES) {
        *(struct eight_halves *)&stage->right[step_of(EIGHT_LINES, thread, 0)][line_of(EIGHT_LINES, thread, 0)] = given;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        stage->right[step_of(a.right.reading, thread, i)][line_of(a.right.reading, thread, i)] = given.at[i];
}

/* One right number with four left ones: each product is added unless it is dropped. HIGH says which half of a word the
 * right number is. Both comparisons come first, so that what waits for one has the other's work to do. */
template <bool DROPS, bool HIGH>
static inline void multiply_four(float &first, float &second, float &third, float &fourth, uint32_t magnitudes,
                                 const struct two_words &thresholds, float right, const struct four_floats &left) {
#ifdef ANEFORGE_EMULATED
    const uint32_t magnitude = HIGH ? magnitudes >> 16 : magnitudes & 0xFFFFu;
    if (!DROPS || magnitude >= (thresholds.at[0] & 0xFFFFu)) first = fmaf(left.at[0], right, first);
    if (!DROPS || magnitude >= thresholds.at[0] >> 16) second = fmaf(left.at[1], right, second);
    if (!DROPS || magnitude >= (thresholds.at[1] & 0xFFFFu)) third = fmaf(left.at[2], right, third);
    if (!DROPS || magnitude >= thresholds.at[1] >> 16) fourth = fmaf(left.at[3], right, fourth);
#else
#define MULTIPLY(half)                                                                                                 \
    asm("{.reg .pred p, q, r, s; .reg .b16 l, h; .reg .b32 d; mov.b32 {l, h}, %4; mov.b32 d, {" half "};"              \
        "setp.ge.f16x2 p|q, d, %5; setp.ge.f16x2 r|s, d, %6;"                                                          \
        "@p fma.rn.f32 %0, %8, %7, %0; @q fma.rn.f32 %1, %9, %7, %1;"                                                  \
        "@r fma.rn.f32 %2, %10, %7, %2; @s fma.rn.f32 %3, %11, %7, %3;}"                                               \
        : "+f"(first), "+f"(second), "+f"(third), "+f"(fourth)                                                         \
        : "r"(magnitudes), "r"(thresholds.at[0]), "r"(thresholds.at[1]), "f"(right), "f"(left.at[0]),                  \
          "f"(left.at[1]), "f"(left.at[2]), "f"(left.at[3]))
    if (!DROPS) {
        first = __fmaf_rn(left.at[0], right, first);
        second = __fmaf_rn(left.at[1], right, second);
        third = __fmaf_rn(left.at[2], right, third);
        fourth = __fmaf_rn(left.at[3], right, fourth);
    } else if (HIGH) {
        MULTIPLY("h, h");
    } else {
        MULTIPLY("l, l");
    }
#undef MULTIPLY
#endif
}

template <bool DROPS>
static inline void multiply_part(const struct stage *stage, int32_t from, float (&sums)[8][8]) {
    const int32_t row = (int32_t)threadIdx.x / 16 * 4, column = (int32_t)threadIdx.x % 16 * 4;
#pragma unroll
    for (int k = from; k < from + PART; k++) {
        struct four_floats left[2];
        struct two_words thresholds[2] = {}, pairs[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            pairs[i] = *(const struct two_words *)&stage->right[k][column + i * 64];
            left[i] = *(const struct four_floats *)&stage->left[k][row + i * 64];
            if (DROPS) thresholds[i] = *(const struct two_words *)&stage->thresholds[k][row + i * 64];
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t pair = pairs[j / 2].at[j % 2], magnitudes = pair & 0x7FFF7FFFu;
            const float x = number_of(pair & 0xFFFFu), y = number_of(pair >> 16);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float(*const rows)[8] = &sums[4 * i];
                multiply_four<DROPS, false>(rows[0][2 * j], rows[1][2 * j], rows[2][2 * j], rows[3][2 * j], magnitudes,
                                            thresholds[i], x, left[i]);
                multiply_four<DROPS, true>(rows[0][2 * j + 1], rows[1][2 * j + 1], rows[2][2 * j + 1],
                                           rows[3][2 * j + 1], magnitudes, thresholds[i], y, left[i]);
            }
        }
    }
}

/* Move what was gathered into whole numbers; the first time there are none yet. */
static inline void gather_units(struct product_memory *memory, float (&sums)[8][8], bool first) {
    const int32_t row = (int32_t)threadIdx.x / 16 * 4, column = (int32_t)threadIdx.x % 16 * 4;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
            struct four_wholes *const at = (struct four_wholes *)&memory->units[row + i % 4 + i / 4 * 64][column + side * 64];
            struct four_wholes now = {};
            if (!first) now = *at;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                now.at[j] += (int32_t)(bits_of_float(sums[i][side * 4 + j]) - bits_of_float(CARRIED));
                sums[i][side * 4 + j] = CARRIED;
            }
            *at = now;
        }
}

/* A sum on its way out, given in units of 2^-16. */
static inline void leave_units(const struct product_args &a, int64_t batch, int64_t row, int64_t column, int32_t units) {
    const int64_t place = (row + (a.start_batch ? a.start_batch[batch] : 0)) * a.start_row + column * a.start_column;
    const int32_t total = units + (a.start_units ? a.start_units[place] : 0);
    if (a.unrounded || a.gain) {
        leave(a, batch, row, column, (double)total * 0x1p-16);
        return;
    }
    uint16_t half = half_of_units(total);
    if (total == 0 && a.start && bits_of_double(a.start[place]) >> 63 && stays_below_zero(a, batch, row, column)) half = 0x8000u;
    ((uint16_t *)a.out)[a.out_places[batch] + row * a.out_row + a.out_columns[column]] = half;
}

/* OFTEN: fewer parts than a chunk has stay below 64 together. */
template <bool DROPS, bool OFTEN>
static inline void multiply_tile(const struct product_args &a, struct product_memory *memory, int64_t batch,
                                 int64_t first_row, int64_t first_column, int32_t period) {
    float sums[8][8];
#pragma unroll
    for (int i = 0; i < 64; i++) sums[i / 8][i % 8] = CARRIED;
    const uint16_t *const left_values = a.left.values + a.left.places[batch];
    const uint16_t *const right_values = a.right.values + a.right.places[batch];
    const int32_t depth = (int32_t)a.depth;
    put_left(a, &memory->stages[0], bring(a.left, left_values, (int32_t)first_row, 0), 0);
    put_right(a, &memory->stages[0], bring(a.right, right_values, (int32_t)first_column, 0));
    __syncthreads();
    int32_t left = OFTEN ? period : period / (CHUNK / PART);
    bool first = true;
    for (int32_t k = 0, now = 0; k < depth; k += CHUNK, now = 1 - now) {
        struct eight_halves next_left, next_right;
        const bool more = k + CHUNK < depth;
        if (more) {
            next_left = bring(a.left, left_values, (int32_t)first_row, k + CHUNK);
            next_right = bring(a.right, right_values, (int32_t)first_column, k + CHUNK);
        }
#pragma unroll(OFTEN ? 1 : CHUNK / PART)
        for (int32_t part = 0; part < CHUNK; part += PART) {
            multiply_part<DROPS>(&memory->stages[now], part, sums);
            if (OFTEN && --left == 0) {
                gather_units(memory, sums, first);
                first = false;
                left = period;
            }
        }
        if (!OFTEN && --left == 0) {
            gather_units(memory, sums, first);
            first = false;
            left = period / (CHUNK / PART);
        }
        if (more) {
            put_left(a, &memory->stages[1 - now], next_left, k + CHUNK);
            put_right(a, &memory->stages[1 - now], next_right);
        }
        __syncthreads();
    }
    gather_units(memory, sums, first);
    __syncthreads();
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < TILE * TILE; i += THREADS) {
        const int64_t row = first_row + i / TILE, column = first_column + i % TILE;
        if (row < a.rows && column < a.columns) leave_units(a, batch, row, column, memory->units[i / TILE][i % TILE]);
    }
}

KERNEL(product, THREADS, 2) {
    LAUNCHED_MEMORY(shared, PRODUCT_MEMORY);
    struct product_memory *const memory = (struct product_memory *)shared;
    if (gated_off(a)) return;
    const int64_t batch = blockIdx.z;
    const struct verdict verdict = judge(a, batch, blockIdx.y, blockIdx.x, (float(*)[THREADS])shared);
    if (!verdict.fast) return;
    const bool drops = *a.right.least < threshold_of((uint16_t)*a.left.least);
    const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
    const bool often = verdict.period < CHUNK / PART;
    if (often) multiply_tile<true, true>(a, memory, batch, row, column, verdict.period);
    if (!often && drops) multiply_tile<true, false>(a, memory, batch, row, column, verdict.period);
    if (!often && !drops) multiply_tile<false, false>(a, memory, batch, row, column, verdict.period);
}

/* Tiles that no bound proves fast: float64, in the order of the golden model, four by four sums for each thread. */

struct exact_memory {
    double left[CHUNK][EXACT_TILE];
    float thresholds[CHUNK][EXACT_TILE];
    float right[CHUNK][EXACT_TILE];
};

#define CARRIED_EXACTLY 103079215104.0 /* 1.5 * 2^36: its last bit is 2^-16 */

/* CARRIES: sums carry a number whose last bit is 2^-16, and left numbers are moved, as in `product`. */
template <bool CARRIES, bool CHECKS>
static inline void multiply_exactly(const struct product_args &a, struct exact_memory *memory, int64_t batch,
                                    int64_t first_row, int64_t first_column) {
    const int32_t row = (int32_t)threadIdx.x / 16 * 4, column = (int32_t)threadIdx.x % 16 * 4;
    const double carried = CARRIES ? CARRIED_EXACTLY : 0.0;
    double sums[4][4];
    uint32_t above = 0, below = 0; /* which sums are stuck at an infinity */
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int64_t r = first_row + row + i / 4, c = first_column + column + i % 4;
        const double begun = r < a.rows && c < a.columns ? start_of(a, batch, r, c) * 0x1p-16 : 0.0;
        if (CHECKS && begun >= EDGE) above |= 1u << i;
        if (CHECKS && begun <= -EDGE) below |= 1u << i;
        sums[i / 4][i % 4] = CARRIES ? carried + begun : begun;
    }
    const uint16_t *const left_values = a.left.values + a.left.places[batch];
    const uint16_t *const right_values = a.right.values + a.right.places[batch];
    for (int64_t k = 0; k < a.depth; k += CHUNK) {
        for (int32_t i = (int32_t)threadIdx.x; i < CHUNK * EXACT_TILE; i += THREADS) {
            const int32_t line = i % EXACT_TILE, step = i / EXACT_TILE;
            const uint16_t one = left_values[a.left.lines[first_row + line] + a.left.steps[k + step]];
            const uint16_t other = right_values[a.right.lines[first_column + line] + a.right.steps[k + step]];
            const double value = decoded(one);
            const int32_t exponent = exponent_of(one);
            memory->left[step][line] = CARRIES ? double_of_bits(bits_of_double(value) + 1u) : value;
            memory->thresholds[step][line] = exponent <= -3 ? (float)power_of_two(-16 - exponent) : 0.0f;
            memory->right[step][line] = decoded(other);
        }
        __syncthreads();
        const int there = a.depth - k < CHUNK ? (int)(a.depth - k) : CHUNK;
#pragma unroll 1
        for (int t = 0; t < there; t++)
#pragma unroll
            for (int i = 0; i < 16; i++) {
                const double left = memory->left[t][row + i / 4];
                const float right = memory->right[t][column + i % 4];
                const bool kept = (right < 0 ? -right : right) >= memory->thresholds[t][row + i / 4];
                double &sum = sums[i / 4][i % 4];
                if (CARRIES && kept) sum = fma((double)right, left, sum);
                /* What is dropped is +0, which a sum of -0 does not survive. */
                if (!CARRIES) sum += kept ? to_units((double)right * left * 65536.0) * 0x1p-16 : 0.0;
                if (CHECKS) {
                    const uint32_t free = ~(above | below) & 1u << i;
                    if (sum >= carried + EDGE) above |= free;
                    if (sum <= carried - EDGE) below |= free;
                }
            }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int64_t r = first_row + row + i / 4, c = first_column + column + i % 4;
        if (r >= a.rows || c >= a.columns) continue;
        double total = sums[i / 4][i % 4] - carried;
        if (above >> i & 1u) total = double_of_bits(REAL_NAN);
        if (below >> i & 1u) total = double_of_bits(REAL_NAN | (uint64_t)1 << 63);
        leave(a, batch, r, c, total);
    }
}

struct exact_product_args : product_args {};
KERNEL(exact_product, THREADS) {
    __shared__ struct exact_memory memory;
    if (gated_off(a)) return;
    const int64_t row = (int64_t)blockIdx.y * EXACT_TILE, column = (int64_t)blockIdx.x * EXACT_TILE;
    const struct verdict verdict = judge(a, blockIdx.z, row / TILE, column / TILE, (float(*)[THREADS])&memory);
    if (verdict.fast) return;
    const bool checks = verdict.edge && !a.edgeless;
    if (verdict.huge && checks) multiply_exactly<false, true>(a, &memory, blockIdx.z, row, column);
    if (verdict.huge && !checks) multiply_exactly<false, false>(a, &memory, blockIdx.z, row, column);
    if (!verdict.huge && checks) multiply_exactly<true, true>(a, &memory, blockIdx.z, row, column);
    if (!verdict.huge && !checks) multiply_exactly<true, false>(a, &memory, blockIdx.z, row, column);
}

/* The largest sum of magnitudes of the weights of one result, of computed weights: for every sample. */
struct most_sums_args {
    const uint16_t *values;
    uint64_t *found; /* bits of a float64, for every sample */
    int64_t lines, depth, line_step, depth_step, batches; /* batches of a sample */
    int64_t batch_step;
};
KERNEL(most_sums, 256) {
    const int64_t sample = blockIdx.y;
    for (int64_t i = first_index(); i < a.lines * a.batches; i += index_step()) {
        const uint16_t *const line = a.values + (sample * a.batches + i / a.lines) * a.batch_step + i % a.lines * a.line_step;
        double sum = 0;
        for (int64_t k = 0; k < a.depth; k++) sum += magnitude_of((double)decoded(line[k * a.depth_step]));
        atomicMax((unsigned long long *)&a.found[sample], (unsigned long long)bits_of_double(sum));
    }
}

/* Winograd F(2,3) along the width: the four transformed columns of every tile of padded images, each rounded once. */
struct transform_data_args {
    const uint16_t *x; /* [images][channels][height][width], padded */
    uint16_t *out;     /* [4][images][channels][height][tiles] */
    int64_t planes, width, tiles; /* planes: images, channels and rows */
};
KERNEL(transform_data, 256) {
    const int64_t count = a.planes * a.tiles;
    for (int64_t i = first_index(); i < count; i += index_step()) {
        const uint16_t *const at = a.x + i / a.tiles * a.width + i % a.tiles * 2;
        const double d0 = decoded(at[0]), d1 = decoded(at[1]), d2 = decoded(at[2]), d3 = decoded(at[3]);
        a.out[i] = half_of_double(d0 - d2);
        a.out[count + i] = half_of_double(d1 + d2);
        a.out[2 * count + i] = half_of_double(d2 - d1);
        a.out[3 * count + i] = half_of_double(d1 - d3);
    }
}

/* ... and of kernels [kernels][3], as [4][kernels]. */
struct transform_kernels_args {
    const uint16_t *weights;
    uint16_t *out;
    int64_t count;
};
KERNEL(transform_kernels, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const double first = decoded(a.weights[3 * i]), middle = decoded(a.weights[3 * i + 1]), last = decoded(a.weights[3 * i + 2]);
        a.out[i] = half_of_double(first);
        a.out[a.count + i] = half_of_double((first + middle + last) / 2);
        a.out[2 * a.count + i] = half_of_double((first - middle + last) / 2);
        a.out[3 * a.count + i] = half_of_double(last);
    }
}

/* The four sums of a tile become two results; only these look at the edge. */
struct combine_args {
    const double *sums; /* [4][count of tiles] */
    void *out;
    const double *start, *gain, *offset; /* of every channel, or none */
    int64_t count, tiles, width, rows, channels; /* count: tiles of all images, channels and rows */
    int64_t unrounded;
};
KERNEL(combine, 256) {
    for (int64_t i = first_index(); i < a.count; i += index_step()) {
        const int64_t line = i / a.tiles, tile = i % a.tiles, channel = line / a.rows % a.channels;
        const double m0 = a.sums[i], m1 = a.sums[a.count + i], m2 = a.sums[2 * a.count + i], m3 = a.sums[3 * a.count + i];
        const double pair[2] = {m0 + m1 + m2, m1 - m2 - m3};
        for (int side = 0; side < 2 && 2 * tile + side < a.width; side++) {
            double total = pair[side];
            if (a.start) total = total + to_units(a.start[channel] * 65536.0) * 0x1p-16;
            if (magnitude_of(total) >= EDGE) total = double_of_bits(REAL_NAN | (total < 0 ? (uint64_t)1 << 63 : 0));
            const int64_t at = line * a.width + 2 * tile + side;
            if (a.unrounded) {
                ((double *)a.out)[at] = total;
            } else if (a.gain) {
                double gained = total * a.gain[channel];
                if (a.offset) gained = gained + a.offset[channel];
                ((uint16_t *)a.out)[at] = gained != gained ? 0 : half_of_double(gained);
            } else {
                const uint16_t half = half_of_double(total), large = half & 0x7FFFu;
                ((uint16_t *)a.out)[at] = (uint16_t)((half & 0x8000u) | (large >= HALF_EDGE ? HALF_INFINITY : large));
            }
        }
    }
}
