/* Threads that wait for work between calls, and memory that they keep. */

#ifndef ANEFORGE_WORKERS_H
#define ANEFORGE_WORKERS_H

#include <stddef.h>
#include <stdint.h>

struct scratch {
    char *memory;
    size_t size;
};

typedef void (*work)(void *context, int32_t worker);

int32_t processors(void);

/* Call `body` for worker 0, and for workers up to threads - 1 at the same time as far as threads can be had; wait for all
 * that have begun. A body takes work until none is left, so one that has not begun when worker 0 is done is not called.
 * Calls from several threads take turns. */
void in_parallel(int32_t threads, work body, void *context);

/* Memory of one worker, aligned to 64 bytes, contents undefined; null where there is none. Only inside its call. */
void *worker_memory(int32_t worker, size_t size);

#endif
