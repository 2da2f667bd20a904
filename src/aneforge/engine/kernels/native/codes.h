/* Weights in codes: fp16 numbers are decoded in a worker's memory just before they are converted, and nobody keeps them.
 *
 * The rule is that of the constants (`Int8Affine.dense`, `Blockwise.dense` and `Palette.dense` of ops/constant.py):
 * (code - shift) * factor rounded once to fp16, ties to even, or an entry of a table. A shift is a whole number of at most
 * 2^10, so a difference has 11 bits, as a factor has: float32 holds both it and the product.
 */

#ifndef ANEFORGE_CODES_H
#define ANEFORGE_CODES_H

#include "numbers.h"
#include "plan.h"
#ifdef OWN_CODES
#include "codes_avx512.h"
#endif

/* Round to fp16, ties to even; from 65,520 on to infinity. No NaN comes here. */
static inline uint16_t half_of_product(float value) {
    const float below = value < 65536.0f ? value : 65536.0f;
    return half_of_host(below > -65536.0f ? below : -65536.0f);
}

static inline float float_of_code(const struct aneforge_codes *given, uint8_t code) {
    const int32_t sign = (int32_t)given->sign; /* a code with its sign turned is larger by that bit */
    return (float)(((code & (int32_t)given->mask) ^ sign) - sign);
}

static inline float shift_of(const struct aneforge_codes *given, int64_t block) {
    return given->shifts ? decoded(given->shifts[block]) : 0.0f;
}

#ifndef OWN_CODES
/* Codes of one block. */
static void decode_stretch(const struct aneforge_codes *given, const uint8_t *codes, int64_t count, float shift, float factor,
                           uint16_t *to) {
    for (int64_t i = 0; i < count; i++) to[i] = half_of_product((float_of_code(given, codes[i]) - shift) * factor);
}
#endif

/* Codes that have a factor each, from a block on. */
static void decode_each(const struct aneforge_codes *given, const uint8_t *codes, int64_t block, int64_t count, uint16_t *to) {
    for (int64_t i = 0; i < count; i++) {
        const float difference = float_of_code(given, codes[i]) - shift_of(given, block + i);
        to[i] = half_of_product(difference * decoded(given->factors[block + i]));
    }
}

static void look_up_codes(const struct aneforge_codes *given, const uint8_t *codes, int64_t count, uint16_t *to) {
#ifdef OWN_CODES
    if (given->entries <= 64) {
        look_up_few(given->table, given->entries, codes, count, to);
        return;
    }
#endif
    for (int64_t i = 0; i < count; i++) to[i] = given->table[codes[i]];
}

/* The code at a place, of less than a byte; it may begin in one byte and end in the next. */
static inline uint16_t look_up_one(const struct aneforge_codes *given, int64_t place) {
    const int64_t first = place * given->bits, inside = first % 8;
    const uint8_t *const at = given->codes + first / 8;
    const uint32_t both = at[0] | (inside + given->bits > 8 ? (uint32_t)at[1] << 8 : 0);
    return given->table[both >> inside & ((1u << given->bits) - 1)];
}

/* Eight codes at a time, which take as many bytes as each has bits. */
static inline __attribute__((always_inline)) void look_up_eights(const struct aneforge_codes *given, const uint8_t *codes,
                                                                 int64_t count, uint16_t *to, const int32_t bits) {
    for (int64_t i = 0; i < count; i += 8, codes += bits) {
        uint64_t eight = 0;
        for (int32_t byte = 0; byte < bits; byte++) eight |= (uint64_t)codes[byte] << (8 * byte);
        for (int32_t one = 0; one < 8; one++) to[i + one] = given->table[eight >> (one * bits) & ((1u << bits) - 1)];
    }
}

/* Codes of less than a byte from one on that begins a byte, a multiple of eight of them. */
static void look_up_groups(const struct aneforge_codes *given, const uint8_t *codes, int64_t count, uint16_t *to) {
    switch (given->bits) {
        case 1: look_up_eights(given, codes, count, to, 1); break;
        case 2: look_up_eights(given, codes, count, to, 2); break;
        case 3: look_up_eights(given, codes, count, to, 3); break;
        case 4:
#ifdef OWN_CODES
            look_up_nibbles(given->table, given->entries, codes, count, to);
#else
            look_up_eights(given, codes, count, to, 4);
#endif
            break;
        default: look_up_eights(given, codes, count, to, 6);
    }
}

/* Codes of less than a byte, from a place on: those up to one whose number is a multiple of eight, groups, and the rest. */
static void look_up_bits(const struct aneforge_codes *given, int64_t place, int64_t count, uint16_t *to) {
    const int64_t apart = -place & 7, before = apart < count ? apart : count, groups = (count - before) & ~(int64_t)7;
    for (int64_t i = 0; i < before; i++) to[i] = look_up_one(given, place + i);
    look_up_groups(given, given->codes + (place + before) * given->bits / 8, groups, to + before);
    for (int64_t i = before + groups; i < count; i++) to[i] = look_up_one(given, place + i);
}

/* Codes of one line, from place `begin` on. */
static void decode_line(const struct aneforge_codes *given, int64_t line, int64_t begin, int64_t count, uint16_t *to) {
    if (given->bits < 8) {
        look_up_bits(given, line * given->length + begin, count, to);
        return;
    }
    const uint8_t *const codes = given->codes + line * given->length;
    if (given->table) {
        look_up_codes(given, codes + begin, count, to);
        return;
    }
    const int64_t length = given->codes_of_block, inside = begin / length, end = begin + count;
    int64_t block = line / given->lines_of_block * (given->length / length) + inside;
    if (length == 1) {
        decode_each(given, codes + begin, block, count, to);
        return;
    }
    for (int64_t at = begin, next = (inside + 1) * length; at < end; at = next, next += length, block++) {
        const int64_t there = (next < end ? next : end) - at;
        decode_stretch(given, codes + at, there, shift_of(given, block), decoded(given->factors[block]), to + (at - begin));
    }
}

/* Some codes of some lines, to lines that are `pitch` numbers apart. */
static void decode_lines(const struct aneforge_codes *given, int64_t first, int64_t lines, int64_t begin, int64_t count,
                         uint16_t *to, int64_t pitch) {
    for (int64_t line = 0; line < lines; line++) decode_line(given, first + line, begin, count, to + line * pitch);
}

static void decode(const struct aneforge_codes *given, int64_t first, int64_t count, uint16_t *to) {
    decode_lines(given, first, count, 0, given->length, to, given->length);
}

#endif
