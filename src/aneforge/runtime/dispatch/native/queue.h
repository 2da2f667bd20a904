/* Submissions of a program: run one after the other by a thread of its own, which ends when there are no more. */

#ifndef ANE_OPEN_QUEUE_H
#define ANE_OPEN_QUEUE_H

#include "ane_open.h"
#include "programs.h"

int queue_submit(struct program *program, void *block);
int queue_wait(struct program *program);

/* Completion blocks by their handles, so that one that was freed is found out. */
void *block_create(ane_completion function, void *context);
void block_free(void *block);
void blocks_after_fork_in_child(void);

/* Of abi.c: whether the limits of the real runtime hold, and how operations are run (0: all of them). */
int limits_hold(void);
int run_operations(struct program *program, int count);

#endif
