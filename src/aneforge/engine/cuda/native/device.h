/* What all kernels share: types, how a kernel is declared, and where a thread stands.
 *
 * A kernel takes one struct whose fields are all of eight bytes, so that a launch is plain data. The same text is
 * compiled by NVRTC for a GPU and, with ANEFORGE_EMULATED, by a C++ compiler of the host (emulation.h), where every
 * thread of a block is a fiber: what CI runs is this code.
 */

#ifndef ANEFORGE_DEVICE_H
#define ANEFORGE_DEVICE_H

#ifdef ANEFORGE_EMULATED
#define KERNEL(name, ...)                                                                                              \
    static void name##_body(const struct name##_args &a);                                                             \
    extern "C" void name(const void *args, int64_t x, int64_t y, int64_t z, int64_t width) {                           \
        struct name##_args given;                                                                                      \
        memcpy(&given, args, sizeof given);                                                                            \
        emulate([given] { name##_body(given); }, x, y, z, width);                                                      \
    }                                                                                                                  \
    static void name##_body(const struct name##_args &a)
#define LAUNCHED_MEMORY(name, bytes) alignas(16) static char name[bytes]
#else
#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const struct name##_args a)
#define LAUNCHED_MEMORY(name, bytes) extern __shared__ char name[]
#endif

#define MOST_AXES 6

/* A shape and, for each operand, how far apart neighbours along each axis are; a step of 0 is a broadcast. */
struct axes {
    int64_t shape[MOST_AXES];
};
struct steps {
    int64_t along[MOST_AXES];
};

static inline int64_t place_of(int64_t index, const struct axes &axes, const struct steps &steps) {
    int64_t place = 0;
    if (axes.shape[MOST_AXES - 2] == 1) return index * steps.along[MOST_AXES - 1]; /* one axis, as most have */
    if (index <= 0x7FFFFFFF) { /* divisions of 32 bits cost a fraction of those of 64 */
        uint32_t left = (uint32_t)index;
        for (int axis = MOST_AXES - 1; axis >= 0 && left; axis--) {
            const uint32_t extent = (uint32_t)axes.shape[axis];
            if (extent == 1) continue;
            const uint32_t rest = left / extent;
            place += (int64_t)(left - rest * extent) * steps.along[axis];
            left = rest;
        }
        return place;
    }
    for (int axis = MOST_AXES - 1; axis >= 0; axis--) {
        const int64_t extent = axes.shape[axis];
        if (extent == 1) continue;
        const int64_t rest = index / extent;
        place += (index - rest * extent) * steps.along[axis];
        index = rest;
    }
    return place;
}

static inline int64_t first_index(void) { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static inline int64_t index_step(void) { return (int64_t)gridDim.x * blockDim.x; }

static inline double magnitude_of(double value) { return value < 0 ? -value : value; }
static inline double power_of_two(int32_t exponent) { return double_of_bits((uint64_t)(1023 + exponent) << 52); }

/* The exponent of the leading bit; 0 for zero. Subnormal doubles do not come here. */
static inline int32_t leading_exponent(double value) {
    const int32_t field = (int32_t)(bits_of_double(value) >> 52) & 0x7FF;
    return field == 0 ? 0 : field - 1023;
}

/* An fp16 number rounded and read again, as the engine reads it. */
static inline double through_half(double value) { return decoded(half_of_double(value)); }

struct alignas(16) eight_halves {
    uint16_t at[8];
};
/* Whether eight fp16 numbers can be read and written at once, of so many. */
static inline bool in_eights(const void *one, const void *other, int64_t count) {
    return count % 8 == 0 && (((uint64_t)one | (uint64_t)other) & 15u) == 0;
}

/* Whether the numbers of a result, which lie one after the other, are written eight at a time, each eight of one row. */
static inline bool rows_of_eights(const struct axes &axes, const void *out) {
    return axes.shape[MOST_AXES - 1] % 8 == 0 && ((uint64_t)out & 15u) == 0;
}
/* Eight fp16 numbers of a row from an index on, at once where they lie together. */
static inline struct eight_halves load_eight(const uint16_t *x, int64_t index, const struct axes &axes,
                                             const struct steps &steps) {
    const uint16_t *const at = x + place_of(index, axes, steps);
    const int64_t step = steps.along[MOST_AXES - 1];
    if (step == 1 && ((uint64_t)at & 15u) == 0) return *(const struct eight_halves *)at;
    struct eight_halves found;
#pragma unroll
    for (int i = 0; i < 8; i++) found.at[i] = at[i * step];
    return found;
}

#define REAL_NAN 0x7FF0000000000000u
static inline bool is_finite(double value) { return (bits_of_double(value) & REAL_NAN) != REAL_NAN; }

#endif
