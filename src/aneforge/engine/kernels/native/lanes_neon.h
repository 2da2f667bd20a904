/* Vectors of NEON on 64-bit Arm: four floats or two doubles. */

#ifndef ANEFORGE_LANES_NEON_H
#define ANEFORGE_LANES_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#define FLOAT_LANES 4
#define FLOAT_WIDTH 4
#define REALS 2 /* doubles in a vector */
#define OWN_DOUBLES 0
#define DOUBLE_ROWS 2

static inline float32x4_t spread_float(float value) { return vdupq_n_f32(value); }

static inline float64x2_t spread_double(double value) { return vdupq_n_f64(value); }

static inline float32x4_t fused_floats(float32x4_t x, float32x4_t y, float32x4_t sum) { return vfmaq_f32(sum, x, y); }

static inline float64x2_t fused(float64x2_t x, float64x2_t y, float64x2_t sum) { return vfmaq_f64(sum, x, y); }

/* Transpose a square of eight by eight numbers; lines are `from_line` and `to_line` numbers apart. */
static inline void transpose_square(const uint16_t *from, int64_t from_line, uint16_t *to, int64_t to_line) {
    uint16x8_t pairs[8];
    uint32x4_t fours[8];
    for (int i = 0; i < 4; i++) {
        const uint16x8_t first = vld1q_u16(from + 2 * i * from_line), second = vld1q_u16(from + (2 * i + 1) * from_line);
        pairs[2 * i] = vzip1q_u16(first, second);
        pairs[2 * i + 1] = vzip2q_u16(first, second);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const uint32x4_t first = vreinterpretq_u32_u16(pairs[4 * i + j]);
            const uint32x4_t second = vreinterpretq_u32_u16(pairs[4 * i + 2 + j]);
            fours[4 * i + 2 * j] = vzip1q_u32(first, second);
            fours[4 * i + 2 * j + 1] = vzip2q_u32(first, second);
        }
    for (int i = 0; i < 4; i++) {
        const uint64x2_t first = vreinterpretq_u64_u32(fours[i]), second = vreinterpretq_u64_u32(fours[4 + i]);
        vst1q_u16(to + 2 * i * to_line, vreinterpretq_u16_u64(vzip1q_u64(first, second)));
        vst1q_u16(to + (2 * i + 1) * to_line, vreinterpretq_u16_u64(vzip2q_u64(first, second)));
    }
}

/* Least exponent byte at one step, over the vectors of a tile. */
static inline uint8_t least_exponent(const uint8_t *exponents, const uint32_t *bases, int32_t vectors) {
    uint8x16_t all = vld1q_u8(exponents + bases[0]);
    for (int32_t v = 1; v < vectors; v++) all = vminq_u8(all, vld1q_u8(exponents + bases[v]));
    return vminvq_u8(all);
}

#include "floats.h"

#endif
