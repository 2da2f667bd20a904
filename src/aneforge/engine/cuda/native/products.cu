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
 * What is gathered beside 192 moves into integers in shared memory before it can reach 64. How often that is needed
 * bounds say, sums of magnitudes or norms of every PART steps and norms of every chunk; tiles for which they prove
 * nothing, and those whose sums may pass the edge at 2^15, are done by `exact_product` in the order and with the
 * operations of the golden model.
 *
 * Operands are packed before (`pack`; constants on the host): float32 numbers and fp16 thresholds or magnitudes in the
 * very order in which a block copies them to its shared memory. Images of convolutions, of which every number is read
 * for several places, are gathered instead.
 */

#define GROUP 64 /* lines that are packed, and bounded, together */
#define CHUNK 16 /* steps that are brought to shared memory at a time */
#define PART 4   /* steps that a bound is of */
#define CARRIED 192.0f
#define LIMIT 63.0f
#define EDGE 32768.0
#define THREADS 128
#define EXACT_THREADS 256

/* Lines and steps are listed up to whole groups and chunks; what is listed too many is some line again. */
struct operand {
    const uint16_t *values;
    const int64_t *places; /* of every batch */
    const int32_t *lines, *steps;
    const struct packed_chunk *packed; /* [batch][group][chunk]; or none: gathered */
    const uint32_t *largest;           /* magnitude of all its numbers, as fp16 */
    const uint32_t *least;             /* the least one above 0 */
    const float *sums;                 /* [batch][group][part], the largest of the lines of a group; or none */
    const float *norms;                /* likewise */
    const float *chunk_norms;          /* [batch][group][chunk]; or none */
    const float *wholes;               /* [batch][group]: the largest sum of a part, of a chunk, and of all; or none */
    int64_t groups;                    /* of a batch; batches share packs and bounds by `packed_batch` */
    const int32_t *packed_batch;
};

/* Left numbers are moved by one unit in the last place and have thresholds beside them, right ones magnitudes. What a
 * thread needs of these lies together: thresholds of its eight rows, magnitudes of its four columns for two steps. */
struct alignas(16) packed_chunk {
    float numbers[CHUNK][GROUP];
    uint16_t halves[CHUNK * GROUP];
};
static inline int32_t threshold_place(int32_t step, int32_t row) {
    return step * GROUP + (row & 32) + (row & 12) * 2 + (row & 16) / 4 + (row & 3);
}
static inline int32_t magnitude_place(int32_t step, int32_t column) {
    return (step / 2 * GROUP + (column & ~3)) * 2 + step % 2 * 4 + (column & 3);
}

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
    uint32_t *verdicts; /* of every tile: what bounds say of it */
    int64_t slices;     /* blocks that share the steps of a tile */
    int32_t *partial;   /* [tile][slice][GROUP][GROUP]: their sums */
    uint32_t *arrived;  /* how many of a tile are done */
    int64_t rectifies;     /* negative results become 0 */
    int64_t special, zero; /* flags of results that are no numbers, or -0, before that */
    uint32_t *flagged;     /* flags that were met, for every sample */
    int64_t sample_count;  /* results of a sample */
};

static inline float number_of(uint32_t half) {
#ifdef ANEFORGE_EMULATED
    return decoded((uint16_t)half);
#else
    float value;
    asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "r"(half));
    return value;
#endif
}

/* fp16 bits of the magnitude from which on a number is not dropped beside this one; 0 where none is. */
static inline uint32_t threshold_of(uint16_t half) {
    const int32_t exponent = exponent_of(half);
    return exponent <= -3 ? (uint32_t)(-1 - exponent) << 10 : 0u;
}

/* Packs a group of lines of a chunk of steps, and finds the largest sum of magnitudes and norm of its parts, and the
 * largest norm of the chunk. */
struct pack_args {
    const uint16_t *values;
    const int64_t *places;
    const int32_t *lines, *steps; /* up to whole groups and chunks */
    int64_t count, depth, along_steps; /* along_steps: what follows a step lies behind it in memory */
    struct packed_chunk *packed;
    float *sums, *norms, *chunk_norms;
    int64_t left;
};
KERNEL(pack, 256) {
    __shared__ uint16_t halves[CHUNK][GROUP + 2];
    __shared__ uint32_t most[2][CHUNK / PART], most_of_chunk;
    __shared__ float squares[CHUNK / PART][GROUP];
    const int32_t thread = (int32_t)threadIdx.x, chunks = (int32_t)gridDim.x, chunk = (int32_t)blockIdx.x;
    const int64_t group = blockIdx.y, packed = (int64_t)blockIdx.z * gridDim.y + group;
    const uint16_t *const values = a.values + a.places[blockIdx.z];
    if (thread < 2 * (CHUNK / PART)) most[thread / (CHUNK / PART)][thread % (CHUNK / PART)] = 0;
    if (thread == 0) most_of_chunk = 0;
    for (int i = 0; i < 4; i++) {
        const int32_t line = a.along_steps ? thread / CHUNK + 16 * i : thread % GROUP;
        const int32_t step = a.along_steps ? thread % CHUNK : thread / GROUP + 4 * i;
        const bool there = group * GROUP + line < a.count && chunk * CHUNK + step < a.depth;
        halves[step][line] = there ? values[a.lines[group * GROUP + line] + a.steps[chunk * CHUNK + step]] : 0;
    }
    __syncthreads();
    struct packed_chunk *const out = a.packed + packed * chunks + chunk;
    const int32_t line = thread % GROUP, part = thread / GROUP;
    float sum = 0, square = 0;
    for (int i = 0; i < PART; i++) {
        const uint16_t half = halves[part * PART + i][line];
        const float value = decoded(half), magnitude = value < 0 ? -value : value;
        out->numbers[part * PART + i][line] = a.left ? float_of_bits(bits_of_float(value) + 1u) : value;
        if (a.left) out->halves[threshold_place(part * PART + i, line)] = (uint16_t)threshold_of(half);
        if (!a.left) out->halves[magnitude_place(part * PART + i, line)] = half & 0x7FFFu;
        sum += magnitude;
        square += value * value;
    }
    atomicMax(&most[0][part], bits_of_float(sum)); /* bits of numbers above 0 are in their order */
    atomicMax(&most[1][part], bits_of_float(square));
    squares[part][line] = square;
    __syncthreads();
    if (thread < GROUP) {
        float whole = 0;
        for (int i = 0; i < CHUNK / PART; i++) whole += squares[i][thread];
        atomicMax(&most_of_chunk, bits_of_float(whole));
    }
    __syncthreads();
    if (thread == 0) a.chunk_norms[packed * chunks + chunk] = sqrtf(float_of_bits(most_of_chunk)) * 1.0001f;
    const int64_t parts = (a.depth + PART - 1) / PART, at = (int64_t)chunk * (CHUNK / PART) + thread;
    if (thread >= CHUNK / PART || at >= parts) return;
    a.sums[packed * parts + at] = float_of_bits(most[0][thread]) * 1.0001f;
    a.norms[packed * parts + at] = sqrtf(float_of_bits(most[1][thread])) * 1.0001f;
}

static inline const float *bounds_of(const float *found, const struct operand &operand, int64_t batch, int64_t group,
                                     int64_t parts) {
    return found ? found + ((int64_t)operand.packed_batch[batch] * operand.groups + group) * parts : 0;
}

enum verdict_bits { VERDICT_FAST = 1, VERDICT_EDGE = 2, VERDICT_HUGE = 4 };

struct verdict {
    uint32_t bits; /* fast: every part stays below 64, and the whole below the edge; edge: a sum may pass the edge;
                    * huge: it may pass what `exact_product` carries */
    int32_t parts, chunks; /* how many stay below 64 together */
};

/* What sums of magnitudes reach at most, of any part, of any chunk, and of all steps. */
struct reach {
    float part, chunk, whole;
};

/* The reach of a tile of two operands with bounds of every part. Norms of chunks are tighter than the sum of parts. */
static inline struct reach reach_of_parts(const struct product_args &a, int64_t batch, float (*shared)[THREADS]) {
    const int64_t parts = (a.depth + PART - 1) / PART, chunks = (a.depth + CHUNK - 1) / CHUNK;
    const float left_most = decoded((uint16_t)*a.left.largest), right_most = decoded((uint16_t)*a.right.largest);
    const float *const left_sums = bounds_of(a.left.sums, a.left, batch, blockIdx.y, parts);
    const float *const left_norms = bounds_of(a.left.norms, a.left, batch, blockIdx.y, parts);
    const float *const left_chunks = bounds_of(a.left.chunk_norms, a.left, batch, blockIdx.y, chunks);
    const float *const right_sums = bounds_of(a.right.sums, a.right, batch, blockIdx.x, parts);
    const float *const right_norms = bounds_of(a.right.norms, a.right, batch, blockIdx.x, parts);
    const float *const right_chunks = bounds_of(a.right.chunk_norms, a.right, batch, blockIdx.x, chunks);
    struct reach found = {0, 0, 0};
    for (int64_t chunk = threadIdx.x; chunk < chunks; chunk += THREADS) {
        const int64_t first = chunk * (CHUNK / PART), behind = first + CHUNK / PART;
        float together = 0;
        for (int64_t part = first; part < behind && part < parts; part++) {
            float here = left_sums[part] * right_most;
            if (right_sums) here = fminf(here, fminf(right_sums[part] * left_most, left_norms[part] * right_norms[part]));
            found.part = fmaxf(found.part, here);
            together += here;
        }
        if (right_sums) together = fminf(together, left_chunks[chunk] * right_chunks[chunk]);
        found.chunk = fmaxf(found.chunk, together);
        found.whole += together;
    }
    shared[0][threadIdx.x] = found.part;
    shared[1][threadIdx.x] = found.chunk;
    shared[2][threadIdx.x] = found.whole;
    __syncthreads();
    for (unsigned half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) {
            for (int i = 0; i < 2; i++)
                shared[i][threadIdx.x] = fmaxf(shared[i][threadIdx.x], shared[i][threadIdx.x + half]);
            shared[2][threadIdx.x] += shared[2][threadIdx.x + half];
        }
        __syncthreads();
    }
    found = {shared[0][0], shared[1][0], shared[2][0]};
    __syncthreads();
    return found;
}

static inline int32_t below_limit(float most) {
    const float together = LIMIT / most;
    return together < 1e9f ? (int32_t)together : 1000000000;
}

/* What bounds say of a tile. Beside images that are gathered, those of constants are known of all parts together. */
static inline struct verdict judge(const struct product_args &a, int64_t batch, float (*shared)[THREADS]) {
    const float left_most = decoded((uint16_t)*a.left.largest), right_most = decoded((uint16_t)*a.right.largest);
    struct reach most;
    if (a.left.wholes && !a.right.sums) {
        const float *const whole = a.left.wholes + ((int64_t)a.left.packed_batch[batch] * a.left.groups + blockIdx.y) * 3;
        most = {whole[0] * right_most, whole[1] * right_most, whole[2] * right_most};
    } else {
        most = reach_of_parts(a, batch, shared);
    }
    most.part += PART * 0x1p-17f; /* every product is rounded */
    most.chunk += CHUNK * 0x1p-17f;
    const double reach = (double)most.whole * 1.001 + (double)(a.depth + CHUNK) * 0x1p-17 + a.start_most;
    const bool numbers = left_most < 65536.0f && right_most < 65536.0f;
    struct verdict found = {0, below_limit(most.part), below_limit(most.chunk)};
    if (numbers && most.part < LIMIT && reach < EDGE * 0.999) found.bits |= VERDICT_FAST;
    if (!(reach < EDGE * 0.999)) found.bits |= VERDICT_EDGE;
    if (!(reach < 0x1p34)) found.bits |= VERDICT_HUGE;
    return found;
}

static inline bool gated_off(const struct product_args &a) { return a.gate && (int64_t)*a.gate < a.gate_from; }

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

/* A rounded sum as it goes out. */
static inline uint16_t finished(const struct product_args &a, int64_t at, uint16_t half) {
    if (!a.rectifies) return half;
    const bool special = (half & HALF_INFINITY) == HALF_INFINITY;
    if (special || half == 0x8000u) atomicOr(&a.flagged[at / a.sample_count], (uint32_t)(special ? a.special : a.zero));
    return half & 0x8000u ? 0 : half;
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
        ((uint16_t *)a.out)[at] = finished(a, at, gained != gained ? 0 : half_of_double(gained));
        return;
    }
    uint16_t half = half_of_double(total);
    const uint16_t large = half & 0x7FFFu;
    if (total == 0 && a.start && bits_of_double(a.start[place]) >> 63 && stays_below_zero(a, batch, row, column)) half = 0x8000u;
    half = (uint16_t)((half & 0x8000u) | (large >= HALF_EDGE ? HALF_INFINITY : large));
    ((uint16_t *)a.out)[at] = finished(a, at, half);
}

static inline double to_units(double scaled) {
    return copysign((double)(int64_t)(magnitude_of(scaled) + 0.5), scaled);
}

static inline double start_of(const struct product_args &a, int64_t batch, int64_t row, int64_t column) {
    if (!a.start) return 0.0;
    const int64_t first = a.start_batch ? a.start_batch[batch] : 0;
    return to_units(a.start[(row + first) * a.start_row + column * a.start_column] * 65536.0);
}

/* A tile is a group of rows by a group of columns, a warp does 32 by 32 of it, a thread 8 by 4. Larger tiles were
 * slower: what counts is how many warps wait for each other's comparisons. */
struct product_stage {
    struct packed_chunk left, right;
};
struct product_memory {
    int32_t units[GROUP][GROUP];
    struct product_stage stages[2];
};
#define PRODUCT_MEMORY 40960
static_assert(sizeof(struct product_memory) == PRODUCT_MEMORY, "what a launch asks for");

struct alignas(16) four_floats {
    float at[4];
};
struct alignas(16) four_wholes {
    int32_t at[4];
};
struct alignas(16) four_words {
    uint32_t at[4];
};

/* Copies of sixteen bytes to shared memory, which go on while a block multiplies. */
static inline void copy_sixteen(void *to, const void *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from));
#else
    *(struct four_wholes *)to = *(const struct four_wholes *)from;
#endif
}
static inline void await_copies(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* Begin to copy a chunk. */
static inline void copy_chunk(struct packed_chunk *to, const struct packed_chunk *from) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(struct packed_chunk); i += THREADS * 16)
        copy_sixteen((char *)to + threadIdx.x * 16 + i, (const char *)from + threadIdx.x * 16 + i);
}
static_assert(sizeof(struct packed_chunk) % (THREADS * 16) == 0, "copies that come out even");

/* What a thread gathers of a chunk: one line, every so manieth step. */
struct gathering {
    static const int APART = THREADS / GROUP, COUNT = CHUNK / APART;
    const uint16_t *line;
    const int32_t *steps;
    int32_t next[COUNT]; /* where the numbers of the next chunk are */
    uint16_t brought[COUNT];

    static inline int32_t column(void) { return (int32_t)threadIdx.x % GROUP; }
    static inline int32_t step(int i) { return (int32_t)threadIdx.x / GROUP + APART * i; }
    inline void look(int32_t k) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) next[i] = steps[k + step(i)];
    }
    inline void bring(void) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) brought[i] = line[next[i]];
    }
    inline void put(struct packed_chunk *to) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            to->numbers[step(i)][column()] = number_of(brought[i]);
            to->halves[magnitude_place(step(i), column())] = brought[i] & 0x7FFFu;
        }
    }
};

/* One right number with four left ones, whose thresholds are in two words: each product is added unless it is dropped.
 * HIGH says which half of a word the right number is. Both comparisons come first, so that what waits for one has the other's work to do. */
template <bool DROPS, bool HIGH>
static inline void multiply_four(float &first, float &second, float &third, float &fourth, uint32_t magnitudes,
                                 uint32_t one, uint32_t other, float right, const struct four_floats &left) {
#ifdef ANEFORGE_EMULATED
    const uint32_t magnitude = HIGH ? magnitudes >> 16 : magnitudes & 0xFFFFu;
    if (!DROPS || magnitude >= (one & 0xFFFFu)) first = fmaf(left.at[0], right, first);
    if (!DROPS || magnitude >= one >> 16) second = fmaf(left.at[1], right, second);
    if (!DROPS || magnitude >= (other & 0xFFFFu)) third = fmaf(left.at[2], right, third);
    if (!DROPS || magnitude >= other >> 16) fourth = fmaf(left.at[3], right, fourth);
#else
#define MULTIPLY(half)                                                                                                 \
    asm("{.reg .pred p, q, r, s; .reg .b16 l, h; .reg .b32 d; mov.b32 {l, h}, %4; mov.b32 d, {" half "};"              \
        "setp.ge.f16x2 p|q, d, %5; setp.ge.f16x2 r|s, d, %6;"                                                          \
        "@p fma.rn.f32 %0, %8, %7, %0; @q fma.rn.f32 %1, %9, %7, %1;"                                                  \
        "@r fma.rn.f32 %2, %10, %7, %2; @s fma.rn.f32 %3, %11, %7, %3;}"                                               \
        : "+f"(first), "+f"(second), "+f"(third), "+f"(fourth)                                                         \
        : "r"(magnitudes), "r"(one), "r"(other), "f"(right), "f"(left.at[0]), "f"(left.at[1]), "f"(left.at[2]),        \
          "f"(left.at[3]))
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

/* The first row and column of a thread in its tile; it has four more rows 16 further on. */
static inline int32_t own_row(void) { return (int32_t)threadIdx.x / 64 * 32 + (int32_t)threadIdx.x % 32 / 8 * 4; }
static inline int32_t own_column(void) { return (int32_t)threadIdx.x / 32 % 2 * 32 + (int32_t)threadIdx.x % 8 * 4; }

template <bool DROPS>
static inline void multiply_part(const struct product_stage *stage, int32_t from, float (&sums)[8][4]) {
    const int32_t row = own_row(), column = own_column();
    struct four_words magnitudes = {}, thresholds = {};
#pragma unroll
    for (int k = from; k < from + PART; k++) {
        if (DROPS && k % 2 == 0)
            magnitudes = *(const struct four_words *)&stage->right.halves[magnitude_place(k, column)];
        if (DROPS) thresholds = *(const struct four_words *)&stage->left.halves[threshold_place(k, row)];
        const struct four_floats right = *(const struct four_floats *)&stage->right.numbers[k][column];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const struct four_floats left = *(const struct four_floats *)&stage->left.numbers[k][row + i * 16];
            const uint32_t first = thresholds.at[2 * i], second = thresholds.at[2 * i + 1];
            float(*const rows)[4] = &sums[4 * i];
#pragma unroll
            for (int j = 0; j < 4; j += 2) {
                const uint32_t pair = magnitudes.at[k % 2 * 2 + j / 2];
                multiply_four<DROPS, false>(rows[0][j], rows[1][j], rows[2][j], rows[3][j], pair, first, second,
                                            right.at[j], left);
                multiply_four<DROPS, true>(rows[0][j + 1], rows[1][j + 1], rows[2][j + 1], rows[3][j + 1], pair, first,
                                           second, right.at[j + 1], left);
            }
        }
    }
}

/* Where the units of a thread lie, four side by side, of its eight rows. */
static inline struct four_wholes *own_units(int32_t (*units)[GROUP], int i) {
    return (struct four_wholes *)&units[own_row() + i % 4 + i / 4 * 16][own_column()];
}

/* Move what was gathered into whole numbers; the first time there are none yet. */
static inline void gather_units(struct product_memory *memory, float (&sums)[8][4], bool first) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        struct four_wholes *const at = own_units(memory->units, i);
        struct four_wholes now = {};
        if (!first) now = *at;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            now.at[j] += (int32_t)(bits_of_float(sums[i][j]) - bits_of_float(CARRIED));
            sums[i][j] = CARRIED;
        }
        *at = now;
    }
}

/* The part of a tile that a block does: chunks of steps. Sums in units are whole numbers below 2^31, so that parts may
 * be added in any order. */
struct slice {
    int64_t batch, tile;
    int32_t number, first, behind;
};

static inline struct slice slice_of(const struct product_args &a) {
    const int64_t batch = blockIdx.z / a.slices;
    const int32_t chunks = (int32_t)((a.depth + CHUNK - 1) / CHUNK), number = (int32_t)(blockIdx.z % a.slices);
    const int32_t each = (chunks + (int32_t)a.slices - 1) / (int32_t)a.slices, behind = (number + 1) * each;
    const struct slice found = {batch, (batch * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x, number, number * each,
                                behind < chunks ? behind : chunks};
    return found;
}

static inline const struct packed_chunk *first_chunk(const struct operand &operand, const struct slice &slice,
                                                     int64_t group, int32_t chunks) {
    return operand.packed + (operand.packed_batch[slice.batch] * operand.groups + group) * chunks + slice.first;
}

/* Whether this block is the last of a tile's slices to come here; its threads get the sums of all. */
static inline bool last_of_slices(const struct product_args &a, struct product_memory *memory, const struct slice &slice) {
    if (a.slices == 1) return true;
    int32_t(*const all)[GROUP] = (int32_t(*)[GROUP])a.partial + slice.tile * a.slices * GROUP;
#pragma unroll
    for (int i = 0; i < 8; i++) *own_units(all + slice.number * GROUP, i) = *own_units(memory->units, i);
    __threadfence();
    __syncthreads();
    uint32_t *const arrived = (uint32_t *)&memory->stages[0];
    if (threadIdx.x == 0) *arrived = atomicAdd(&a.arrived[slice.tile], 1u);
    __syncthreads();
    if (*arrived + 1 < (uint32_t)a.slices) return false;
    __threadfence();
#pragma unroll 1
    for (int32_t one = 0; one < (int32_t)a.slices; one++) {
        if (one == slice.number) continue;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const volatile struct four_wholes *const there = own_units(all + one * GROUP, i);
#pragma unroll
            for (int j = 0; j < 4; j++) own_units(memory->units, i)->at[j] += there->at[j];
        }
    }
    return true;
}

/* Sums on their way out, given in units of 2^-16: every thread its own. */
static inline void leave_units(const struct product_args &a, struct product_memory *memory, int64_t batch) {
    const int64_t column = (int64_t)blockIdx.x * GROUP + own_column();
    if (column >= a.columns) return;
    const bool plain = !a.unrounded && !a.gain, begins = a.start != 0;
    const int32_t there = a.columns - column < 4 ? (int32_t)(a.columns - column) : 4;
    int32_t columns[4];
#pragma unroll
    for (int j = 0; j < 4; j++) columns[j] = a.out_columns[j < there ? column + j : column];
    const int64_t first_batch = a.start_batch ? a.start_batch[batch] : 0, out = a.out_places[batch];
    const bool four = plain && columns[3] - columns[0] == 3 && columns[2] - columns[0] == 2 && columns[1] - columns[0] == 1;
#pragma unroll 2
    for (int i = 0; i < 8; i++) {
        const int64_t row = (int64_t)blockIdx.y * GROUP + own_row() + i % 4 + i / 4 * 16;
        if (row >= a.rows) continue;
        const int64_t start = (row + first_batch) * a.start_row + column * a.start_column, at = out + row * a.out_row;
        const struct four_wholes units = *own_units(memory->units, i);
        struct alignas(8) {
            uint16_t at[4];
        } halves;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (j >= there) break;
            const int64_t place = start + j * a.start_column;
            const int32_t total = units.at[j] + (begins ? a.start_units[place] : 0);
            if (!plain) {
                leave(a, batch, row, column + j, (double)total * 0x1p-16);
                continue;
            }
            uint16_t half = half_of_units(total);
            if (total == 0 && begins && bits_of_double(a.start[place]) >> 63 && stays_below_zero(a, batch, row, column + j))
                half = 0x8000u;
            halves.at[j] = finished(a, at + columns[j], half);
            if (!four) ((uint16_t *)a.out)[at + columns[j]] = halves.at[j];
        }
        if (!four) continue;
        uint16_t *const to = (uint16_t *)a.out + at + columns[0];
        if (((uint64_t)to & 7u) == 0) {
            *(uint64_t *)to = *(const uint64_t *)&halves;
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) to[j] = halves.at[j];
        }
    }
}

/* OFTEN: a chunk may reach 64, and a period is one of parts; else it is one of chunks. */
template <bool GATHERS, bool DROPS, bool OFTEN>
static inline void multiply_tile(const struct product_args &a, struct product_memory *memory, const struct slice &slice,
                                 int32_t period) {
    float sums[8][4];
#pragma unroll
    for (int i = 0; i < 32; i++) sums[i / 4][i % 4] = CARRIED;
    const int32_t chunks = (int32_t)((a.depth + CHUNK - 1) / CHUNK), behind = slice.behind;
    const struct packed_chunk *lefts = first_chunk(a.left, slice, blockIdx.y, chunks);
    const struct packed_chunk *rights = first_chunk(a.right, slice, blockIdx.x, chunks);
    struct gathering gathering;
    if (GATHERS) {
        const int64_t line = a.right.lines[(int64_t)blockIdx.x * GROUP + gathering.column()];
        gathering.line = a.right.values + a.right.places[slice.batch] + line;
        gathering.steps = a.right.steps;
        gathering.look(slice.first * CHUNK);
        gathering.bring();
        gathering.put(&memory->stages[0].right);
        if (slice.first + 1 < behind) gathering.look((slice.first + 1) * CHUNK);
    }
    __syncthreads();
    int32_t left = period, now = 0;
    bool first = true;
    for (int32_t chunk = slice.first; chunk < behind;) {
        const int32_t until = OFTEN || behind - chunk < period ? behind : chunk + period;
#pragma unroll
        for (int i = 0; !OFTEN && i < 32; i++) sums[i / 4][i % 4] = CARRIED;
        for (; chunk < until; chunk++, now = 1 - now) {
            struct product_stage *const next = &memory->stages[1 - now];
            const bool more = chunk + 1 < behind;
            if (more) {
                copy_chunk(&next->left, ++lefts);
                if (!GATHERS) copy_chunk(&next->right, ++rights);
                if (GATHERS) gathering.bring();
            }
            if (GATHERS && chunk + 2 < behind) gathering.look((chunk + 2) * CHUNK);
#pragma unroll(OFTEN ? 1 : CHUNK / PART)
            for (int32_t part = 0; part < CHUNK; part += PART) {
                multiply_part<DROPS>(&memory->stages[now], part, sums);
                if (OFTEN && --left == 0) {
                    gather_units(memory, sums, first);
                    first = false;
                    left = period;
                }
            }
            if (GATHERS && more) gathering.put(&next->right);
            await_copies();
            __syncthreads();
        }
        gather_units(memory, sums, first);
        first = false;
    }
    __syncthreads();
}

template <bool GATHERS>
static inline void multiply_form(const struct product_args &a, struct product_memory *memory, const struct slice &slice,
                                 const struct verdict &verdict, bool drops) {
    const bool often = verdict.chunks == 0;
    if (often) multiply_tile<GATHERS, true, true>(a, memory, slice, verdict.parts);
    if (!often && drops) multiply_tile<GATHERS, true, false>(a, memory, slice, verdict.chunks);
    if (!often && !drops) multiply_tile<GATHERS, false, false>(a, memory, slice, verdict.chunks);
}

KERNEL(product, THREADS, 5) {
    LAUNCHED_MEMORY(shared, PRODUCT_MEMORY);
    struct product_memory *const memory = (struct product_memory *)shared;
    if (gated_off(a)) return;
    const struct slice slice = slice_of(a);
    const int32_t chunks = (int32_t)((a.depth + CHUNK - 1) / CHUNK);
    copy_chunk(&memory->stages[0].left, first_chunk(a.left, slice, blockIdx.y, chunks)); /* while bounds are looked at */
    if (a.right.packed) copy_chunk(&memory->stages[0].right, first_chunk(a.right, slice, blockIdx.x, chunks));
    const struct verdict verdict = judge(a, slice.batch, (float(*)[THREADS])shared);
    if (threadIdx.x == 0) a.verdicts[slice.tile] = verdict.bits;
    await_copies();
    if (!(verdict.bits & VERDICT_FAST)) return;
    const bool drops = *a.right.least < threshold_of((uint16_t)*a.left.least);
    if (a.right.packed) multiply_form<false>(a, memory, slice, verdict, drops);
    if (!a.right.packed) multiply_form<true>(a, memory, slice, verdict, drops);
    if (last_of_slices(a, memory, slice)) leave_units(a, memory, slice.batch);
}
