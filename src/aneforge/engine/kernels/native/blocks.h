/* How norms are cut into blocks: sixteen sums side by side, with memory for what they see. */

#ifndef ANEFORGE_BLOCKS_H
#define ANEFORGE_BLOCKS_H

#include <stddef.h>

#include "plan.h"

/* Sums that lie side by side go on together; where the axis is the last one, rows do. */
static inline int64_t norm_sums(const struct aneforge_norm *norm) { return norm->inner > 1 ? norm->inner : norm->outer; }

static inline int64_t blocks_of_sums(const struct aneforge_norm *norm) { return (norm_sums(norm) + LANES - 1) / LANES; }

static inline int64_t norm_block_count(const struct aneforge_norm *norm) {
    return blocks_of_sums(norm) * (norm->inner > 1 ? norm->outer : 1);
}

/* For every place of the axis sixteen numbers, as fp16 and as float. */
static inline size_t norm_bytes(const struct aneforge_norm *norm) {
    return (size_t)norm->length * LANES * (sizeof(float) + sizeof(uint16_t));
}

#endif
