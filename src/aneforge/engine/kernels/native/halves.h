/* Sixteen numbers in double, rounded to fp16: a path may have its own way. */

#ifndef ANEFORGE_HALVES_H
#define ANEFORGE_HALVES_H

#include "numbers.h"
#include "plan.h"

#ifndef OWN_HALVES
static inline void halves_of_sixteen(const double *values, uint16_t *halves) {
    for (int lane = 0; lane < LANES; lane++) halves[lane] = half_of_double(values[lane]);
}
#endif

/* Sixteen sums in units that are proved to stay below the edge, with gain and offset: everything is a number. */
static void scale_sixteen(const int32_t *units, double gain, double offset, uint16_t *halves) {
    double results[LANES];
    for (int lane = 0; lane < LANES; lane++) results[lane] = units[lane] * 0x1p-16 * gain + offset;
    halves_of_sixteen(results, halves);
}

#endif
