/* The functions of the ABI: arguments checked, calls recorded, one handle's calls one after the other. */

#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ane_open.h"
#include "bytes.h"
#include "programs.h"
#include "queue.h"
#include "report.h"
#include "trace.h"
#include "worker.h"

#define TARGET_VARIABLE "ANEFORGE_TARGET"
#define LIMITS_VARIABLE "ANEFORGE_ABI_LIMITS"
/* Programs that the real runtime loads in one process (aneforge docs, runtime ABI, section 2). */
#define MOST_PROGRAMS 128

int limits_hold(void) {
    const char *given = getenv(LIMITS_VARIABLE);
    return given != NULL && strcmp(given, "1") == 0;
}

static __thread char chosen_target[64];

void ane_open_use_target(const char *name) {
    snprintf(chosen_target, sizeof chosen_target, "%s", name == NULL ? "" : name);
}

static const char *target(void) {
    const char *given = chosen_target[0] != '\0' ? chosen_target : getenv(TARGET_VARIABLE);
    return given == NULL ? "" : given;
}

/* The whole path of a file: the worker's folder is another. */
static int whole_path(const char *function, const char *path, char whole[PATH_MAX]) {
    if (path == NULL) return report("%s: the path of the MIL program is NULL", function);
    struct stat about;
    if (realpath(path, whole) == NULL || stat(whole, &about) != 0)
        return report("%s: %s: %s", function, path, strerror(errno));
    /* Others may have no end, or nobody who writes them. */
    if (!S_ISREG(about.st_mode)) return report("%s: %s is not a regular file", function, path);
    return 0;
}

static int check_mask(const char *function, uint64_t mask) {
    if (mask & ANE_ENGINE) return 0;
    return report("%s: device mask 0x%llx has no Neural Engine (0x%x), and nothing here computes as a CPU or a GPU",
                  function, (unsigned long long)mask, ANE_ENGINE);
}

/* Lets the worker compile an operation of a program. */
static int compile_operation(struct program *program, const struct operation *operation, int memory,
                             const char *mil, char **about) {
    struct bytes message = {0};
    bytes_add_u64(&message, program->number);
    bytes_add_text(&message, mil);
    bytes_add_text(&message, target());
    operation_describe(operation, &message);
    const int status = worker_ask(program->worker, REQUEST_COMPILE, &message, memory, about);
    bytes_free(&message);
    return status;
}

/* Adds an operation to a program, whose lock is held, or that nobody knows yet. */
static int add_operation(struct program *program, const char *mil, const char *const *in_names,
                         const size_t *in_bytes, size_t n_in, const char *const *out_names, const size_t *out_bytes,
                         size_t n_out, char **about) {
    struct operation operation;
    const int memory = operation_create(&operation, in_names, in_bytes, n_in, out_names, out_bytes, n_out);
    if (memory < 0) return -1;
    struct operation *grown =
        realloc(program->operations, sizeof operation * (program->operation_count + 1));
    int status = -1;
    if (grown != NULL) {
        program->operations = grown;
        status = compile_operation(program, &operation, memory, mil, about);
    }
    close(memory);
    if (status != 0) {
        operation_destroy(&operation);
        return status;
    }
    program->operations[program->operation_count++] = operation;
    program->encoded = 0;
    return 0;
}

ane_program ane_e5rt_program_compile(const char *mil_path, const char *cache_dir, uint64_t device_mask,
                                     const char *const *in_names, const size_t *in_bytes, size_t n_in,
                                     const char *const *out_names, const size_t *out_bytes, size_t n_out) {
    char mil[PATH_MAX], *about = NULL;
    (void)cache_dir;
    void *handle = NULL;
    struct call call = trace_begin("compile", NULL, mil_path, 0);
    if (whole_path("compile", mil_path, mil) == 0 && check_mask("compile", device_mask) == 0) {
        if (limits_hold() && programs_published() >= MOST_PROGRAMS) {
            report("compile: %d programs are loaded, and the runtime loads no more", MOST_PROGRAMS);
        } else {
            const worker_number worker = worker_running(1);
            struct program *program = worker == 0 ? NULL : program_create(worker);
            if (program != NULL) {
                if (add_operation(program, mil, in_names, in_bytes, n_in, out_names, out_bytes, n_out,
                                  &about) == 0)
                    handle = program_publish(program);
                program_leave(program);
            }
        }
    }
    call.program = handle;
    call.about = about;
    trace_end(&call, handle == NULL ? ANE_FAILED : ANE_OK);
    free(about);
    return handle;
}

void ane_e5rt_program_release(ane_program handle) {
    const struct call call = trace_begin("release", handle, NULL, 0);
    program_unpublish(handle);
    trace_end(&call, ANE_OK);
}

int ane_e5rt_compile_check(const char *mil_path, const char *cache_dir, uint64_t device_mask, const char *options) {
    char mil[PATH_MAX];
    (void)cache_dir;
    const struct call call = trace_begin("compile_check", NULL, options, 0);
    int status = ANE_FAILED;
    if (whole_path("compile_check", mil_path, mil) == 0 && check_mask("compile_check", device_mask) == 0) {
        const worker_number worker = worker_running(1);
        struct bytes message = {0};
        bytes_add_text(&message, mil);
        bytes_add_text(&message, target());
        bytes_add_text(&message, options == NULL ? "" : options);
        if (worker != 0) status = worker_ask(worker, REQUEST_CHECK, &message, -1, NULL);
        bytes_free(&message);
    }
    trace_end(&call, status);
    return status;
}

/* Ports ------------------------------------------------------------------------------------------------------------- */

enum direction { INPUT = ANE_OPEN_INPUT, OUTPUT = ANE_OPEN_OUTPUT };

/* A port of an operation of a program, or NULL: then a message was printed. */
static struct port *port_of(struct program *program, const char *function, size_t index, enum direction direction,
                            const char *name) {
    static const char *const words[] = {"input", "output"};
    if (index >= program->operation_count) {
        report("%s: there is no operation %zu; the program has %zu", function, index, program->operation_count);
        return NULL;
    }
    if (name == NULL) {
        report("%s: the name of the port is NULL", function);
        return NULL;
    }
    struct operation *operation = &program->operations[index];
    struct port *port = direction == INPUT ? find_port(operation->inputs, operation->input_count, name)
                                           : find_port(operation->outputs, operation->output_count, name);
    if (port == NULL) report("%s: operation %zu has no %s port '%s'", function, index, words[direction], name);
    return port;
}

static int set_input(ane_program handle, const char *function, size_t op, const char *name, const uint16_t *data,
                     size_t n_elems) {
    const struct call call = trace_begin(function, handle, name, n_elems * sizeof *data);
    struct program *program = program_use(handle, function);
    int status = ANE_FAILED;
    if (program != NULL) {
        pthread_mutex_lock(&program->lock);
        struct port *port = port_of(program, function, op, INPUT, name);
        if (port == NULL) {
            status = ANE_FAILED;
        } else if (data == NULL && n_elems > 0) {
            status = report("%s: the values for port '%s' are NULL", function, name);
        } else if (n_elems > port->bytes / sizeof *data) {
            status = report("%s: port '%s' has %zu bytes, and %zu elements of 2 are given", function, name,
                            port->bytes, n_elems);
        } else {
            if (n_elems > 0) memcpy(port->data, data, n_elems * sizeof *data);
            status = ANE_OK;
        }
        pthread_mutex_unlock(&program->lock);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

static int get_output(ane_program handle, const char *function, size_t op, const char *name, uint16_t *dest,
                      size_t n_elems) {
    const struct call call = trace_begin(function, handle, name, n_elems * sizeof *dest);
    struct program *program = program_use(handle, function);
    int status = ANE_FAILED;
    if (program != NULL) {
        pthread_mutex_lock(&program->lock);
        struct port *port = port_of(program, function, op, OUTPUT, name);
        if (port == NULL) {
            status = ANE_FAILED;
        } else if (dest == NULL && n_elems > 0) {
            status = report("%s: the place for port '%s' is NULL", function, name);
        } else {
            const size_t most = port->bytes / sizeof *dest, count = n_elems < most ? n_elems : most;
            if (count > 0) memcpy(dest, port->data, count * sizeof *dest);
            status = ANE_OK;
        }
        pthread_mutex_unlock(&program->lock);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

int ane_e5rt_program_set_input_fp16(ane_program handle, const char *port, const uint16_t *data, size_t n_elems) {
    return set_input(handle, "set_input_fp16", 0, port, data, n_elems);
}

int ane_e5rt_program_get_output_fp16(ane_program handle, const char *port, uint16_t *dest, size_t n_elems) {
    return get_output(handle, "get_output_fp16", 0, port, dest, n_elems);
}

int ane_e5rt_program_set_input_fp16_op(ane_program handle, size_t op, const char *port, const uint16_t *data,
                                       size_t n_elems) {
    return set_input(handle, "set_input_fp16_op", op, port, data, n_elems);
}

int ane_e5rt_program_get_output_fp16_op(ane_program handle, size_t op, const char *port, uint16_t *dest,
                                        size_t n_elems) {
    return get_output(handle, "get_output_fp16_op", op, port, dest, n_elems);
}

static int buffer(ane_program handle, const char *function, enum direction direction, const char *name,
                  void **pointer, size_t *bytes) {
    const struct call call = trace_begin(function, handle, name, 0);
    struct program *program = program_use(handle, function);
    int status = ANE_FAILED;
    if (program != NULL) {
        pthread_mutex_lock(&program->lock);
        const struct port *port = port_of(program, function, 0, direction, name);
        if (port != NULL) {
            if (pointer != NULL) *pointer = port->data;
            if (bytes != NULL) *bytes = port->bytes;
            status = ANE_OK;
        }
        pthread_mutex_unlock(&program->lock);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

int ane_e5rt_program_input_buffer(ane_program handle, const char *port, void **pointer, size_t *bytes) {
    return buffer(handle, "input_buffer", INPUT, port, pointer, bytes);
}

int ane_e5rt_program_output_buffer(ane_program handle, const char *port, void **pointer, size_t *bytes) {
    return buffer(handle, "output_buffer", OUTPUT, port, pointer, bytes);
}

static int share(struct program *program, size_t src_op, const char *src_name, size_t dst_op, const char *dst_name) {
    static const char function[] = "share_buffer";
    if (program->encoded) return report("%s: buffers are shared before the first execution", function);
    const struct port *source = port_of(program, function, src_op, OUTPUT, src_name);
    struct port *sink = source == NULL ? NULL : port_of(program, function, dst_op, INPUT, dst_name);
    if (sink == NULL) return ANE_FAILED;
    struct bytes message = {0};
    bytes_add_u64(&message, program->number);
    bytes_add_u32(&message, (uint32_t)src_op);
    bytes_add_text(&message, src_name);
    bytes_add_u32(&message, (uint32_t)dst_op);
    bytes_add_text(&message, dst_name);
    const int status = worker_ask(program->worker, REQUEST_SHARE, &message, -1, NULL);
    bytes_free(&message);
    if (status == 0) port_take(sink, source);
    return status;
}

int ane_e5rt_program_share_buffer(ane_program handle, size_t src_op, const char *src_out_port, size_t dst_op,
                                  const char *dst_in_port) {
    const struct call call = trace_begin("share_buffer", handle, dst_in_port, 0);
    struct program *program = program_use(handle, "share_buffer");
    int status = ANE_FAILED;
    if (program != NULL) {
        pthread_mutex_lock(&program->lock);
        status = share(program, src_op, src_out_port, dst_op, dst_in_port);
        pthread_mutex_unlock(&program->lock);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

/* Between two programs, whose locks are held. */
static int lend(struct program *source_program, enum direction src_direction, const char *src_name,
                struct program *sink_program, enum direction dst_direction, const char *dst_name) {
    static const char function[] = "lend_port";
    if (sink_program->encoded) return report("%s: a program takes buffers before its first execution", function);
    if (source_program->worker != sink_program->worker)
        return report("%s: the worker that held one of the programs is gone", function);
    const struct port *source = port_of(source_program, function, 0, src_direction, src_name);
    struct port *sink = source == NULL ? NULL : port_of(sink_program, function, 0, dst_direction, dst_name);
    if (sink == NULL) return ANE_FAILED;
    struct bytes message = {0};
    bytes_add_u64(&message, source_program->number);
    bytes_add_u32(&message, src_direction);
    bytes_add_text(&message, src_name);
    bytes_add_u64(&message, sink_program->number);
    bytes_add_u32(&message, dst_direction);
    bytes_add_text(&message, dst_name);
    const int status = worker_ask(sink_program->worker, REQUEST_LEND, &message, -1, NULL);
    bytes_free(&message);
    if (status == 0) port_take(sink, source);
    return status;
}

static int is_direction(int given) {
    if (given == INPUT || given == OUTPUT) return 1;
    report("lend_port: direction %d is neither %d (input) nor %d (output)", given, INPUT, OUTPUT);
    return 0;
}

int ane_open_lend_port(ane_program src, int src_direction, const char *src_port, ane_program dst, int dst_direction,
                         const char *dst_port) {
    const struct call call = trace_begin("lend_port", dst, dst_port, 0);
    const int known = is_direction(src_direction) && is_direction(dst_direction);
    struct program *source = known ? program_use(src, "lend_port") : NULL;
    struct program *sink = source == NULL ? NULL : program_use(dst, "lend_port");
    int status = ANE_FAILED;
    if (sink == source && source != NULL) {
        pthread_mutex_lock(&source->lock);
        status = lend(source, src_direction, src_port, sink, dst_direction, dst_port);
        pthread_mutex_unlock(&source->lock);
    } else if (sink != NULL) {
        /* Always in one order, so that two threads that lend to and fro do not wait for each other. */
        struct program *first = source->number < sink->number ? source : sink;
        struct program *second = first == source ? sink : source;
        pthread_mutex_lock(&first->lock);
        pthread_mutex_lock(&second->lock);
        status = lend(source, src_direction, src_port, sink, dst_direction, dst_port);
        pthread_mutex_unlock(&second->lock);
        pthread_mutex_unlock(&first->lock);
    }
    if (sink != NULL) program_leave(sink);
    if (source != NULL) program_leave(source);
    trace_end(&call, status);
    return status;
}

/* Execution --------------------------------------------------------------------------------------------------------- */

int run_operations(struct program *program, size_t count) {
    struct bytes message = {0};
    pthread_mutex_lock(&program->lock);
    const size_t run = count == 0 ? program->operation_count : count;
    bytes_add_u64(&message, program->number);
    bytes_add_u32(&message, (uint32_t)run);
    program->encoded = 1;
    const int status = worker_ask(program->worker, REQUEST_EXECUTE, &message, -1, NULL);
    pthread_mutex_unlock(&program->lock);
    bytes_free(&message);
    return status;
}

static int execute(ane_program handle, const char *function, size_t count) {
    const struct call call = trace_begin(function, handle, NULL, 0);
    struct program *program = program_use(handle, function);
    int status = ANE_FAILED;
    if (program != NULL) {
        status = run_operations(program, count);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

int ane_e5rt_program_execute(ane_program handle) { return execute(handle, "execute", 1); }

int ane_e5rt_program_execute_multi(ane_program handle) { return execute(handle, "execute_multi", 0); }

/* Several operations ------------------------------------------------------------------------------------------------ */

int ane_e5rt_program_add_op(ane_program handle, const char *mil_path, const char *in_name, size_t in_bytes,
                            const char *out_name, size_t out_bytes) {
    char mil[PATH_MAX], *about = NULL;
    struct call call = trace_begin("add_op", handle, mil_path, 0);
    struct program *program = program_use(handle, "add_op");
    int status = ANE_FAILED;
    if (program != NULL) {
        if (whole_path("add_op", mil_path, mil) == 0) {
            pthread_mutex_lock(&program->lock);
            status = add_operation(program, mil, &in_name, &in_bytes, 1, &out_name, &out_bytes, 1, &about);
            if (status == 0) status = (int)program->operation_count - 1;
            pthread_mutex_unlock(&program->lock);
        }
        program_leave(program);
    }
    call.about = about;
    trace_end(&call, status);
    free(about);
    return status;
}

size_t ane_e5rt_program_get_op_count(ane_program handle) {
    const struct call call = trace_begin("get_op_count", handle, NULL, 0);
    struct program *program = program_use(handle, "get_op_count");
    size_t count = 0;
    if (program != NULL) {
        pthread_mutex_lock(&program->lock);
        count = program->operation_count;
        pthread_mutex_unlock(&program->lock);
        program_leave(program);
    }
    trace_end(&call, (long long)count);
    return count;
}

static int chain(struct program *program, size_t src_op, size_t dst_op, const char *event_name) {
    if (event_name == NULL || *event_name == '\0') return report("chain_ops: eventName is NULL");
    if (dst_op >= program->operation_count || src_op >= dst_op)
        return report("chain_ops: operation %zu cannot wait for operation %zu of %zu; it waits for an earlier one",
                      dst_op, src_op, program->operation_count);
    char *name = strdup(event_name);
    if (name == NULL) return report("chain_ops: there is no memory");
    free(program->operations[dst_op].event_name);
    program->operations[dst_op].event_name = name;
    program->operations[dst_op].awaited = src_op;
    return ANE_OK;
}

int ane_e5rt_program_chain_ops(ane_program handle, size_t src_op, size_t dst_op, const char *event_name) {
    const struct call call = trace_begin("chain_ops", handle, event_name, 0);
    struct program *program = program_use(handle, "chain_ops");
    int status = ANE_FAILED;
    if (program != NULL) {
        pthread_mutex_lock(&program->lock);
        status = chain(program, src_op, dst_op, event_name);
        pthread_mutex_unlock(&program->lock);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

/* The event of an operation, or of the operation that it waits for. */
static int event(ane_program handle, const char *function, size_t op, int awaited, uint64_t *value) {
    const struct call call = trace_begin(function, handle, NULL, 0);
    struct program *program = program_use(handle, function);
    int status = ANE_FAILED;
    if (program != NULL) {
        pthread_mutex_lock(&program->lock);
        if (op >= program->operation_count) {
            report("%s: there is no operation %zu; the program has %zu", function, op, program->operation_count);
        } else if (awaited && program->operations[op].event_name == NULL) {
            report("%s: operation %zu waits for no event", function, op);
        } else {
            const size_t of = awaited ? program->operations[op].awaited : op;
            if (value != NULL) *value = program->operations[of].event;
            status = ANE_OK;
        }
        pthread_mutex_unlock(&program->lock);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

int ane_e5rt_program_get_event_last_signaled(ane_program handle, size_t op, uint64_t *value) {
    return event(handle, "get_event_last_signaled", op, 0, value);
}

int ane_e5rt_program_get_chain_event_last_signaled(ane_program handle, size_t op, uint64_t *value) {
    return event(handle, "get_chain_event_last_signaled", op, 1, value);
}

/* Asynchronous execution -------------------------------------------------------------------------------------------- */

int ane_e5rt_program_execute_async(ane_program handle) {
    const struct call call = trace_begin("execute_async", handle, NULL, 0);
    struct program *program = program_use(handle, "execute_async");
    int status = ANE_FAILED;
    if (program != NULL) {
        status = queue_submit(program);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

int ane_e5rt_program_wait_for_completion(ane_program handle) {
    const struct call call = trace_begin("wait_for_completion", handle, NULL, 0);
    struct program *program = program_use(handle, "wait_for_completion");
    int status = ANE_FAILED;
    if (program != NULL) {
        status = queue_wait(program);
        program_leave(program);
    }
    trace_end(&call, status);
    return status;
}

int ane_e5rt_program_get_final_event_signaled(ane_program handle, uint64_t *before, uint64_t *after) {
    const struct call call = trace_begin("get_final_event_signaled", handle, NULL, 0);
    struct program *program = program_use(handle, "get_final_event_signaled");
    int status = ANE_FAILED;
    if (program != NULL) {
        pthread_mutex_lock(&program->queue_lock);
        if (before != NULL) *before = program->event_before;
        if (after != NULL) *after = program->event_after;
        pthread_mutex_unlock(&program->queue_lock);
        program_leave(program);
        status = ANE_OK;
    }
    trace_end(&call, status);
    return status;
}
