/* Submissions of a program: run one after the other by a thread of its own, which ends when there are no more. */

#ifndef ANE_OPEN_QUEUE_H
#define ANE_OPEN_QUEUE_H

#include "programs.h"

int queue_submit(struct program *program);
int queue_wait(struct program *program);

/* Of abi.c: whether the limits of the real runtime hold, and how operations are run (0: all of them). */
int limits_hold(void);
int run_operations(struct program *program, size_t count);

#endif
