/* Without vectors of a known kind every sum goes in double (`doubles.h`). */

#ifndef ANEFORGE_LANES_PORTABLE_H
#define ANEFORGE_LANES_PORTABLE_H

#include "numbers.h"
#include "strip.h"

typedef uint8_t limit; /* stored, not used */
#define REALS 2 /* doubles in a vector */
#define OWN_DOUBLES 0
#define DOUBLE_ROWS 1

typedef double two_doubles __attribute__((vector_size(16)));

static inline void convert_lanes(const uint16_t *halves, float *values, uint8_t *exponents) {
    (void)exponents; /* only sums in float32 look at them */
    for (int i = 0; i < LANES; i++) values[i] = decoded(halves[i]);
}

static inline void store_lanes(const uint16_t *halves, float *values, limit *limits) {
    (void)limits;
    for (int i = 0; i < LANES; i++) {
        const float scaled = decoded(halves[i]) * 65536.0f;
        const uint32_t sign = bits_of_float(scaled) & 0x80000000u;
        values[i] = float_of_bits(scaled == 0 ? sign | STORED_ZERO : bits_of_float(scaled) + 1);
    }
}

/* Every sum goes in double and no steps are sorted: nothing calls these two. */
static inline void multiply_floats(const struct strip *strip) { (void)strip; }

static inline void sort_steps(struct strip *strip, const uint8_t *left_least, const uint8_t *right_least, int32_t first,
                              int32_t last, uint32_t *plain, uint32_t *guarded) {
    (void)strip, (void)left_least, (void)right_least, (void)first, (void)last, (void)plain, (void)guarded;
}

static inline two_doubles spread_double(double value) { return (two_doubles){value, value}; }

static inline two_doubles fused(two_doubles x, two_doubles y, two_doubles sum) { return x * y + sum; }

static inline void transpose_square(const uint16_t *from, int64_t from_line, uint16_t *to, int64_t to_line) {
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) to[j * to_line + i] = from[i * from_line + j];
}

#endif
