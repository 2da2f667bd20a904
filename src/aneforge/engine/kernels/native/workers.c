/* A pool of threads. It starts threads when they are first needed, and anew in a child process, which has none.
 *
 * Numbers of threads change nothing in the results: every output is computed by one thread from its own inputs.
 */

#define _GNU_SOURCE
#include "workers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#define MOST_THREADS 64
/* What a worker keeps between calls; more is given back at once. */
#define KEPT_BYTES ((size_t)8 << 20)
/* How long a thread looks for its next work before it sleeps. The layers of a network follow each other within that time,
 * and to wake a thread takes as long as a small layer does. */
#define LOOKING_NANOSECONDS 200000
#define LOOKS_AT_A_TIME 64

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;   /* held by the caller whose work runs */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;  /* guards everything below */
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static uint64_t call_number;
static int32_t wanted, started;
static int32_t running; /* workers besides the caller that have begun and are not done */
static bool closed;     /* the caller is done: whoever has not begun has nothing left to do */
static work current_body;
static void *current_context;
static int watches_forks;
static struct scratch memories[MOST_THREADS];

int32_t processors(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int32_t)count : 1;
}

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Look for a while whether a new call has come. */
static void look_for_call(uint64_t seen) {
    const int64_t end = nanoseconds() + LOOKING_NANOSECONDS;
    do {
        for (int look = 0; look < LOOKS_AT_A_TIME; look++) {
            if (__atomic_load_n(&call_number, __ATOMIC_ACQUIRE) != seen) return;
            pause_briefly();
        }
    } while (nanoseconds() < end);
}

/* ... or whether the others are done. */
static void look_for_end(void) {
    const int64_t end = nanoseconds() + LOOKING_NANOSECONDS;
    do {
        for (int look = 0; look < LOOKS_AT_A_TIME; look++) {
            if (__atomic_load_n(&running, __ATOMIC_ACQUIRE) == 0) return;
            pause_briefly();
        }
    } while (nanoseconds() < end);
}

static void *serve(void *argument) {
    const int32_t worker = (int32_t)(intptr_t)argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&guard);
    for (;;) {
        while (call_number == seen) pthread_cond_wait(&called, &guard);
        seen = call_number;
        const bool called_for = worker < wanted;
        if (called_for && !closed) { /* else the others have done everything already */
            const work body = current_body;
            void *const context = current_context;
            running++;
            pthread_mutex_unlock(&guard);
            body(context, worker);
            pthread_mutex_lock(&guard);
            __atomic_store_n(&running, running - 1, __ATOMIC_RELEASE);
            if (running == 0) pthread_cond_signal(&finished);
        }
        if (!called_for) continue;
        pthread_mutex_unlock(&guard);
        look_for_call(seen);
        pthread_mutex_lock(&guard);
    }
    return NULL;
}

/* Forking copies the locks as they are: the child begins with fresh ones and no threads. */
static void begin_in_child(void) {
    turn = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    guard = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    called = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    finished = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    started = 0;
    running = 0;
    call_number = 0;
    memset(memories, 0, sizeof memories); /* given up: a thread of the parent may have been at them */
}

/* Start threads up to a count, `guard` held; return how many workers there are, the caller counted as one. */
static int32_t start(int32_t count) {
    if (!watches_forks) watches_forks = pthread_atfork(NULL, NULL, begin_in_child) == 0;
    while (started + 1 < count) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        const int failed = pthread_create(&thread, &attributes, serve, (void *)(intptr_t)(started + 1));
        pthread_attr_destroy(&attributes);
        if (failed) break;
        started++;
    }
    return started + 1 < count ? started + 1 : count;
}

void in_parallel(int32_t threads, work body, void *context) {
    pthread_mutex_lock(&turn);
    pthread_mutex_lock(&guard);
    const int32_t most = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    const int32_t workers = start(most);
    wanted = workers;
    running = 0;
    closed = false;
    current_body = body;
    current_context = context;
    if (workers > 1) { /* else nobody is called: who looks for a call would take this one for it, and sleep */
        __atomic_store_n(&call_number, call_number + 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&called);
    }
    pthread_mutex_unlock(&guard);
    body(context, 0);
    if (workers > 1) {
        pthread_mutex_lock(&guard);
        closed = true;
        pthread_mutex_unlock(&guard);
        look_for_end();
    }
    pthread_mutex_lock(&guard);
    while (running > 0) pthread_cond_wait(&finished, &guard);
    pthread_mutex_unlock(&guard);
    for (int32_t worker = 0; worker < workers; worker++) {
        if (memories[worker].size <= KEPT_BYTES) continue;
        free(memories[worker].memory);
        memories[worker] = (struct scratch){NULL, 0};
    }
    pthread_mutex_unlock(&turn);
}

void *worker_memory(int32_t worker, size_t size) {
    struct scratch *const own = &memories[worker];
    if (own->size >= size) return own->memory;
    free(own->memory);
    const size_t whole = (size + 4095) & ~(size_t)4095;
    own->memory = aligned_alloc(4096, whole);
    own->size = own->memory ? whole : 0;
    return own->memory;
}
