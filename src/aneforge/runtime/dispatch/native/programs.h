/* Programs by their handles: ports with buffers in memory that the worker sees too, and the count of who uses each.
 *
 * A handle is a number that is never used twice, so one that was released, or never was, is found out.
 */

#ifndef ANE_OPEN_PROGRAMS_H
#define ANE_OPEN_PROGRAMS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "worker.h"

/* Memory that ports lie in, which the worker has mapped too. It goes with its last user. */
struct memory {
    uint8_t *data;
    size_t size;
    _Atomic unsigned users;
};

struct port {
    char *name;
    uint8_t *data;
    size_t bytes;          /* As the caller gave them. */
    struct memory *memory; /* What it lies in, of which it is a user: its operation's, or another port's. */
};

struct operation {
    struct memory *memory;
    struct port *inputs, *outputs;
    size_t input_count, output_count;
    uint64_t event;    /* How often an asynchronous execution has run it. */
    char *event_name;  /* The name of the event that it waits for, or NULL. */
    size_t awaited;    /* The operation whose event that is. */
};

struct program {
    uint64_t number;
    worker_number worker; /* 0 in a process that inherited it. */
    unsigned users;       /* The table is one of them, until the release. */
    struct program *next;

    pthread_mutex_t lock; /* Calls on one handle come one after the other. */
    struct operation *operations;
    size_t operation_count;
    int encoded; /* It was executed since the last operation came. */

    pthread_mutex_t queue_lock;
    pthread_cond_t queue_moved;
    uint64_t submitted, completed;
    int queue_runs, queue_failed;
    uint64_t event_before, event_after; /* Of the last operation, around the last submission. */
};

/* A new program without operations that has one user, its caller. NULL without memory. */
struct program *program_create(worker_number worker);

/* Puts a program into the table and returns its handle. The table becomes a user of it. */
void *program_publish(struct program *program);

/* The program of a handle, with one more user, or NULL: then a message was printed. */
struct program *program_use(void *handle, const char *function);

/* One user more of a program that the caller uses. */
void program_join(struct program *program);

/* One user less; the last one ends it. */
void program_leave(struct program *program);

/* Takes a handle out of the table. */
void program_unpublish(void *handle);

/* How many handles there are. */
size_t programs_published(void);

/* Sets up an operation with memory for its ports. Returns a descriptor of that memory, or -1 and a message. */
int operation_create(struct operation *operation, const char *const *in_names, const size_t *in_bytes, size_t n_in,
                     const char *const *out_names, const size_t *out_bytes, size_t n_out);
void operation_destroy(struct operation *operation);

/* What is told of the ports: how many, then of each its name, its bytes and where it begins. */
void operation_describe(const struct operation *operation, struct bytes *message);

/* Lets a port have the place of another port, whose memory that keeps. */
void port_take(struct port *sink, const struct port *source);

struct port *find_port(struct port *ports, size_t count, const char *name);

void programs_before_fork(void);
void programs_after_fork_in_parent(void);
void programs_after_fork_in_child(void);

#endif
