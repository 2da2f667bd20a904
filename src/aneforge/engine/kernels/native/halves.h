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

#endif
