/* Tiles that no bound proves fast: float64, in the order of the golden model, four by four sums for each thread. */

struct exact_memory {
    double left[CHUNK][GROUP];
    float thresholds[CHUNK][GROUP];
    float right[CHUNK][GROUP];
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
        for (int32_t i = (int32_t)threadIdx.x; i < CHUNK * GROUP; i += EXACT_THREADS) {
            const int32_t line = i % GROUP, step = i / GROUP;
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
KERNEL(exact_product, EXACT_THREADS) {
    __shared__ struct exact_memory memory;
    if (gated_off(a)) return;
    const uint32_t verdict = a.verdicts[((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x];
    if (verdict & VERDICT_FAST) return;
    const int64_t row = (int64_t)blockIdx.y * GROUP, column = (int64_t)blockIdx.x * GROUP;
    const bool huge = verdict & VERDICT_HUGE, checks = verdict & VERDICT_EDGE && !a.edgeless;
    if (huge && checks) multiply_exactly<false, true>(a, &memory, blockIdx.z, row, column);
    if (huge && !checks) multiply_exactly<false, false>(a, &memory, blockIdx.z, row, column);
    if (!huge && checks) multiply_exactly<true, true>(a, &memory, blockIdx.z, row, column);
    if (!huge && !checks) multiply_exactly<true, false>(a, &memory, blockIdx.z, row, column);
}

/* The largest sum of magnitudes of the weights of one result, of computed weights: for every sample. */
struct most_sums_args {
    const uint16_t *values;
    uint64_t *found; /* bits of a float64, for every sample */
    int64_t lines, depth, line_step, depth_step, batches; /* batches of a sample */
    int64_t batch_step;
};
KERNEL(most_sums, 256) {
    __shared__ unsigned long long most; /* bits of numbers above 0 are in their order */
    const int64_t sample = blockIdx.y;
    if (threadIdx.x == 0) most = 0;
    __syncthreads();
    double mine = 0;
    for (int64_t i = first_index(); i < a.lines * a.batches; i += index_step()) {
        const uint16_t *const line = a.values + (sample * a.batches + i / a.lines) * a.batch_step + i % a.lines * a.line_step;
        double sum = 0;
        for (int64_t k = 0; k < a.depth; k++) sum += magnitude_of((double)decoded(line[k * a.depth_step]));
        mine = sum > mine ? sum : mine;
    }
    atomicMax(&most, (unsigned long long)bits_of_double(mine));
    __syncthreads();
    if (threadIdx.x == 0) atomicMax((unsigned long long *)&a.found[sample], most);
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
