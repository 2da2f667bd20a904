/* A path is the library for one kind of processor: the same sources compiled again with other vectors. */

#ifndef ANEFORGE_PATH_H
#define ANEFORGE_PATH_H

#include "plan.h"

struct path {
    const char *name;
    bool (*available)(void);
    size_t limit_bytes; /* what a panel stores for each element to decide which products are dropped */
    size_t (*task_bytes)(const struct plan *plan);
    size_t (*packing_bytes)(const struct plan *plan);
    void (*pack_panels)(struct plan *plan, char *memory);
    void (*run_tasks)(struct plan *plan, char *memory);
    size_t (*depthwise_bytes)(const struct plan *plan);
    void (*run_depthwise)(struct plan *plan, char *memory);
    void (*from_float)(const float *values, uint16_t *out, int64_t count);
    void (*from_double)(const double *values, uint16_t *out, int64_t count);
    bool (*from_host)(const float *values, uint16_t *out, int64_t count);
    void (*lookup)(const uint16_t *values, const uint16_t *table, uint16_t *out, int64_t count);
    void (*pairs)(const struct aneforge_pairs *job, int64_t first_run, int64_t runs, int64_t first, int64_t count);
    void (*distances)(const struct aneforge_distances *job, int64_t run, int64_t first, int64_t count);
    void (*decode)(const struct aneforge_codes *codes, int64_t first, int64_t count, uint16_t *to);
    uint16_t (*largest_half)(const uint16_t *values, int64_t count);
    bool (*reduce)(const struct aneforge_reduce *job, int64_t run, int64_t first, int64_t count);
    bool (*norm)(const struct aneforge_norm *job, int64_t block, char *memory);
};

size_t panel_size(const struct plan *plan, size_t limit_bytes);
int32_t pieces_of(const struct plan *plan, int64_t channels, struct piece *pieces);

extern const struct path path_avx512, path_avx2, path_neon, path_portable;

#endif
