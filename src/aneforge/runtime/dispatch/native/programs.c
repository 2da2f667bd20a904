#define _GNU_SOURCE
#include "programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report.h"

#define BUCKETS 1024
#define FIRST_HANDLE 0x10000u
#define HANDLE_STEP 16u
#define ALIGNMENT 64u
#define MOST_PORTS 65536u
/* More bytes than any engine's program has in its ports; the address space of the worker is the client's limit too. */
#define MOST_BYTES ((size_t)1 << 38)

static struct {
    pthread_mutex_t lock;
    struct program *buckets[BUCKETS];
    uint64_t last;
    size_t count;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *handle_of(uint64_t number) { return (void *)(uintptr_t)(FIRST_HANDLE + number * HANDLE_STEP); }

/* The place in the table that holds a handle's program, or NULL. The lock is held. */
static struct program **place_of(void *handle) {
    const uint64_t offset = (uint64_t)(uintptr_t)handle - FIRST_HANDLE, number = offset / HANDLE_STEP;
    if (offset % HANDLE_STEP != 0 || number == 0 || number > table.last) return NULL;
    for (struct program **place = &table.buckets[number % BUCKETS]; *place != NULL; place = &(*place)->next)
        if ((*place)->number == number) return place;
    return NULL;
}

struct program *program_create(worker_number worker) {
    struct program *program = calloc(1, sizeof *program);
    if (program == NULL) return NULL;
    pthread_mutex_lock(&table.lock);
    program->number = ++table.last;
    pthread_mutex_unlock(&table.lock);
    program->worker = worker;
    program->users = 1;
    pthread_mutex_init(&program->lock, NULL);
    pthread_mutex_init(&program->queue_lock, NULL);
    pthread_cond_init(&program->queue_moved, NULL);
    return program;
}

void *program_publish(struct program *program) {
    pthread_mutex_lock(&table.lock);
    struct program **bucket = &table.buckets[program->number % BUCKETS];
    program->next = *bucket;
    *bucket = program;
    program->users++;
    table.count++;
    pthread_mutex_unlock(&table.lock);
    return handle_of(program->number);
}

struct program *program_use(void *handle, const char *function) {
    pthread_mutex_lock(&table.lock);
    struct program **place = handle == NULL ? NULL : place_of(handle);
    struct program *program = place == NULL ? NULL : *place;
    const int inherited = program != NULL && program->worker == 0;
    if (inherited) program = NULL;
    if (program != NULL) program->users++;
    pthread_mutex_unlock(&table.lock);
    if (program == NULL)
        report("%s: %s", function,
               handle == NULL ? "the handle is NULL"
               : inherited    ? "the handle belongs to the process that this one was forked from; compile the program here"
                              : "there is no such handle, or it was released");
    return program;
}

static void program_destroy(struct program *program) {
    if (program->worker != 0 && program->operation_count > 0) {
        struct bytes message = {0};
        bytes_add_u64(&message, program->number);
        /* A worker that is gone holds nothing: nobody is told. */
        if (program->worker == worker_running(0)) worker_ask(program->worker, REQUEST_RELEASE, &message, -1, NULL);
        bytes_free(&message);
    }
    for (size_t i = 0; i < program->operation_count; i++) operation_destroy(&program->operations[i]);
    free(program->operations);
    pthread_cond_destroy(&program->queue_moved);
    pthread_mutex_destroy(&program->queue_lock);
    pthread_mutex_destroy(&program->lock);
    free(program);
}

void program_join(struct program *program) {
    pthread_mutex_lock(&table.lock);
    program->users++;
    pthread_mutex_unlock(&table.lock);
}

void program_leave(struct program *program) {
    pthread_mutex_lock(&table.lock);
    const unsigned left = --program->users;
    pthread_mutex_unlock(&table.lock);
    if (left == 0) program_destroy(program);
}

void program_unpublish(void *handle) {
    pthread_mutex_lock(&table.lock);
    struct program **place = handle == NULL ? NULL : place_of(handle);
    struct program *program = place == NULL ? NULL : *place;
    if (program != NULL) {
        *place = program->next;
        table.count--;
    }
    pthread_mutex_unlock(&table.lock);
    if (program != NULL) program_leave(program);
}

size_t programs_published(void) {
    pthread_mutex_lock(&table.lock);
    const size_t count = table.count;
    pthread_mutex_unlock(&table.lock);
    return count;
}

/* Operations -------------------------------------------------------------------------------------------------------- */

static size_t rounded(size_t bytes) {
    return bytes < ALIGNMENT ? ALIGNMENT : (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct memory *memory_create(int descriptor, size_t size) {
    struct memory *memory = malloc(sizeof *memory);
    if (memory == NULL) return NULL;
    void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (found == MAP_FAILED) {
        free(memory);
        return NULL;
    }
    *memory = (struct memory){.data = found, .size = size, .users = 1};
    return memory;
}

static void memory_leave(struct memory *memory) {
    if (memory == NULL || --memory->users > 0) return;
    munmap(memory->data, memory->size);
    free(memory);
}

/* Copies names and sizes, and gives every port its place after `*size` bytes. */
static int lay_out(struct port **ports, size_t *count, const char *const *names, const size_t *bytes, size_t n,
                   size_t *size, const char *what) {
    if (n > MOST_PORTS) return report("compile: %zu %s ports, and at most %u are possible", n, what, MOST_PORTS);
    if (n > 0 && (names == NULL || bytes == NULL)) return report("compile: names or sizes of %s ports are NULL", what);
    *ports = calloc(n == 0 ? 1 : n, sizeof **ports);
    if (*ports == NULL) return report("compile: there is no memory for the ports");
    for (size_t i = 0; i < n; i++) {
        if (names[i] == NULL) return report("compile: the name of %s port %zu is NULL", what, i);
        if (bytes[i] == 0 || bytes[i] > MOST_BYTES || *size > MOST_BYTES)
            return report("compile: %s port '%s' has %zu bytes, and 1 to %zu are possible", what, names[i], bytes[i],
                          MOST_BYTES);
        struct port *port = &(*ports)[i];
        port->name = strdup(names[i]);
        if (port->name == NULL) return report("compile: there is no memory for the ports");
        port->bytes = bytes[i];
        port->data = (uint8_t *)(uintptr_t)*size; /* An offset, until there is memory. */
        *size += rounded(bytes[i]);
        *count = i + 1;
    }
    return 0;
}

static void place_ports(struct port *ports, size_t count, struct memory *memory) {
    for (size_t i = 0; i < count; i++) {
        memory->users++;
        ports[i].memory = memory;
        ports[i].data = memory->data + (uintptr_t)ports[i].data;
    }
}

int operation_create(struct operation *operation, const char *const *in_names, const size_t *in_bytes, size_t n_in,
                     const char *const *out_names, const size_t *out_bytes, size_t n_out) {
    size_t size = 0;
    *operation = (struct operation){0};
    if (lay_out(&operation->inputs, &operation->input_count, in_names, in_bytes, n_in, &size, "input") != 0 ||
        lay_out(&operation->outputs, &operation->output_count, out_names, out_bytes, n_out, &size, "output") != 0) {
        operation_destroy(operation);
        return -1;
    }
    const size_t mapped = size == 0 ? ALIGNMENT : size;
    const int memory = keep_above_standard(memfd_create("ane_open", MFD_CLOEXEC));
    if (memory >= 0 && ftruncate(memory, (off_t)mapped) == 0) operation->memory = memory_create(memory, mapped);
    if (operation->memory == NULL) {
        report("compile: there is no memory for %zu bytes of ports: %s", mapped, strerror(errno));
        if (memory >= 0) close(memory);
        operation_destroy(operation);
        return -1;
    }
    place_ports(operation->inputs, operation->input_count, operation->memory);
    place_ports(operation->outputs, operation->output_count, operation->memory);
    return memory;
}

static void free_ports(struct port *ports, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(ports[i].name);
        memory_leave(ports[i].memory);
    }
    free(ports);
}

void operation_destroy(struct operation *operation) {
    free_ports(operation->inputs, operation->input_count);
    free_ports(operation->outputs, operation->output_count);
    free(operation->event_name);
    memory_leave(operation->memory);
    *operation = (struct operation){0};
}

static void describe_ports(const struct operation *operation, const struct port *ports, size_t count,
                           struct bytes *message) {
    bytes_add_u32(message, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        bytes_add_text(message, ports[i].name);
        bytes_add_u64(message, ports[i].bytes);
        bytes_add_u64(message, (uint64_t)(ports[i].data - operation->memory->data));
    }
}

void operation_describe(const struct operation *operation, struct bytes *message) {
    describe_ports(operation, operation->inputs, operation->input_count, message);
    describe_ports(operation, operation->outputs, operation->output_count, message);
}

void port_take(struct port *sink, const struct port *source) {
    struct memory *before = sink->memory;
    source->memory->users++;
    sink->memory = source->memory;
    sink->data = source->data;
    sink->bytes = source->bytes;
    memory_leave(before);
}

struct port *find_port(struct port *ports, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(ports[i].name, name) == 0) return &ports[i];
    return NULL;
}

/* Forks ------------------------------------------------------------------------------------------------------------- */

void programs_before_fork(void) { pthread_mutex_lock(&table.lock); }

void programs_after_fork_in_parent(void) { pthread_mutex_unlock(&table.lock); }

static void replace_memory(const struct memory *memory) {
    if (memory != NULL)
        mmap(memory->data, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* A child keeps the handles, to be told that they are its parent's, and memory in place of its parent's: what it writes
 * there reaches nobody, and what it reads is zeros. */
void programs_after_fork_in_child(void) {
    pthread_mutex_init(&table.lock, NULL);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct program *program = table.buckets[i]; program != NULL; program = program->next) {
            program->worker = 0;
            program->users = 1; /* The parent's threads are not here. */
            for (size_t j = 0; j < program->operation_count; j++) {
                const struct operation *operation = &program->operations[j];
                replace_memory(operation->memory);
                for (size_t k = 0; k < operation->input_count; k++) replace_memory(operation->inputs[k].memory);
                for (size_t k = 0; k < operation->output_count; k++) replace_memory(operation->outputs[k].memory);
            }
        }
    }
}
