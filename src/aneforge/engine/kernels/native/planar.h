/* Elements and pairs of elements, on one path: plain loops that the compiler turns into the path's vectors. */

#ifndef ANEFORGE_PLANAR_H
#define ANEFORGE_PLANAR_H

#include "numbers.h"
#include "path.h"

static void from_float(const float *values, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_of_float(values[i]);
}

static void from_double(const double *values, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = half_of_double(values[i]);
}

static void lookup(const uint16_t *values, const uint16_t *table, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = table[values[i]];
}

/* One exact operation, one rounding. A product of two fp16 numbers is exact in float32. A sum is exact, or the smaller
 * number is less than a quarter of a unit of the larger and no tie is near: rounded to float32 and then to fp16 it is
 * rounded as if once. Of two equal numbers the larger or smaller is the second, which tells for +0 and -0. */
#define PAIRS(name, expression)                                                                                       \
    static void name(const uint16_t *x, int64_t x_step, const uint16_t *y, int64_t y_step, uint16_t *out,             \
                     int64_t count) {                                                                                 \
        if (x_step && y_step) {                                                                                       \
            for (int64_t i = 0; i < count; i++) {                                                                     \
                const float a = decoded(x[i]), b = decoded(y[i]);                                                     \
                out[i] = half_of_float(expression);                                                                   \
            }                                                                                                         \
            return;                                                                                                   \
        }                                                                                                             \
        const float single = decoded(x_step ? *y : *x);                                                               \
        const uint16_t *const other = x_step ? x : y;                                                                 \
        const int64_t step = x_step | y_step;                                                                         \
        for (int64_t i = 0; i < count; i++) {                                                                         \
            const float here = decoded(other[i * step]);                                                              \
            const float a = x_step ? here : single, b = x_step ? single : here;                                       \
            out[i] = half_of_float(expression);                                                                       \
        }                                                                                                             \
    }
PAIRS(add_pairs, a + b)
PAIRS(sub_pairs, a - b)
PAIRS(mul_pairs, a *b)
PAIRS(max_pairs, float_of_bits(choice(a > b, bits_of_float(a), bits_of_float(b))))
PAIRS(min_pairs, float_of_bits(choice(a < b, bits_of_float(a), bits_of_float(b))))
#undef PAIRS

static void pairs(int32_t pair, const uint16_t *x, int64_t x_step, const uint16_t *y, int64_t y_step, uint16_t *out,
                  int64_t count) {
    static void (*const functions[])(const uint16_t *, int64_t, const uint16_t *, int64_t, uint16_t *, int64_t) = {
        [ANEFORGE_ADD] = add_pairs, [ANEFORGE_SUB] = sub_pairs, [ANEFORGE_MUL] = mul_pairs,
        [ANEFORGE_MAX] = max_pairs, [ANEFORGE_MIN] = min_pairs,
    };
    functions[pair](x, x_step, y, y_step, out, count);
}

#endif
