/* fp16 numbers as the engine reads and writes them, one at a time. The rest of the library follows these. */

#ifndef ANEFORGE_NUMBERS_H
#define ANEFORGE_NUMBERS_H

#include <stdint.h>
#include <string.h>

#define LEAST_EXPONENT (-14)
#define DROPPED_UP_TO (-17)
#define HALF_INFINITY 0x7C00u
#define HALF_NAN 0x7E00u
/* Bits of 2^15, from which on a sum is infinite. */
#define HALF_EDGE 0x7800u
/* The edge in units of 2^-16, in which every sum is counted. */
#define EDGE_UNITS 2147483648.0

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A choice without a branch: loops of such become vectors. */
static inline uint32_t choice(int condition, uint32_t yes, uint32_t no) {
    const uint32_t mask = 0u - (uint32_t)(condition != 0);
    return (yes & mask) | (no & ~mask);
}

/* Exponent 31 is an ordinary exponent: "infinity" is 2^16. */
static inline float decoded(uint16_t half) {
    const uint32_t magnitude = half & 0x7FFFu;
    const float subnormal = (float)(int32_t)magnitude * 0x1p-24f;
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t bits = choice(magnitude < 0x400u, bits_of_float(subnormal), normal);
    return float_of_bits(bits | (uint32_t)(half & 0x8000u) << 16);
}

/* Subnormals, and zero among them, keep the least exponent. */
static inline int32_t exponent_of(uint16_t half) {
    const int32_t field = (half >> 10) & 31;
    return (field == 0 ? 1 : field) - 15;
}

/* Round to fp16, ties away from zero, subnormals on the grid of 2^-24, overflow to infinity. */
static inline uint16_t half_of_float(float value) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const int small = magnitude < 0x38800000u; /* below 2^-14 */
    const uint32_t normal = ((magnitude + 0x1000u) >> 13) - (112u << 10);
    /* Whole and fraction are compared apart: adding one half to 0.49999997 would round up to 1. */
    const float scaled = float_of_bits(choice(small, magnitude, 0u)) * 0x1p24f;
    const int32_t whole = (int32_t)scaled;
    const uint32_t subnormal = (uint32_t)whole + (uint32_t)(scaled - (float)whole >= 0.5f);
    const uint32_t finite = choice(small, subnormal, normal);
    const uint32_t limited = choice(magnitude >= 0x47800000u || finite > HALF_INFINITY, HALF_INFINITY, finite);
    const uint32_t result = choice(magnitude > 0x7F800000u, HALF_NAN, limited);
    return (uint16_t)(((bits >> 16) & 0x8000u) | result);
}

/* Round a number below 65520 to fp16, ties to even, as a host rounds what it hands over. Below 2^-14 the sum with 1/2, whose
 * last place is that of the subnormals, rounds. */
static inline uint16_t half_of_host(float value) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t normal = ((magnitude + 0xFFFu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10);
    const int small = magnitude < 0x38800000u; /* below 2^-14 */
    const uint32_t subnormal = bits_of_float(float_of_bits(choice(small, magnitude, 0u)) + 0.5f) - bits_of_float(0.5f);
    return (uint16_t)(((bits >> 16) & 0x8000u) | choice(small, subnormal, normal));
}

/* The steps of `rounding.to_fp16`, which rounds `scaled + 0.5` before it cuts: both give the same for every number. */
static inline uint16_t half_of_double(double value) {
    const uint64_t bits = bits_of_double(value);
    const uint64_t magnitude = bits & 0x7FFFFFFFFFFFFFFFu;
    const uint32_t sign = (uint32_t)(bits >> 48) & 0x8000u;
    const int32_t field = (int32_t)(magnitude >> 52);
    const int32_t exponent = field < 1023 + LEAST_EXPONENT ? LEAST_EXPONENT : field > 1039 ? 16 : field - 1023;
    const double limited = double_of_bits(field > 1039 ? (uint64_t)1039 << 52 : magnitude);
    const double scaled = limited * double_of_bits((uint64_t)(1023 + 10 - exponent) << 52);
    const uint32_t rounded = (uint32_t)(int32_t)(scaled + 0.5) + ((uint32_t)(exponent - LEAST_EXPONENT) << 10);
    const uint32_t finite = rounded > HALF_INFINITY ? HALF_INFINITY : rounded;
    return (uint16_t)(sign | (magnitude > 0x7FF0000000000000u ? HALF_NAN : finite));
}

/* A sum in units of 2^-16 on its way out: fp16, infinite from 2^15 on. Below 2^24 a whole number is exact in float;
 * above, the seven bits that are cut are below the eleven that stay and the one that decides. */
static inline uint16_t half_of_units(int32_t units) {
    const uint32_t magnitude = units < 0 ? 0u - (uint32_t)units : (uint32_t)units;
    const uint32_t kept = magnitude > 0xFFFFFFu ? magnitude & ~127u : magnitude;
    const uint32_t bits = bits_of_float((float)(int32_t)kept);
    const uint32_t normal = ((bits + 0x1000u) >> 13) - ((112u + 16u) << 10);
    const uint32_t finite = magnitude < 4u ? magnitude << 8 : normal;
    const uint32_t limited = finite >= HALF_EDGE ? HALF_INFINITY : finite;
    return (uint16_t)((units < 0 ? 0x8000u : 0u) | limited);
}

#endif
