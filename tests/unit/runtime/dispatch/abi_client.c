/* A client of the dispatch ABI: does with a MIL file what its other arguments name, and prints what it saw, one fact a
 * line. */

#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ane_open.h"

#define COUNT 64
#define BYTES (COUNT * sizeof(uint16_t))
#define ONE 0x3c00 /* 1.0 in fp16 */
#define TWO 0x4000

static ane_program compile(const char *mil) {
    const char *in[] = {"x"}, *out[] = {"y"};
    const size_t bytes[] = {BYTES};
    return ane_e5rt_program_compile(mil, NULL, ANE_ENGINE, in, bytes, 1, out, bytes, 1);
}

static void fill(uint16_t *values, uint16_t value) {
    for (int i = 0; i < COUNT; i++) values[i] = value;
}

/* Values in, values out, by copies and by views. */
static void run(const char *mil) {
    uint16_t values[COUNT], found[COUNT + 8] = {0};
    void *input = NULL, *output = NULL;
    size_t bytes = 0;
    ane_program handle = compile(mil);
    fill(values, ONE);
    printf("set %d\n", ane_e5rt_program_set_input_fp16(handle, "x", values, COUNT));
    printf("execute %d\n", ane_e5rt_program_execute(handle));
    printf("get %d\n", ane_e5rt_program_get_output_fp16(handle, "y", found, COUNT + 8));
    printf("last %04x beyond %04x\n", found[COUNT - 1], found[COUNT]);
    printf("views %d %d\n", ane_e5rt_program_input_buffer(handle, "x", &input, &bytes),
           ane_e5rt_program_output_buffer(handle, "y", &output, NULL));
    printf("bytes %zu aligned %d\n", bytes, (uintptr_t)input % 64 == 0 && (uintptr_t)output % 64 == 0);
    fill(input, TWO);
    printf("execute %d\n", ane_e5rt_program_execute(handle));
    printf("written %04x\n", ((uint16_t *)output)[0]);
    printf("part %d\n", ane_e5rt_program_set_input_fp16(handle, "x", values, 1));
    ane_e5rt_program_execute(handle);
    printf("rest %04x %04x\n", ((uint16_t *)output)[0], ((uint16_t *)output)[1]);
    ane_e5rt_program_release(handle);
    printf("released %d\n", ane_e5rt_program_execute(handle));
    ane_e5rt_program_release(handle);
    ane_e5rt_program_release(NULL);
}

/* An output that is the next input: y = x + 1 counts. */
static void share(const char *mil) {
    void *input = NULL, *output = NULL;
    ane_program handle = compile(mil);
    printf("share %d\n", ane_e5rt_program_share_buffer(handle, 0, "y", 0, "x"));
    ane_e5rt_program_input_buffer(handle, "x", &input, NULL);
    ane_e5rt_program_output_buffer(handle, "y", &output, NULL);
    printf("one buffer %d\n", input == output);
    for (int i = 0; i < 4; i++) ane_e5rt_program_execute(handle);
    printf("counted %04x\n", *(uint16_t *)output);
    printf("too late %d\n", ane_e5rt_program_share_buffer(handle, 0, "y", 0, "x"));
    printf("added %d\n", ane_e5rt_program_add_op(handle, mil, "x", BYTES, "y", BYTES));
    printf("again %d\n", ane_e5rt_program_share_buffer(handle, 0, "y", 1, "x"));
    ane_e5rt_program_release(handle);
}

/* Three operations in one stream, each reading what the one before wrote. */
static void stream(const char *mil) {
    uint64_t event = 9;
    uint16_t found[COUNT];
    ane_program handle = compile(mil);
    for (size_t i = 1; i < 3; i++) {
        printf("operation %d\n", ane_e5rt_program_add_op(handle, mil, "x", BYTES, "y", BYTES));
        ane_e5rt_program_share_buffer(handle, i - 1, "y", i, "x");
        printf("chain %d\n", ane_e5rt_program_chain_ops(handle, i - 1, i, "step"));
    }
    printf("operations %zu\n", ane_e5rt_program_get_op_count(handle));
    printf("multi %d\n", ane_e5rt_program_execute_multi(handle));
    ane_e5rt_program_get_output_fp16_op(handle, 2, "y", found, COUNT);
    printf("three %04x\n", found[0]);
    printf("event %d", ane_e5rt_program_get_event_last_signaled(handle, 2, &event));
    printf(" %llu\n", (unsigned long long)event);
    ane_e5rt_program_execute_async(handle);
    ane_e5rt_program_wait_for_completion(handle);
    printf("chain event %d", ane_e5rt_program_get_chain_event_last_signaled(handle, 2, &event));
    printf(" %llu\n", (unsigned long long)event);
    printf("backwards %d\n", ane_e5rt_program_chain_ops(handle, 2, 1, "step"));
    printf("nameless %d\n", ane_e5rt_program_chain_ops(handle, 0, 1, NULL));
    printf("no chain %d\n", ane_e5rt_program_get_chain_event_last_signaled(handle, 0, NULL));
    ane_e5rt_program_release(handle);
}

static void completed(void *context) { ++*(int *)context; }

static void asynchronous(const char *mil) {
    uint64_t before = 9, after = 9, event = 9;
    uint16_t found[COUNT];
    ane_program handle = compile(mil);
    printf("never submitted %d\n", ane_e5rt_program_wait_for_completion(handle));
    for (int i = 0; i < 10; i++)
        if (ane_e5rt_program_execute_async(handle) != 0) printf("refused\n");
    printf("wait %d\n", ane_e5rt_program_wait_for_completion(handle));
    ane_e5rt_program_get_event_last_signaled(handle, 0, &event);
    printf("event %llu\n", (unsigned long long)event);
    printf("final %d", ane_e5rt_program_get_final_event_signaled(handle, &before, &after));
    printf(" %llu %llu\n", (unsigned long long)before, (unsigned long long)after);
    ane_e5rt_program_get_output_fp16(handle, "y", found, COUNT);
    printf("value %04x\n", found[0]);
    ane_e5rt_program_execute_async(handle);
    ane_e5rt_program_release(handle); /* What is under way ends by itself. */
}

/* A block in the layout of the compilers that have them: the function to call is the fourth word. */
static void block(const char *mil) {
    struct layout {
        void *class;
        int flags, reserved;
        void (*invoke)(void *block);
    };
    int calls = 0;
    (void)mil;
    struct layout *made = ane_e5rt_make_completion_block(completed, &calls);
    made->invoke(made);
    made->invoke(made);
    printf("calls %d\n", calls);
    ane_e5rt_free_completion_block(made);
    ane_e5rt_free_completion_block(NULL);
    printf("no function %d\n", ane_e5rt_make_completion_block(NULL, NULL) == NULL);
}

static const char *shared_mil;
static ane_program shared_handle;

static void *thread(void *argument) {
    long wrong = 0;
    for (int round = 0; round < 3; round++) {
        ane_program own = compile(shared_mil);
        uint16_t values[COUNT], found[COUNT];
        for (int i = 0; i < 10; i++) {
            fill(values, (uint16_t)(ONE + 64 * (i % 4)));
            ane_e5rt_program_set_input_fp16(own, "x", values, COUNT);
            wrong += ane_e5rt_program_execute(own) != 0 || ane_e5rt_program_execute(shared_handle) != 0;
            ane_e5rt_program_get_output_fp16(own, "y", found, COUNT);
            wrong += found[0] != found[COUNT - 1];
        }
        ane_e5rt_program_release(own);
    }
    *(long *)argument = wrong;
    return NULL;
}

static void threads(const char *mil) {
    pthread_t started[4];
    long wrong[4];
    shared_mil = mil;
    shared_handle = compile(mil);
    for (int i = 0; i < 4; i++) pthread_create(&started[i], NULL, thread, &wrong[i]);
    for (int i = 0; i < 4; i++) pthread_join(started[i], NULL);
    printf("wrong %ld\n", wrong[0] + wrong[1] + wrong[2] + wrong[3]);
    ane_e5rt_program_release(shared_handle);
}

/* A child has handles of its own, and none of its parent's. */
static void forked(const char *mil) {
    void *input = NULL;
    uint16_t found[COUNT];
    ane_program handle = compile(mil);
    ane_e5rt_program_input_buffer(handle, "x", &input, NULL);
    fill(input, ONE);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        printf("child: inherited %d\n", ane_e5rt_program_execute(handle));
        printf("child: zeros %04x\n", *(uint16_t *)input);
        fill(input, TWO);
        ane_e5rt_program_release(handle);
        ane_program own = compile(mil);
        printf("child: own %d\n", ane_e5rt_program_execute(own));
        ane_e5rt_program_get_output_fp16(own, "y", found, COUNT);
        printf("child: value %04x\n", found[0]);
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("child ended %d\n", status);
    printf("parent: %d\n", ane_e5rt_program_execute(handle));
    ane_e5rt_program_get_output_fp16(handle, "y", found, COUNT);
    printf("parent: value %04x\n", found[0]);
    ane_e5rt_program_release(handle);
}

/* The reader of a pipe sees its end, though a worker was started while the pipe was open. */
static void pipes(const char *mil) {
    int ends[2];
    if (pipe(ends) != 0) exit(1);
    ane_program handle = compile(mil);
    close(ends[1]);
    struct pollfd reader = {.fd = ends[0], .events = POLLIN};
    printf("ended %d\n", poll(&reader, 1, 10000));
    close(ends[0]);
    ane_e5rt_program_release(handle);
}

/* Waits for a line, so that a test may do something to the worker in between. */
static void pause_for(const char *word) {
    char line[16];
    printf("%s\n", word);
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) exit(1);
}

static void killed(const char *mil) {
    ane_program handle = compile(mil);
    printf("before %d\n", ane_e5rt_program_execute(handle));
    pause_for("kill");
    printf("after %d\n", ane_e5rt_program_execute(handle));
    printf("still %d\n", ane_e5rt_program_execute(handle));
    ane_e5rt_program_release(handle);
    ane_program again = compile(mil);
    printf("again %d\n", ane_e5rt_program_execute(again));
    pause_for("alive");
    ane_e5rt_program_release(again);
}

static void limits(const char *mil) {
    ane_program handle = NULL, last = NULL;
    int loaded = 0, submitted = 0;
    while ((handle = compile(mil)) != NULL && loaded < 200) {
        last = handle;
        loaded++;
    }
    printf("loaded %d\n", loaded);
    while (ane_e5rt_program_execute_async(last) == 0 && submitted < 100000) submitted++;
    printf("in flight %d\n", submitted >= 127 && submitted < 100000);
    printf("wait %d\n", ane_e5rt_program_wait_for_completion(last));
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*function)(const char *mil);
    } known[] = {{"run", run},         {"share", share},   {"stream", stream}, {"async", asynchronous}, {"block", block},
                 {"threads", threads}, {"forked", forked}, {"killed", killed}, {"limits", limits},
                 {"pipes", pipes}};
    for (int asked = 2; asked < count; asked++) {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (strcmp(arguments[asked], known[i].name) != 0) continue;
            printf("== %s\n", known[i].name);
            known[i].function(arguments[1]);
        }
    }
    return 0;
}
