/* Paths by number, and the entry points for elements and pairs of elements. */

#include <stddef.h>

#include "blocks.h"
#include "kernels.h"
#include "select.h"
#include "workers.h"

/* Elements that one thread takes at a time: small enough for a first-level cache. */
#define PART 8192
/* Results of a reduction that one thread takes at a time. */
#define RESULTS 256
/* Elements below which starting threads costs more than it saves. */
#define ELEMENTS_PER_THREAD 32768

/* ... and elements of norms, each of which costs as much as ten others. */
#define NORMED_PER_THREAD 8192

/* The best first. */
static const struct path *const paths[] = {
#if defined(ANEFORGE_X86)
    &path_avx512,
    &path_avx2,
#endif
#if defined(ANEFORGE_NEON)
    &path_neon,
#endif
    &path_portable,
};

int32_t aneforge_interface(void) { return ANEFORGE_INTERFACE; }

int32_t aneforge_processors(void) { return processors(); }

const struct path *path_numbered(int32_t number) {
    const int32_t count = (int32_t)(sizeof paths / sizeof *paths);
    for (int32_t i = 0; i < count && number >= 0; i++) {
        if (!paths[i]->available()) continue;
        if (number-- == 0) return paths[i];
    }
    return NULL;
}

const char *aneforge_path(int32_t path) {
    const struct path *const found = path_numbered(path);
    return found ? found->name : NULL;
}

enum operation { FROM_FLOAT, FROM_DOUBLE, FROM_HOST, LOOKUP };

struct elements {
    enum operation operation;
    const struct path *path;
    const void *x;
    const uint16_t *table;
    uint16_t *out;
    int64_t length, next;
    int32_t status;
};

static void do_part(struct elements *job, int64_t first, int64_t count) {
    uint16_t *const out = job->out + first;
    switch (job->operation) {
        case FROM_FLOAT: job->path->from_float((const float *)job->x + first, out, count); break;
        case FROM_DOUBLE: job->path->from_double((const double *)job->x + first, out, count); break;
        case FROM_HOST:
            if (!job->path->from_host((const float *)job->x + first, out, count))
                __atomic_store_n(&job->status, ANEFORGE_INEXACT, __ATOMIC_RELAXED);
            break;
        case LOOKUP: job->path->lookup((const uint16_t *)job->x + first, job->table, out, count); break;
    }
}

static void do_parts(void *context, int32_t worker) {
    struct elements *const job = context;
    (void)worker;
    for (;;) {
        const int64_t first = __atomic_fetch_add(&job->next, PART, __ATOMIC_RELAXED), left = job->length - first;
        if (left <= 0) return;
        do_part(job, first, left < PART ? left : PART);
    }
}

static int32_t run_elements(struct elements *job, int32_t path, int32_t threads) {
    job->path = path_numbered(path);
    if (!job->path) return ANEFORGE_NO_PATH;
    const int64_t useful = job->length / ELEMENTS_PER_THREAD + 1;
    in_parallel(useful < threads ? (int32_t)useful : threads, do_parts, job);
    return job->status;
}

int32_t aneforge_from_float(const float *values, uint16_t *out, int64_t count, int32_t path, int32_t threads) {
    struct elements job = {.operation = FROM_FLOAT, .x = values, .out = out, .length = count};
    return run_elements(&job, path, threads);
}

int32_t aneforge_from_double(const double *values, uint16_t *out, int64_t count, int32_t path, int32_t threads) {
    struct elements job = {.operation = FROM_DOUBLE, .x = values, .out = out, .length = count};
    return run_elements(&job, path, threads);
}

int32_t aneforge_from_host(const float *values, uint16_t *out, int64_t count, int32_t path, int32_t threads) {
    struct elements job = {.operation = FROM_HOST, .x = values, .out = out, .length = count};
    return run_elements(&job, path, threads);
}

int32_t aneforge_lookup(const uint16_t *values, const uint16_t *table, uint16_t *out, int64_t count, int32_t path,
                        int32_t threads) {
    struct elements job = {.operation = LOOKUP, .x = values, .table = table, .out = out, .length = count};
    return run_elements(&job, path, threads);
}

struct lines {
    const struct aneforge_codes *codes;
    const struct path *path;
    int64_t first, count, next;
    uint16_t *out;
};

static void decode_part(void *context, int32_t worker) {
    struct lines *const job = context;
    (void)worker;
    for (;;) {
        const int64_t line = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (line >= job->count) return;
        job->path->decode(job->codes, job->first + line, 1, job->out + line * job->codes->length);
    }
}

int32_t aneforge_decode(const struct aneforge_codes *codes, int64_t first, int64_t count, uint16_t *out, int32_t path,
                        int32_t threads) {
    struct lines job = {codes, path_numbered(path), first, count, 0, out};
    if (!job.path) return ANEFORGE_NO_PATH;
    const int64_t useful = count * codes->length / ELEMENTS_PER_THREAD + 1;
    in_parallel(useful < threads ? (int32_t)useful : threads, decode_part, &job);
    return ANEFORGE_OK;
}

struct pairs {
    const struct aneforge_pairs *given;
    const struct path *path;
    int64_t parts;    /* of a run */
    int64_t together; /* short runs that one thread takes at a time */
    int64_t next;
};

static void do_pairs(void *context, int32_t worker) {
    struct pairs *const job = context;
    (void)worker;
    for (;;) {
        const int64_t next = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        const int64_t run = next / job->parts * job->together, runs = job->given->runs - run;
        if (runs <= 0) return;
        const int64_t first = next % job->parts * PART, left = job->given->length - first;
        job->path->pairs(job->given, run, runs < job->together ? runs : job->together, first, left < PART ? left : PART);
    }
}

int32_t aneforge_run_pairs(const struct aneforge_pairs *given, int32_t path, int32_t threads) {
    const int64_t together = given->length < PART ? PART / given->length : 1;
    struct pairs job = {given, path_numbered(path), (given->length + PART - 1) / PART, together, 0};
    if (!job.path) return ANEFORGE_NO_PATH;
    const int64_t useful = given->runs * given->length / ELEMENTS_PER_THREAD + 1;
    in_parallel(useful < threads ? (int32_t)useful : threads, do_pairs, &job);
    return ANEFORGE_OK;
}

struct distances {
    const struct aneforge_distances *given;
    const struct path *path;
    int64_t parts, next;
};

static void do_distances(void *context, int32_t worker) {
    struct distances *const job = context;
    (void)worker;
    for (;;) {
        const int64_t next = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (next >= job->given->runs * job->parts) return;
        const int64_t first = next % job->parts * PART, left = job->given->length - first;
        job->path->distances(job->given, next / job->parts, first, left < PART ? left : PART);
    }
}

int32_t aneforge_run_distances(const struct aneforge_distances *given, int32_t path, int32_t threads) {
    struct distances job = {given, path_numbered(path), (given->length + PART - 1) / PART, 0};
    if (!job.path) return ANEFORGE_NO_PATH;
    const int64_t useful = given->runs * given->length / ELEMENTS_PER_THREAD + 1;
    in_parallel(useful < threads ? (int32_t)useful : threads, do_distances, &job);
    return ANEFORGE_OK;
}

struct magnitude {
    const uint16_t *values;
    const struct path *path;
    int64_t count, next;
    uint32_t largest;
};

static void find_magnitude(void *context, int32_t worker) {
    struct magnitude *const job = context;
    uint32_t largest = 0;
    (void)worker;
    for (;;) {
        const int64_t first = __atomic_fetch_add(&job->next, PART, __ATOMIC_RELAXED), left = job->count - first;
        if (left <= 0) break;
        const uint16_t found = job->path->largest_half(job->values + first, left < PART ? left : PART);
        largest = found > largest ? found : largest;
    }
    uint32_t seen = __atomic_load_n(&job->largest, __ATOMIC_RELAXED);
    while (largest > seen &&
           !__atomic_compare_exchange_n(&job->largest, &seen, largest, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

int32_t aneforge_largest_magnitude(const uint16_t *values, int64_t count, uint16_t *out, int32_t path,
                                   int32_t threads) {
    struct magnitude job = {values, path_numbered(path), count, 0, 0};
    if (!job.path) return ANEFORGE_NO_PATH;
    const int64_t useful = count / (8 * ELEMENTS_PER_THREAD) + 1;
    in_parallel(useful < threads ? (int32_t)useful : threads, find_magnitude, &job);
    *out = (uint16_t)job.largest;
    return ANEFORGE_OK;
}

struct reduction {
    const struct aneforge_reduce *given;
    const struct path *path;
    int64_t parts, next;
    int32_t status;
};

static void reduce_parts(void *context, int32_t worker) {
    struct reduction *const job = context;
    (void)worker;
    for (;;) {
        const int64_t next = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (next >= job->given->runs * job->parts) return;
        const int64_t first = next % job->parts * RESULTS, left = job->given->length - first;
        if (!job->path->reduce(job->given, next / job->parts, first, left < RESULTS ? left : RESULTS))
            __atomic_store_n(&job->status, ANEFORGE_INEXACT, __ATOMIC_RELAXED);
    }
}

int32_t aneforge_run_reduce(const struct aneforge_reduce *given, int32_t path, int32_t threads) {
    struct reduction job = {given, path_numbered(path), (given->length + RESULTS - 1) / RESULTS, 0, ANEFORGE_OK};
    if (!job.path) return ANEFORGE_NO_PATH;
    const int64_t useful = given->runs * given->length * given->tap_count / ELEMENTS_PER_THREAD + 1;
    in_parallel(useful < threads ? (int32_t)useful : threads, reduce_parts, &job);
    return job.status;
}

struct norms {
    const struct aneforge_norm *given;
    const struct path *path;
    int64_t blocks, next;
    int32_t status;
};

static void norm_blocks(void *context, int32_t worker) {
    struct norms *const job = context;
    char *const memory = worker_memory(worker, norm_bytes(job->given));
    if (!memory) __atomic_store_n(&job->status, ANEFORGE_NO_MEMORY, __ATOMIC_RELAXED);
    while (memory) {
        const int64_t next = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (next >= job->blocks) return;
        if (!job->path->norm(job->given, next, memory))
            __atomic_store_n(&job->status, ANEFORGE_INEXACT, __ATOMIC_RELAXED);
    }
}

int32_t aneforge_run_norm(const struct aneforge_norm *given, int32_t path, int32_t threads) {
    struct norms job = {given, path_numbered(path), norm_block_count(given), 0, ANEFORGE_OK};
    if (!job.path) return ANEFORGE_NO_PATH;
    const int64_t useful = given->outer * given->length * given->inner / NORMED_PER_THREAD + 1;
    in_parallel(useful < threads ? (int32_t)useful : threads, norm_blocks, &job);
    return job.status;
}
