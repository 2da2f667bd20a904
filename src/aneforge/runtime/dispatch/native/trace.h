/* A record of every call, in the form that trace viewers of browsers read: ANEFORGE_TRACE names the file.
 *
 * Each call is one line, written at once, so several threads and processes may write into one file. */

#ifndef ANE_OPEN_TRACE_H
#define ANE_OPEN_TRACE_H

#include <stdint.h>

struct call {
    const char *function;
    double begin; /* Microseconds; negative where nothing is recorded. */
    const void *program;
    const char *text;  /* A port, a path; or NULL. */
    const char *about; /* What the engine said of a program, JSON; or NULL. */
    uint64_t bytes;
};

struct call trace_begin(const char *function, const void *program, const char *text, uint64_t bytes);
void trace_end(const struct call *call, long long status);

#endif
