/* A fake Espresso.framework: the e5rt_* functions that dispatch uses, with the names and calling conventions of the real
 * ones, before our engine. It is strict: objects are used in the documented order and released in it, and what is not
 * released is counted (`fake_espresso_live`). Messages that the documentation quotes are quoted; the others are ours. */

#include <pthread.h>
#include <stdarg.h>

#include "engine_behind.h"

#define EXPORT __attribute__((visibility("default")))

typedef int64_t Error;
enum { OK, INVALID_ARGUMENT = 1, INVALID_OPERATION = 2, COMPILE_FAILED = 11 };
typedef enum { CONFIG = 1, COMPILER, OPTIONS, LIBRARY, FUNCTION, OP_OPTIONS, OPERATION, PORT, BUFFER, EVENT, STREAM } Kind;

typedef struct Object {
    struct Object *next;
    Kind kind;
    struct Object *owner; /* What must outlive it. */
    char *text;
    char *mil;
    char *custom;
    uint64_t number;
    int flags;
    MilPorts ports;
    int index;
    void *memory;
    struct Object *bound[MOST_PORTS]; /* Buffers of an operation, by port. */
    struct Object *completion, *awaited;
    void *program;
    int encoded, prepared, in_use;
    struct Object *operations[MOST_PORTS * 4];
    size_t count;
    int used, in_flight;
} Object;

typedef struct {
    void *isa;
    int flags, reserved;
    void (*invoke)(void *);
    struct {
        unsigned long reserved, size;
    } *descriptor;
} Block;

EXPORT void *_NSConcreteGlobalBlock[32];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Object *live;
static _Thread_local char message[512];

static Error fail(Error code, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return code;
}

EXPORT const char *e5rt_get_last_error_message(void) { return message; }

EXPORT int fake_espresso_live(void) {
    int count = 0;
    pthread_mutex_lock(&lock);
    for (Object *one = live; one; one = one->next) count++;
    pthread_mutex_unlock(&lock);
    return count;
}

static Object *add(Kind kind, Object *owner) {
    Object *made = calloc(1, sizeof *made);
    made->kind = kind;
    made->owner = owner;
    pthread_mutex_lock(&lock);
    made->next = live;
    live = made;
    pthread_mutex_unlock(&lock);
    return made;
}

static int is(const void *object, Kind kind) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (Object *one = live; one; one = one->next) found |= one == object && one->kind == kind;
    pthread_mutex_unlock(&lock);
    return found;
}

static Error put(void **out, Object *made) {
    *out = made;
    return OK;
}

/* Why an object cannot be released, or NULL. The lock is held. */
static const char *needed(const Object *object) {
    if (object->kind == STREAM && object->in_flight) return "the stream runs";
    for (const Object *one = live; one; one = one->next) {
        for (size_t i = 0; object->kind == BUFFER && one->kind == OPERATION && i < one->ports.count; i++)
            if (one->bound[i] == object) return "the buffer is bound to a live operation";
        if (one->owner == object && one->kind != PORT) return "what depends on it lives";
    }
    return NULL;
}

static Error release(void **held, Kind kind) {
    if (!held || !is(*held, kind)) return fail(INVALID_ARGUMENT, "released twice, or by the wrong function");
    Object *object = *held;
    pthread_mutex_lock(&lock);
    const char *reason = needed(object);
    for (Object **place = &live; !reason && *place; place = &(*place)->next)
        if (*place == object) {
            *place = object->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (reason) return fail(INVALID_OPERATION, "%s", reason);
    if (object->program) engine_behind()->release(object->program);
    free(object->text);
    free(object->mil);
    free(object->custom);
    free(object->memory);
    free(object);
    *held = NULL;
    return OK;
}

#define RELEASE(name, kind) \
    EXPORT Error name(void **held) { return release(held, kind); }
RELEASE(e5rt_e5_compiler_config_options_release, CONFIG)
RELEASE(e5rt_e5_compiler_release, COMPILER)
RELEASE(e5rt_e5_compiler_options_release, OPTIONS)
RELEASE(e5rt_program_library_release, LIBRARY)
RELEASE(e5rt_program_function_release, FUNCTION)
RELEASE(e5rt_precompiled_compute_op_create_options_release, OP_OPTIONS)
RELEASE(e5rt_execution_stream_operation_release, OPERATION)
RELEASE(e5rt_io_port_release, PORT)
RELEASE(e5rt_buffer_object_release, BUFFER)
RELEASE(e5rt_async_event_release, EVENT)
RELEASE(e5rt_execution_stream_release, STREAM)

/* Compiling. */

EXPORT Error e5rt_e5_compiler_config_options_create(void **out) { return put(out, add(CONFIG, NULL)); }
EXPORT Error e5rt_e5_compiler_options_create(void **out) { return put(out, add(OPTIONS, NULL)); }

EXPORT Error e5rt_e5_compiler_config_options_set_cache_bundle_location(void *config, const char *path) {
    if (!is(config, CONFIG) || !path) return fail(INVALID_ARGUMENT, "no configuration, or no path");
    ((Object *)config)->text = strdup(path);
    return OK;
}

EXPORT Error e5rt_e5_compiler_create_with_config(void **out, void *config) {
    if (!is(config, CONFIG)) return fail(INVALID_ARGUMENT, "Cannot provide a configuration as nullptr. @ Create");
    if (!((Object *)config)->text) return fail(INVALID_OPERATION, "the cache bundle location is not set");
    Object *made = add(COMPILER, config);
    made->text = strdup(((Object *)config)->text);
    return put(out, made);
}

EXPORT Error e5rt_e5_compiler_options_set_compute_device_types_mask(void *options, uint64_t mask) {
    if (!is(options, OPTIONS)) return fail(INVALID_ARGUMENT, "no options");
    ((Object *)options)->number = mask;
    return OK;
}

EXPORT Error e5rt_e5_compiler_options_set_force_recompilation(void *options, int value) {
    if (!is(options, OPTIONS)) return fail(INVALID_ARGUMENT, "no options");
    ((Object *)options)->flags |= value ? 1 : 0;
    return OK;
}

EXPORT Error e5rt_e5_compiler_options_set_segmenter(void *options, const char *name) {
    if (!is(options, OPTIONS) || !name || strcmp(name, "graph") != 0) return fail(INVALID_ARGUMENT, "no such segmenter");
    ((Object *)options)->flags |= 2;
    return OK;
}

EXPORT Error e5rt_e5_compiler_options_set_enable_profiling(void *options, int value) {
    if (!is(options, OPTIONS)) return fail(INVALID_ARGUMENT, "no options");
    ((Object *)options)->flags |= value ? 4 : 0;
    return OK;
}

#ifndef WITHOUT_CUSTOM_OPTIONS
EXPORT Error e5rt_e5_compiler_options_set_custom_ane_compiler_options(void *options, const char *text) {
    if (!is(options, OPTIONS) || !text) return fail(INVALID_ARGUMENT, "no options");
    ((Object *)options)->custom = strdup(text);
    return OK;
}
#endif

EXPORT Error e5rt_e5_compiler_compile(void *compiler, const char *path, void *options, void **out) {
    if (!is(compiler, COMPILER) || !is(options, OPTIONS))
        return fail(INVALID_ARGUMENT, "Invalid E5 path specified. @ GetE5PathFromCompositeBundle");
    Object *chosen = options;
    if ((chosen->flags & 3) != 3) return fail(INVALID_OPERATION, "recompilation and segmenter are not set");
    char *mil = read_text(path);
    if (!mil) return fail(INVALID_ARGUMENT, "Invalid E5 path specified. @ GetE5PathFromCompositeBundle");
    MilPorts ports;
    const char *cache = ((Object *)compiler)->text;
    int taken = (chosen->number & ENGINE_MASK) && engine_behind() && read_ports(mil, &ports);
    if (taken && chosen->custom) taken = engine_behind()->check(path, cache, ENGINE_MASK, chosen->custom) == 0;
    void *program = taken ? compile_ports(path, cache, &ports) : NULL;
    if (!program) {
        free(mil);
        return fail(COMPILE_FAILED, "MIL compilation failed: %s", path);
    }
    Object *made = add(LIBRARY, NULL);
    made->text = strdup(path);
    made->mil = mil;
    made->custom = strdup(cache);
    made->ports = ports;
    made->program = program; /* The first operation takes it. */
    return put(out, made);
}

/* Operations. */

EXPORT Error e5rt_program_library_retain_program_function(void *library, const char *name, void **out) {
    if (!is(library, LIBRARY)) return fail(INVALID_ARGUMENT, "no program library");
    if (!name || strcmp(name, "main") != 0) return fail(INVALID_ARGUMENT, "no function of that name");
    return put(out, add(FUNCTION, library));
}

EXPORT Error e5rt_precompiled_compute_op_create_options_create_with_program_function(void **out, void *function) {
    if (!is(function, FUNCTION))
        return fail(INVALID_ARGUMENT, "Cannot provide program function as nullptr. @ Create");
    return put(out, add(OP_OPTIONS, function));
}

EXPORT Error e5rt_precompiled_compute_op_create_options_set_operation_name(void *options, const char *name) {
    if (!is(options, OP_OPTIONS) || !name) return fail(INVALID_ARGUMENT, "no options, or no name");
    ((Object *)options)->flags |= 1;
    return OK;
}

EXPORT Error e5rt_precompiled_compute_op_create_options_set_allocate_intermediate_buffers(void *options, int value) {
    if (!is(options, OP_OPTIONS)) return fail(INVALID_ARGUMENT, "no options");
    ((Object *)options)->flags |= value ? 2 : 0;
    return OK;
}

EXPORT Error e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(void **out,
                                                                                               void *options) {
    if (!is(options, OP_OPTIONS)) return fail(INVALID_ARGUMENT, "no options of an operation");
    if (((Object *)options)->flags != 3) return fail(INVALID_OPERATION, "name and intermediate buffers are not set");
    Object *library = ((Object *)options)->owner->owner, *made = add(OPERATION, options);
    made->text = strdup(library->text);
    made->custom = strdup(library->custom);
    made->ports = library->ports;
    made->program = library->program;
    library->program = NULL;
    return put(out, made);
}

static Error retain_port(Object *operation, const char *name, int is_input, void **out) {
    if (!is(operation, OPERATION)) return fail(INVALID_ARGUMENT, "no operation");
    for (size_t i = 0; name && i < operation->ports.count; i++) {
        MilPort *port = &operation->ports.ports[i];
        if (port->is_input != is_input || strcmp(port->name, name) != 0) continue;
        Object *made = add(PORT, operation);
        made->index = (int)i;
        return put(out, made);
    }
    return fail(INVALID_ARGUMENT, "no %s port of that name", is_input ? "input" : "output");
}

EXPORT Error e5rt_execution_stream_operation_retain_input_port(void *operation, const char *name, void **out) {
    return retain_port(operation, name, 1, out);
}

EXPORT Error e5rt_execution_stream_operation_retain_output_port(void *operation, const char *name, void **out) {
    return retain_port(operation, name, 0, out);
}

EXPORT Error e5rt_buffer_object_alloc(void **out, size_t size, int type) {
    if (type < 0 || type > 2) return fail(INVALID_ARGUMENT, "Invalid BufferType @ AllocMemory");
    if (size % 64) return fail(INVALID_ARGUMENT, "a buffer has a multiple of 64 bytes");
    Object *made = add(BUFFER, NULL);
    made->memory = aligned_alloc(64, size);
    memset(made->memory, 0xff, size);
    made->number = size;
    return put(out, made);
}

EXPORT Error e5rt_buffer_object_get_data_ptr(void *buffer, void **out) {
    if (!is(buffer, BUFFER)) return fail(INVALID_ARGUMENT, "no buffer");
    *out = ((Object *)buffer)->memory;
    return OK;
}

EXPORT Error e5rt_io_port_bind_buffer_object(void *port, void *buffer) {
    if (!is(port, PORT) || !is(buffer, BUFFER)) return fail(INVALID_ARGUMENT, "no port, or no buffer");
    Object *held = port, *operation = held->owner, *memory = buffer;
    if (operation->in_use)
        return fail(INVALID_OPERATION,
                    "Port bindings cannot be changed while operation is in use in an execution stream");
    if (memory->number < operation->ports.ports[held->index].bytes)
        return fail(INVALID_ARGUMENT, "the buffer is too small for the port");
    operation->bound[held->index] = memory;
    return OK;
}

/* Events. */

EXPORT Error e5rt_async_event_create(void **out, const char *name, uint64_t initial) {
    if (!name) return fail(INVALID_ARGUMENT, "Invalid Function Argument: eventName is NULL");
    Object *made = add(EVENT, NULL);
    made->text = strdup(name);
    made->number = initial;
    return put(out, made);
}

EXPORT Error e5rt_async_event_get_last_signaled_value(void *event, uint64_t *value) {
    if (!is(event, EVENT)) return fail(INVALID_ARGUMENT, "no event");
    pthread_mutex_lock(&lock);
    *value = ((Object *)event)->number;
    pthread_mutex_unlock(&lock);
    return OK;
}

EXPORT Error e5rt_execution_stream_operation_bind_completion_event(void *operation, void *event) {
    if (!is(operation, OPERATION) || !is(event, EVENT)) return fail(INVALID_ARGUMENT, "no operation, or no event");
    if (((Object *)operation)->in_use) return fail(INVALID_OPERATION, "events are bound before an operation is encoded");
    ((Object *)operation)->completion = event;
    return OK;
}

EXPORT Error e5rt_execution_stream_operation_bind_dependent_events(void *operation, void **events, size_t count) {
    if (!is(operation, OPERATION) || count != 1 || !is(events[0], EVENT))
        return fail(INVALID_ARGUMENT, "no operation, or no event");
    if (((Object *)operation)->in_use) return fail(INVALID_OPERATION, "events are bound before an operation is encoded");
    ((Object *)operation)->awaited = events[0];
    return OK;
}

/* Streams. */

EXPORT Error e5rt_execution_stream_create(void **out) { return put(out, add(STREAM, NULL)); }

EXPORT Error e5rt_execution_stream_operation_prepare_op_for_encode(void *operation) {
    if (!is(operation, OPERATION)) return fail(INVALID_ARGUMENT, "no operation");
    Object *one = operation;
    if (!one->encoded || one->in_use) return fail(INVALID_OPERATION, "the operation is fresh, or in use");
    one->prepared = 1;
    return OK;
}

EXPORT Error e5rt_execution_stream_encode_operation(void *stream, void *operation) {
    if (!is(stream, STREAM) || !is(operation, OPERATION)) return fail(INVALID_ARGUMENT, "no stream, or no operation");
    Object *held = stream, *one = operation;
    if (held->used) return fail(INVALID_OPERATION, "Reset stream to add more operations to stream.");
    if (one->in_use) return fail(INVALID_OPERATION, "the operation is in use in an execution stream");
    if (one->encoded && !one->prepared) return fail(INVALID_OPERATION, "the operation is not prepared");
    for (size_t i = 0; i < one->ports.count; i++)
        if (!one->bound[i]) return fail(INVALID_OPERATION, "port %s is not bound", one->ports.ports[i].name);
    if (!one->program) one->program = compile_ports(one->text, one->custom, &one->ports);
    if (!one->program) return fail(COMPILE_FAILED, "ANE model load has failed. Must re-compile the E5 bundle");
    one->encoded = one->in_use = 1;
    one->prepared = 0;
    held->operations[held->count++] = one;
    return OK;
}

static int run(Object *operation) {
    Engine *engine = engine_behind();
    int bad = 0;
    for (size_t i = 0; i < operation->ports.count; i++) {
        MilPort *port = &operation->ports.ports[i];
        if (port->is_input) bad |= engine->set_input(operation->program, port->name, operation->bound[i]->memory, port->bytes / 2);
    }
    bad |= engine->execute(operation->program);
    for (size_t i = 0; i < operation->ports.count; i++) {
        MilPort *port = &operation->ports.ports[i];
        if (!port->is_input) bad |= engine->get_output(operation->program, port->name, operation->bound[i]->memory, port->bytes / 2);
    }
    return bad;
}

static Error begin(Object *stream) {
    if (!is(stream, STREAM)) return fail(INVALID_ARGUMENT, "no stream");
    if (!stream->count) return fail(INVALID_OPERATION, "no operation is encoded");
    if (stream->in_flight) return fail(INVALID_OPERATION, "the stream runs");
    stream->used = 1;
    return OK;
}

EXPORT Error e5rt_execution_stream_execute_sync(void *stream) {
    Object *held = stream;
    Error error = begin(held);
    for (size_t i = 0; !error && i < held->count; i++)
        if (run(held->operations[i])) error = fail(INVALID_OPERATION, "the engine failed");
    return error;
}

typedef struct {
    Object *stream;
    Block *block;
} Submission;

static void *run_all(void *given) {
    Submission *submission = given;
    Object *stream = submission->stream;
    int bad = 0;
    for (size_t i = 0; !bad && i < stream->count; i++) {
        Object *one = stream->operations[i];
        pthread_mutex_lock(&lock);
        bad = one->awaited && one->awaited->number == 0; /* Its source comes earlier in the stream, or not at all. */
        pthread_mutex_unlock(&lock);
        bad = bad || run(one);
        pthread_mutex_lock(&lock);
        if (!bad && one->completion) one->completion->number++;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    stream->in_flight = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    submission->block->invoke(submission->block);
    free(submission);
    return NULL;
}

EXPORT Error e5rt_execution_stream_submit_async(void *stream, void *block) {
    Block *given = block;
    if (!given || given->isa != _NSConcreteGlobalBlock || !(given->flags & (1 << 28)) || given->descriptor->size != 32)
        return fail(INVALID_ARGUMENT, "the completion is no block");
    Error error = begin(stream);
    if (error) return error;
    Submission *submission = malloc(sizeof *submission);
    submission->stream = stream;
    submission->block = given;
    ((Object *)stream)->in_flight = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, run_all, submission);
    pthread_detach(thread);
    return OK;
}

EXPORT Error e5rt_execution_stream_reset(void *stream) {
    if (!is(stream, STREAM)) return fail(INVALID_ARGUMENT, "no stream");
    Object *held = stream;
    if (!held->count) return fail(INVALID_OPERATION, "the stream is fresh");
    if (held->in_flight) return fail(INVALID_OPERATION, "the stream runs");
    for (size_t i = 0; i < held->count; i++) held->operations[i]->in_use = 0;
    held->count = 0;
    held->used = 0;
    return OK;
}
