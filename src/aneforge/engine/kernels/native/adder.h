/* How sums over many elements are rounded on their way, sixteen results side by side: what reductions, pooling and norms
 * share. The numbers of `struct aneforge_adder` are those that the golden model's reductions take.
 *
 * In groups: `group` neighbours are added exactly and rounded to fp16, `tree` of those two by two, each sum rounded, and
 * the rest exactly. In chains: `chain` neighbours are added one after another, `times` over, every addition rounded to
 * `bits` significant ones, and the rest exactly. Whoever adds hands over as many neighbours at a time as a group or a
 * chain has. Numbers are multiples of 2^-24, so sums are exact in any order while their magnitudes stay below 2^29.
 */

#ifndef ANEFORGE_ADDER_H
#define ANEFORGE_ADDER_H

#include <math.h>
#include <string.h>

#include "numbers.h"
#include "path.h"

#define PARTS (LANES / REALS) /* vectors of doubles that hold sixteen lanes; the path gives REALS */
#define SIGN INT64_MIN

typedef double reals __attribute__((vector_size(REALS * 8), aligned(8)));
typedef int64_t wholes __attribute__((vector_size(REALS * 8), aligned(8)));
typedef float singles __attribute__((vector_size(REALS * 4), aligned(4)));

static inline reals chosen(wholes mask, reals yes, reals no) {
    return (reals)(((wholes)yes & mask) | ((wholes)no & ~mask));
}

static inline reals magnitudes(reals values) { return (reals)((wholes)values & ~SIGN); }

/* Numbers without their fractions; they are not negative and below 2^52. */
static inline reals without_fraction(reals values) {
    const reals nearest = (values + 0x1p52) - 0x1p52;
    return nearest - chosen(nearest > values, (reals){0} + 1.0, (reals){0});
}

/* The power of two of the leading bit, but at least 2^-14; so for 0. */
static inline reals leading_power(reals magnitude) {
    const reals power = (reals)((wholes)magnitude & 0x7FF0000000000000);
    return chosen(power < 0x1p-14, (reals){0} + 0x1p-14, power);
}

/* 1 over powers of two. */
static inline reals reciprocals(reals powers) { return (reals)(((int64_t)2046 << 52) - (wholes)powers); }

/* Sums of fp16 numbers, rounded to fp16 and read again as the engine reads it: infinity is 2^16. */
static inline reals through_half(reals sums) {
    const reals magnitude = magnitudes(sums), unit = leading_power(magnitude) * 0x1p-10;
    const reals rounded = without_fraction(magnitude * reciprocals(unit) + 0.5) * unit;
    const reals limited = chosen(rounded > 65536.0, (reals){0} + 65536.0, rounded);
    return (reals)((wholes)limited | ((wholes)sums & SIGN));
}

/* Cut terms towards zero at the last bit of a window that begins at the largest of them. */
static inline void cut_terms(reals *terms, int64_t count, int64_t window) {
    reals largest = {0};
    for (int64_t t = 0; t < count; t++)
        largest = chosen(magnitudes(terms[t * PARTS]) > largest, magnitudes(terms[t * PARTS]), largest);
    const reals unit = leading_power(largest) * double_of_bits((uint64_t)(1023 - (window - 1)) << 52);
    for (int64_t t = 0; t < count; t++) {
        const reals cut = without_fraction(magnitudes(terms[t * PARTS]) * reciprocals(unit)) * unit;
        terms[t * PARTS] = (reals)((wholes)cut | ((wholes)terms[t * PARTS] & SIGN));
    }
}

/* Add terms [t][part], cut to the window if there is one, and round to fp16. Terms that are not here are zeros. */
static inline void add_terms(reals *terms, int64_t count, int64_t window, reals *sums) {
    for (int part = 0; part < PARTS; part++) {
        reals total = {0};
        if (window) cut_terms(terms + part, count, window);
        for (int64_t t = 0; t < count; t++) total += terms[t * PARTS + part];
        sums[part] = through_half(total);
    }
}

struct adding {
    const struct aneforge_adder *adder;
    int64_t in_tree, counts[ANEFORGE_MOST_TIMES];
    reals nodes[ANEFORGE_MOST_TREE * PARTS], links[ANEFORGE_MOST_TIMES * PARTS];
    reals totals[PARTS], reach[PARTS]; /* the sums, and the sums of magnitudes */
};

/* Neighbours that are handed over at a time. */
static inline int64_t neighbours(const struct aneforge_adder *adder) {
    return adder->chain ? adder->chain : adder->group;
}

static inline void begin_sums(struct adding *adding, const struct aneforge_adder *adder) {
    adding->adder = adder;
    adding->in_tree = 0;
    memset(adding->counts, 0, sizeof adding->counts);
    memset(adding->totals, 0, sizeof adding->totals);
    memset(adding->reach, 0, sizeof adding->reach);
}

static inline void add_exactly(struct adding *adding, const reals *terms) {
    for (int part = 0; part < PARTS; part++) {
        adding->totals[part] += terms[part];
        adding->reach[part] += magnitudes(terms[part]);
    }
}

/* Add the rounded sums two by two; those that are not there are zeros. One number and zeros stay as they are, unless a
 * window cuts below the bits of fp16. */
static inline void close_tree(struct adding *adding) {
    const int64_t window = adding->adder->window;
    const bool stays = window == 0 || window > 10;
    int64_t there = adding->in_tree;
    for (int64_t left = adding->adder->tree; left > 1 && !(there == 1 && stays); left /= 2) {
        for (int64_t node = 0; node < (there + 1) / 2; node++)
            add_terms(adding->nodes + 2 * node * PARTS, 2 * node + 1 < there ? 2 : 1, window,
                      adding->nodes + node * PARTS);
        there = (there + 1) / 2;
    }
    add_exactly(adding, adding->nodes);
    adding->in_tree = 0;
}

/* Round to some significant bits, ties away from zero, as `rounding.to_bits` does. */
static inline reals rounded_to(reals values, int64_t bits) {
    const int64_t below = 53 - bits;
    return (reals)(((wholes)values + ((int64_t)1 << (below - 1))) & -((int64_t)1 << below));
}

/* The sum of one chain is a neighbour in a chain of the next level. */
static inline void pass_on(struct adding *adding, reals *sums) {
    const struct aneforge_adder *const adder = adding->adder;
    for (int64_t level = 1; level < adder->times; level++) {
        reals *const link = adding->links + level * PARTS;
        for (int part = 0; part < PARTS; part++)
            link[part] = adding->counts[level] ? rounded_to(link[part] + sums[part], adder->bits) : sums[part];
        if (++adding->counts[level] < adder->chain) return;
        adding->counts[level] = 0;
        memcpy(sums, link, sizeof(reals) * PARTS);
    }
    add_exactly(adding, sums);
}

/* Add some neighbours [t][part]; fewer than a group or a chain has are followed by zeros. */
static inline void add_neighbours(struct adding *adding, reals *terms, int64_t count) {
    const struct aneforge_adder *const adder = adding->adder;
    if (!adder->chain) {
        add_terms(terms, count, adder->window, adding->nodes + adding->in_tree * PARTS);
        if (++adding->in_tree == adder->tree) close_tree(adding);
        return;
    }
    reals sums[PARTS];
    for (int part = 0; part < PARTS; part++) {
        reals sum = terms[part];
        for (int64_t t = 1; t < count; t++) sum = rounded_to(sum + terms[t * PARTS + part], adder->bits);
        sums[part] = count < adder->chain ? rounded_to(sum + 0.0, adder->bits) : sum;
    }
    pass_on(adding, sums);
}

/* Close what is open. Return false where the sums may depend on their order: somewhere they reach 2^29. */
static inline bool end_sums(struct adding *adding) {
    const struct aneforge_adder *const adder = adding->adder;
    if (adding->in_tree) close_tree(adding);
    reals sums[PARTS];
    bool open = false;
    for (int64_t level = 1; level < adder->times; level++) {
        reals *const link = adding->links + level * PARTS;
        for (int part = 0; part < PARTS && open; part++)
            link[part] = adding->counts[level] ? rounded_to(link[part] + sums[part], adder->bits) : sums[part];
        adding->counts[level] += open;
        open = adding->counts[level] > 0;
        const bool whole = adding->counts[level] == adder->chain;
        for (int part = 0; part < PARTS && open; part++)
            sums[part] = whole ? link[part] : rounded_to(link[part] + 0.0, adder->bits);
    }
    if (open) add_exactly(adding, sums);
    for (int lane = 0; lane < LANES; lane++)
        if (!(adding->reach[lane / REALS][lane % REALS] < 0x1p29)) return false;
    return true;
}

#endif
