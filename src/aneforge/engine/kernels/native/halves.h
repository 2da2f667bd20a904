/* Sixteen numbers in double, rounded to fp16: a path may have its own way. */

#ifndef ANEFORGE_HALVES_H
#define ANEFORGE_HALVES_H

#include <math.h>

#include "numbers.h"
#include "plan.h"

#ifndef OWN_HALVES
static inline void halves_of_sixteen(const double *values, uint16_t *halves) {
    for (int lane = 0; lane < LANES; lane++) halves[lane] = half_of_double(values[lane]);
}
#endif

/* What gain and offset do to one row. */
struct gain {
    double gain, offset;
    float factor, moved; /* the same in float32, of sums in units */
    bool narrow;         /* float32 holds both */
};

/* The numbers that float32 holds, with room for products. */
static inline bool is_narrow(double value) {
    return value == 0 || ((double)(float)value == value && fabs(value) > 0x1p-60 && fabs(value) < 0x1p60);
}

/* The way out without gain and offset: what is stored is the sum itself. */
static inline struct gain no_gain(void) { return (struct gain){1, -0.0, 0x1p-16f, -0.0f, true}; }

/* How many units sums must stay below, so that float32 holds them and what gain and offset make of them is finite in fp16,
 * which alone ends earlier: from 2^15 on. */
static inline double plain_reach(const struct gain *behind, bool gained) {
    const double end = gained ? 65504.0 : 32752.0, most = (end - fabs(behind->offset)) * 65536.0 / fabs(behind->gain);
    return !behind->narrow ? 0.0 : most < 0x1p24 ? most : 0x1p24;
}

static inline struct gain gain_of(const struct aneforge_behind *behind, int64_t channel) {
    const int64_t place = channel * behind->gain_row;
    /* -0 changes no number that it is added to. */
    const double gain = behind->gain[place], offset = behind->offset ? behind->offset[place] : -0.0;
    return (struct gain){gain, offset, (float)gain * 0x1p-16f, (float)offset, is_narrow(gain) && is_narrow(offset)};
}

/* Sixteen sums in units that are proved to stay below the edge, with gain and offset: everything is a number. */
static void scale_sixteen(const int32_t *units, const struct gain *behind, uint16_t *halves) {
    double results[LANES];
    for (int lane = 0; lane < LANES; lane++) results[lane] = units[lane] * 0x1p-16 * behind->gain + behind->offset;
    halves_of_sixteen(results, halves);
}

#endif
