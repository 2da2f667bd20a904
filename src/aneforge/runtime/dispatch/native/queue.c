#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "report.h"

/* Requests of one program that the real runtime has under way at a time (aneforge docs, runtime ABI, section 2). */
#define MOST_IN_FLIGHT 127

/* Completion blocks ------------------------------------------------------------------------------------------------- */

struct block {
    ane_completion function;
    void *context;
    struct block *next;
};

static struct {
    pthread_mutex_t lock;
    struct block *first;
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *block_create(ane_completion function, void *context) {
    if (function == NULL) {
        report("make_completion_block: the function is NULL");
        return NULL;
    }
    struct block *block = malloc(sizeof *block);
    if (block == NULL) return NULL;
    pthread_mutex_lock(&blocks.lock);
    *block = (struct block){function, context, blocks.first};
    blocks.first = block;
    pthread_mutex_unlock(&blocks.lock);
    return block;
}

void block_free(void *freed) {
    pthread_mutex_lock(&blocks.lock);
    for (struct block **place = &blocks.first; *place != NULL; place = &(*place)->next) {
        if (*place != freed) continue;
        *place = (*place)->next;
        free(freed);
        break;
    }
    pthread_mutex_unlock(&blocks.lock);
}

/* A copy of a block; its function is NULL if there is none. */
static struct block block_copy(const void *wanted) {
    struct block found = {0};
    pthread_mutex_lock(&blocks.lock);
    for (const struct block *block = blocks.first; block != NULL; block = block->next)
        if (block == wanted) found = *block;
    pthread_mutex_unlock(&blocks.lock);
    return found;
}

void blocks_after_fork_in_child(void) { pthread_mutex_init(&blocks.lock, NULL); }

/* The queue --------------------------------------------------------------------------------------------------------- */

/* The program whose completion block this thread is in. */
static __thread const struct program *completing;

/* Moves the events of all operations on, and returns what the last one was before. */
static uint64_t signal_events(struct program *program, uint64_t *after) {
    pthread_mutex_lock(&program->lock);
    struct operation *last = &program->operations[program->operation_count - 1];
    const uint64_t before = last->event;
    for (int i = 0; i < program->operation_count; i++) program->operations[i].event++;
    *after = last->event;
    pthread_mutex_unlock(&program->lock);
    return before;
}

static void run_submission(struct program *program, struct submission *submission) {
    const int status = run_operations(program, 0);
    uint64_t before = 0, after = 0;
    if (status == 0) before = signal_events(program, &after);
    const struct block block = block_copy(submission->block);
    completing = program;
    if (block.function != NULL) block.function(block.context, status);
    completing = NULL;
    pthread_mutex_lock(&program->queue_lock);
    if (status == 0) {
        program->event_before = before;
        program->event_after = after;
    } else {
        program->queue_failed = 1;
    }
    program->completed++;
    pthread_cond_broadcast(&program->queue_moved);
    pthread_mutex_unlock(&program->queue_lock);
}

/* The thread: runs what is queued and ends. It is a user of the program. */
static void *run_queue(void *argument) {
    struct program *program = argument;
    for (;;) {
        pthread_mutex_lock(&program->queue_lock);
        struct submission *submission = program->queue;
        if (submission == NULL) {
            program->queue_runs = 0;
        } else {
            program->queue = submission->next;
            if (program->queue == NULL) program->queue_end = &program->queue;
        }
        pthread_mutex_unlock(&program->queue_lock);
        if (submission == NULL) break;
        run_submission(program, submission);
        free(submission);
    }
    program_leave(program);
    return NULL;
}

/* Starts the thread if none runs. The queue's lock is held. */
static int keep_running(struct program *program) {
    if (program->queue_runs) return 0;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    program_join(program);
    const int error = pthread_create(&thread, &attributes, run_queue, program);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        program_leave(program);
        return report("execute_async: there is no thread to be had");
    }
    program->queue_runs = 1;
    return 0;
}

int queue_submit(struct program *program, void *block) {
    if (block != NULL && block_copy(block).function == NULL)
        return report("execute_async: there is no such completion block, or it was freed");
    struct submission *submission = malloc(sizeof *submission);
    if (submission == NULL) return report("execute_async: there is no memory");
    *submission = (struct submission){block, NULL};
    int status = 0;
    pthread_mutex_lock(&program->queue_lock);
    const uint64_t waiting = program->submitted - program->completed;
    if (limits_hold() && waiting >= MOST_IN_FLIGHT)
        status = report("execute_async: %d requests are under way, and the queue holds no more", MOST_IN_FLIGHT);
    if (status == 0) {
        *program->queue_end = submission;
        struct submission **end = program->queue_end;
        program->queue_end = &submission->next;
        status = keep_running(program);
        if (status == 0) {
            program->submitted++;
        } else {
            *end = NULL;
            program->queue_end = end;
        }
    }
    pthread_mutex_unlock(&program->queue_lock);
    if (status != 0) free(submission);
    return status;
}

int queue_wait(struct program *program) {
    if (completing == program) return report("wait_for_completion: a completion block cannot wait for itself");
    pthread_mutex_lock(&program->queue_lock);
    const uint64_t wanted = program->submitted;
    while (program->completed < wanted) pthread_cond_wait(&program->queue_moved, &program->queue_lock);
    const int failed = program->queue_failed;
    program->queue_failed = 0;
    pthread_mutex_unlock(&program->queue_lock);
    return wanted == 0 ? ANE_NOT_SUBMITTED : failed ? ANE_FAILED : ANE_OK;
}
