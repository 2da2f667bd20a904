/* What a kernel multiplies: one panel and the vectors of one tile, over two lists of k. */

#ifndef ANEFORGE_STRIP_H
#define ANEFORGE_STRIP_H

#include "plan.h"

struct strip {
    const float *left;  /* [k][rows], converted as panel.h says */
    const uint16_t *largest[2]; /* [k] magnitudes of the largest of four rows each */
    const void *limits; /* [k][rows], what a partner must exceed to be kept; in the form of the path */
    const double *factors, *kept_from; /* [k][rows], where sums go in double: see doubles.h; null where a path has its own way */
    int32_t rows;                      /* 1, 2, 4 or 8 */
    const float *values;
    const uint8_t *exponents;
    const uint32_t *offsets; /* [k] */
    uint32_t bases[TILE_VECTORS];
    int32_t vectors;
    const uint32_t *plain; /* steps of k at which nothing can be dropped */
    int32_t plain_count;
    const uint32_t *guarded; /* the others */
    int32_t guarded_count;
    int32_t *totals; /* [PANEL_ROWS][TILE_LANES], added to */
};

#endif
