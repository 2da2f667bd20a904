#include "queue.h"

#include "ane_open.h"
#include "report.h"

/* Requests of one program that the real runtime has under way at a time (aneforge docs, runtime ABI, section 2). */
#define MOST_IN_FLIGHT 127

/* Moves the events of all operations on; gives what the last one was before and is after. */
static void signal_events(struct program *program, uint64_t *before, uint64_t *after) {
    pthread_mutex_lock(&program->lock);
    *before = program->operations[program->operation_count - 1].event;
    for (size_t i = 0; i < program->operation_count; i++) program->operations[i].event++;
    *after = program->operations[program->operation_count - 1].event;
    pthread_mutex_unlock(&program->lock);
}

static void run_submission(struct program *program) {
    const int status = run_operations(program, 0);
    uint64_t before = 0, after = 0;
    if (status == 0) signal_events(program, &before, &after);
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

/* The thread: runs what is submitted and ends. It is a user of the program. */
static void *run_queue(void *argument) {
    struct program *program = argument;
    for (;;) {
        pthread_mutex_lock(&program->queue_lock);
        const int waiting = program->completed < program->submitted;
        program->queue_runs = waiting;
        pthread_mutex_unlock(&program->queue_lock);
        if (!waiting) break;
        run_submission(program);
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

int queue_submit(struct program *program) {
    pthread_mutex_lock(&program->queue_lock);
    int status = 0;
    if (limits_hold() && program->submitted - program->completed >= MOST_IN_FLIGHT)
        status = report("execute_async: %d requests are under way, and the queue holds no more", MOST_IN_FLIGHT);
    if (status == 0) status = keep_running(program);
    if (status == 0) program->submitted++;
    pthread_mutex_unlock(&program->queue_lock);
    return status;
}

int queue_wait(struct program *program) {
    pthread_mutex_lock(&program->queue_lock);
    const uint64_t wanted = program->submitted;
    while (program->completed < wanted) pthread_cond_wait(&program->queue_moved, &program->queue_lock);
    const int failed = program->queue_failed;
    program->queue_failed = 0;
    pthread_mutex_unlock(&program->queue_lock);
    return wanted == 0 ? ANE_NOT_SUBMITTED : failed ? ANE_FAILED : ANE_OK;
}
