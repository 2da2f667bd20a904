/* A fake Objective-C runtime with the classes that Path A uses (Foundation's few, AppleNeuralEngine's four) and the
 * functions of IOSurface and CoreFoundation, before our engine. Objects are counted: what factories give lies in an
 * autorelease pool, what is retained must be released, and a message to a dead object is a misuse
 * (`fake_objc_live`, `fake_objc_misuse`). The order of the documentation is checked; errors have the codes of the
 * invoker's exits: 3 descriptor, 4 compile, 5 load, 7 map, 8 evaluate, 11 surface. Rows are padded to 64 bytes, as a
 * surface's may be. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine_behind.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct Object Object;
typedef struct {
    const char *name;
} Class;

static Class classes[] = {
    {"NSString"}, {"NSData"},  {"NSNumber"}, {"NSArray"}, {"NSDictionary"}, {"NSError"}, {"_ANEInMemoryModelDescriptor"},
    {"_ANEInMemoryModel"}, {"_ANEIOSurfaceObject"}, {"_ANERequest"}, {"NSAutoreleasePool"}, {"IOSurface"}};
enum { STRING, DATA, NUMBER, ARRAY, DICTIONARY, NSERROR, DESCRIPTOR, MODEL, SURFACE_OBJECT, REQUEST, POOL, SURFACE, KINDS };
enum { CREATED, COMPILED, LOADED, UNLOADED };

struct Object {
    Object *next;
    int kind, references;
    char *bytes;
    size_t length;
    long long number;
    Object **items; /* Retained; a dictionary has keys after its values. */
    size_t count;
    int state, locked;
    char *folder;
    void *program;
    MilPorts ports;
    Object *mapped;
};

/* The runtime may be called from any thread: one call at a time is in here. */
static pthread_mutex_t whole = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void leave(int *entered) {
    (void)entered;
    pthread_mutex_unlock(&whole);
}
#define ONE_AT_A_TIME \
    __attribute__((cleanup(leave))) int entered = pthread_mutex_lock(&whole); \
    (void)entered

static Object *live;
static int misuse;
static char *network; /* The MIL text that stands for the next network description. */
static _Thread_local Object *pools[4096];
static _Thread_local size_t pooled;

EXPORT int fake_objc_live(void) {
    ONE_AT_A_TIME;
    int count = 0;
    for (Object *one = live; one; one = one->next) count++;
    return count;
}

EXPORT int fake_objc_misuse(void) { return misuse; }
EXPORT void fake_objc_set_network(const char *mil) {
    free(network);
    network = strdup(mil);
}

static int is(const void *object, int kind) {
    for (Object *one = live; one; one = one->next)
        if (one == object) return one->kind == kind;
    return 0;
}

static int lives(const void *object) {
    for (Object *one = live; one; one = one->next)
        if (one == object) return 1;
    return 0;
}

static Object *make(int kind) {
    Object *made = calloc(1, sizeof *made);
    made->kind = kind;
    made->references = 1;
    made->next = live;
    live = made;
    return made;
}

static void *retain(void *object) {
    if (!lives(object)) {
        misuse++;
        return NULL;
    }
    ((Object *)object)->references++;
    return object;
}

static void release(void *object) {
    Object *held = object;
    if (!lives(object)) {
        misuse++;
        return;
    }
    if (--held->references) return;
    if (held->kind == MODEL) {
        if (held->state == LOADED || held->mapped) misuse++; /* It was not unloaded, or not unmapped. */
        if (held->program) engine_behind()->release(held->program);
        if (rmdir(held->folder)) misuse++; /* The client left files in it. */
    }
    for (Object **place = &live; *place; place = &(*place)->next)
        if (*place == held) {
            *place = held->next;
            break;
        }
    for (size_t i = 0; i < held->count * (held->kind == DICTIONARY ? 2 : 1); i++) release(held->items[i]);
    free(held->items);
    free(held->bytes);
    free(held->folder);
    free(held);
}

EXPORT void CFRelease(void *object) {
    ONE_AT_A_TIME;
    if (!is(object, SURFACE)) misuse++;
    release(object);
}

/* A pool lies among what it drains, so that it finds its own place. */
static void drain(Object *pool) {
    while (pooled && pools[--pooled] != pool) release(pools[pooled]);
    release(pool);
}

static Object *autoreleased(Object *object) {
    if (!pooled) misuse++; /* It leaks without a pool. */
    pools[pooled++] = object;
    return object;
}

static Object *string_of(const char *text) {
    Object *made = autoreleased(make(STRING));
    made->bytes = strdup(text);
    made->length = strlen(text);
    return made;
}

static Object *number_of(long long value) {
    Object *made = autoreleased(make(NUMBER));
    made->number = value;
    return made;
}

static Object *collection(int kind, Object **values, Object **keys, size_t count) {
    Object *made = autoreleased(make(kind));
    made->items = calloc(count * 2 + 1, sizeof *made->items);
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        made->items[i] = retain(values[i]);
        if (keys) made->items[count + i] = retain(keys[i]);
    }
    return made;
}

static Object *value_of(Object *dictionary, const char *key) {
    for (size_t i = 0; i < dictionary->count; i++)
        if (strcmp(dictionary->items[dictionary->count + i]->bytes, key) == 0) return dictionary->items[i];
    return NULL;
}

static intptr_t failed(Object **error, int code, const char *text) {
    Object *made = autoreleased(make(NSERROR));
    made->number = code;
    made->bytes = strdup(text);
    if (error) *error = made;
    return 0;
}

EXPORT void *objc_getClass(const char *name) {
    for (size_t i = 0; i < SURFACE; i++)
        if (strcmp(classes[i].name, name) == 0) return &classes[i];
    return NULL;
}

EXPORT void *sel_registerName(const char *name) {
    ONE_AT_A_TIME;
    static char *names[256];
    size_t i = 0;
    for (; names[i]; i++)
        if (strcmp(names[i], name) == 0) return names[i];
    return names[i] = strdup(name);
}

/* Surfaces. */

EXPORT void *IOSurfaceCreate(void *properties) {
    ONE_AT_A_TIME;
    Object *size = is(properties, DICTIONARY) ? value_of(properties, "IOSurfaceAllocSize") : NULL;
    if (!size || size->number <= 0) return NULL;
    Object *made = make(SURFACE);
    made->length = (size_t)size->number;
    made->bytes = aligned_alloc(4096, (made->length + 4095) / 4096 * 4096); /* Whole pages, as the system gives. */
    memset(made->bytes, 0xff, made->length);
    return made;
}

EXPORT void *IOSurfaceGetBaseAddress(void *surface) {
    ONE_AT_A_TIME;
    return is(surface, SURFACE) ? ((Object *)surface)->bytes : NULL;
}

EXPORT int IOSurfaceLock(void *surface, uint32_t options, uint32_t *seed) {
    ONE_AT_A_TIME;
    (void)options, (void)seed;
    if (!is(surface, SURFACE) || ((Object *)surface)->locked++) misuse++;
    return 0;
}

EXPORT int IOSurfaceUnlock(void *surface, uint32_t options, uint32_t *seed) {
    ONE_AT_A_TIME;
    (void)options, (void)seed;
    if (!is(surface, SURFACE) || --((Object *)surface)->locked) misuse++;
    return 0;
}

/* Where a port's elements lie: batches, channels, depth, height, width, and their strides. */
static void lay_out(const MilPort *port, size_t extents[5], size_t strides[5]) {
    static const int places[6][5] = {{0}, {4}, {1, 4}, {1, 3, 4}, {0, 1, 3, 4}, {0, 1, 2, 3, 4}};
    for (int i = 0; i < 5; i++) extents[i] = 1;
    for (int i = 0; i < port->rank; i++) extents[places[port->rank][i]] = port->extents[i];
    strides[4] = 2;
#ifdef WITHOUT_ATTRIBUTES
    strides[3] = extents[4] * 2;
#else
    strides[3] = (extents[4] * 2 + 63) / 64 * 64;
#endif
    strides[1] = strides[3] * extents[3];      /* A plane. */
    strides[2] = strides[1] * extents[1];      /* A depth: its planes. */
    strides[0] = strides[2] * extents[2];
}

static Object *live_list(const MilPorts *ports, int is_input) {
    static const char *keys[] = {"Batches", "Channels", "Depth", "Height", "Width", "BatchStride", "PlaneStride", "DepthStride", "RowStride"};
    Object *entries[MOST_PORTS];
    size_t count = 0;
    for (size_t i = 0; i < ports->count; i++) {
        if (ports->ports[i].is_input != is_input) continue;
        size_t extents[5], strides[5];
        lay_out(&ports->ports[i], extents, strides);
        size_t numbers[9] = {extents[0], extents[1], extents[2], extents[3], extents[4], strides[0], strides[1], strides[2], strides[3]};
        Object *values[10], *names[10];
        for (int k = 0; k < 9; k++) {
            values[k] = number_of((long long)numbers[k]);
            names[k] = string_of(keys[k]);
        }
        values[9] = string_of(ports->ports[i].name);
        names[9] = string_of("Symbol");
        entries[count++] = collection(DICTIONARY, values, names, 10);
    }
    return collection(ARRAY, entries, NULL, count);
}

static void move(const MilPort *port, char *surface, char *dense, int to_surface) {
    size_t extents[5], strides[5], at = 0;
    lay_out(port, extents, strides);
    for (size_t b = 0; b < extents[0]; b++)
        for (size_t c = 0; c < extents[1]; c++)
            for (size_t d = 0; d < extents[2]; d++)
                for (size_t h = 0; h < extents[3]; h++) {
                    char *row = surface + b * strides[0] + c * strides[1] + d * strides[2] + h * strides[3];
                    size_t size = extents[4] * 2;
                    memcpy(to_surface ? row : dense + at, to_surface ? dense + at : row, size);
                    at += size;
                }
}

/* The model. */

static int same_file(Object *model, const char *name, const Object *data) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", model->folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    char *held = malloc(data->length + 1);
    size_t got = fread(held, 1, data->length + 1, file);
    int same = got == data->length && memcmp(held, data->bytes, got) == 0;
    free(held);
    fclose(file);
    return same;
}

static intptr_t compile_model(Object *model, unsigned qos, Object **error) {
    Object *descriptor = model->items[0], *weights = descriptor->items[1];
    int is_network = descriptor->state;
    char path[4096];
    if (model->state != CREATED || qos != 33) return failed(error, 4, "compiled twice, or with another quality of service");
    if (!same_file(model, is_network ? "net.plist" : "model.mil", descriptor->items[0]))
        return failed(error, 4, "the program is not in the model's folder");
    for (size_t i = 0; i < weights->count; i++) {
        const char *name = weights->items[weights->count + i]->bytes, *plain = strrchr(name, '/');
        Object *data = value_of(weights->items[i], "data"), *offset = value_of(weights->items[i], "offset");
        if (!data || !offset || offset->number || !same_file(model, plain ? plain + 1 : name, data))
            return failed(error, 4, "the weights are not in the model's folder");
    }
    snprintf(path, sizeof path, "%s/model.mil", model->folder);
    const char *source = is_network ? network : path;
    char *text = read_text(source);
    if (!text || !read_ports(text, &model->ports) || !engine_behind()) {
        free(text);
        return failed(error, 4, "InvalidMILProgram");
    }
    free(text);
    model->program = compile_ports(source, NULL, &model->ports);
    if (!model->program) return failed(error, 4, "ANECCompile() FAILED");
    model->state = COMPILED;
    return 1;
}

static Object *attributes_of(Object *model) {
    Object *values[2] = {live_list(&model->ports, 1), live_list(&model->ports, 0)};
    Object *names[2] = {string_of("LiveInputList"), string_of("LiveOutputList")};
    Object *status = collection(DICTIONARY, values, names, 2);
    Object *statuses = collection(ARRAY, &status, NULL, 1), *key = string_of("NetworkStatusList");
    return collection(DICTIONARY, &statuses, &key, 1);
}

/* The surface of a model's port in a request: live inputs and outputs have indices of their own. */
static Object *surface_of(Object *model, Object *request, size_t port) {
    int is_input = model->ports.ports[port].is_input;
    long long index = 0;
    for (size_t i = 0; i < port; i++) index += model->ports.ports[i].is_input == is_input;
    Object *objects = request->items[is_input ? 0 : 2], *indices = request->items[is_input ? 1 : 3];
    for (size_t i = 0; i < objects->count && i < indices->count; i++)
        if (indices->items[i]->number == index) return objects->items[i]->items[0];
    return NULL;
}

static intptr_t map(Object *model, Object *request, Object **error) {
    if (model->state != LOADED || !is(request, REQUEST) || model->mapped) return failed(error, 7, "map a loaded model once");
    for (size_t i = 0; i < model->ports.count; i++) {
        size_t extents[5], strides[5];
        lay_out(&model->ports.ports[i], extents, strides);
        Object *surface = surface_of(model, request, i);
        if (!surface || surface->length < strides[0] * extents[0]) return failed(error, 7, "no surface, or too small a one");
    }
    model->mapped = retain(request);
    return 1;
}

static intptr_t evaluate(Object *model, Object *request, Object **error) {
    if (model->state != LOADED || model->mapped != request) return failed(error, 8, "the request is not mapped");
    Engine *engine = engine_behind();
    int bad = 0;
    for (int turn = 1; turn >= 0 && !bad; turn--) {
        for (size_t i = 0; i < model->ports.count; i++) {
            MilPort *port = &model->ports.ports[i];
            if (port->is_input != turn) continue;
            Object *surface = surface_of(model, request, i);
            if (surface->locked) misuse++;
            char *dense = malloc(port->bytes);
            if (turn) {
                move(port, surface->bytes, dense, 0);
                bad |= engine->set_input(model->program, port->name, (uint16_t *)dense, port->bytes / 2);
            } else {
                bad |= engine->get_output(model->program, port->name, (uint16_t *)dense, port->bytes / 2);
                move(port, surface->bytes, dense, 1);
            }
            free(dense);
        }
        if (turn) bad |= engine->execute(model->program);
    }
    return bad ? failed(error, 8, "ANEProgramProcessRequestDirect() Failed") : 1;
}

/* Messages. */

static intptr_t to_class(const char *name, const char *selector, intptr_t *a) {
    if (strcmp(selector, "new") == 0 && strcmp(name, "NSAutoreleasePool") == 0) return (intptr_t)(pools[pooled++] = make(POOL));
    if (strcmp(selector, "stringWithUTF8String:") == 0) return (intptr_t)string_of((char *)a[0]);
    if (strcmp(selector, "numberWithLongLong:") == 0) return (intptr_t)number_of(a[0]);
    if (strcmp(selector, "dataWithBytes:length:") == 0) {
        Object *made = autoreleased(make(DATA));
        made->length = (size_t)a[1];
        made->bytes = malloc(made->length + 1);
        memcpy(made->bytes, (void *)a[0], made->length);
        return (intptr_t)made;
    }
    if (strcmp(selector, "arrayWithObjects:count:") == 0)
        return (intptr_t)collection(ARRAY, (Object **)a[0], NULL, (size_t)a[1]);
    if (strcmp(selector, "dictionaryWithObjects:forKeys:count:") == 0)
        return (intptr_t)collection(DICTIONARY, (Object **)a[0], (Object **)a[1], (size_t)a[2]);
    if (strncmp(selector, "modelWith", 9) == 0 && strcmp(name, "_ANEInMemoryModelDescriptor") == 0) {
        if (!is((void *)a[0], DATA) || !((Object *)a[0])->length || !is((void *)a[1], DICTIONARY) || a[2]) return 0;
        Object *made = collection(DESCRIPTOR, (Object **)a, NULL, 2);
        made->state = strcmp(selector, "modelWithNetworkDescription:weights:optionsPlist:") == 0;
        return (intptr_t)made;
    }
    if (strcmp(selector, "inMemoryModelWithDescriptor:") == 0) {
        if (!is((void *)a[0], DESCRIPTOR)) return 0;
        Object *made = collection(MODEL, (Object **)a, NULL, 1);
        const char *root = getenv("TMPDIR");
        char folder[4096];
        snprintf(folder, sizeof folder, "%s/fake-ane-XXXXXX", root ? root : "/tmp");
        made->folder = strdup(mkdtemp(folder));
        return (intptr_t)made;
    }
    if (strcmp(selector, "objectWithIOSurface:") == 0)
        return is((void *)a[0], SURFACE) ? (intptr_t)collection(SURFACE_OBJECT, (Object **)a, NULL, 1) : 0;
    if (strcmp(selector, "requestWithInputs:inputIndices:outputs:outputIndices:procedureIndex:") == 0)
        return (intptr_t)collection(REQUEST, (Object **)a, NULL, 5);
    misuse++;
    return 0;
}

static intptr_t to_model(Object *model, const char *selector, intptr_t *a) {
    if (strcmp(selector, "localModelPath") == 0) return (intptr_t)string_of(model->folder);
    if (strcmp(selector, "compileWithQoS:options:error:") == 0) return compile_model(model, (unsigned)a[0], (Object **)a[2]);
    if (strcmp(selector, "loadWithQoS:options:error:") == 0) {
        if (model->state != COMPILED) return failed((Object **)a[2], 5, "the model is not compiled");
        model->state = LOADED;
        return 1;
    }
#ifdef WITHOUT_ATTRIBUTES
    if (strcmp(selector, "modelAttributes") == 0) return 0;
#endif
    if (strcmp(selector, "modelAttributes") == 0) return model->state == LOADED ? (intptr_t)attributes_of(model) : 0;
    if (strcmp(selector, "mapIOSurfacesWithRequest:cacheInference:error:") == 0)
        return map(model, (Object *)a[0], (Object **)a[2]);
    if (strcmp(selector, "evaluateWithQoS:options:request:error:") == 0)
        return evaluate(model, (Object *)a[2], (Object **)a[3]);
    if (strcmp(selector, "unmapIOSurfacesWithRequest:") == 0) {
        if (!model->mapped || model->mapped != (Object *)a[0]) misuse++;
        if (model->mapped) release(model->mapped);
        model->mapped = NULL;
        return 0;
    }
    if (strcmp(selector, "unloadWithQoS:error:") == 0) {
        if (model->state != LOADED || model->mapped) return failed((Object **)a[1], 5, "the model is not loaded, or mapped");
        model->state = UNLOADED;
        return 1;
    }
    misuse++;
    return 0;
}

EXPORT intptr_t objc_msgSend(void *self, const char *selector, intptr_t a0, intptr_t a1, intptr_t a2, intptr_t a3,
                             intptr_t a4, intptr_t a5, intptr_t a6, intptr_t a7) {
    ONE_AT_A_TIME;
    intptr_t a[] = {a0, a1, a2, a3, a4, a5, a6, a7};
    if (!self) return 0;
    if ((Class *)self >= classes && (Class *)self < classes + KINDS) return to_class(((Class *)self)->name, selector, a);
    if (!lives(self)) {
        misuse++;
        return 0;
    }
    Object *object = self;
    if (strcmp(selector, "retain") == 0) return (intptr_t)retain(object);
    if (strcmp(selector, "release") == 0) return release(object), 0;
    if (strcmp(selector, "drain") == 0 && object->kind == POOL) return drain(object), 0;
    if (object->kind == MODEL) return to_model(object, selector, a);
    if (strcmp(selector, "UTF8String") == 0) return (intptr_t)object->bytes;
    if (strcmp(selector, "longLongValue") == 0 || strcmp(selector, "code") == 0) return object->number;
    if (strcmp(selector, "count") == 0) return (intptr_t)object->count;
    if (strcmp(selector, "objectAtIndex:") == 0)
        return (size_t)a0 < object->count ? (intptr_t)object->items[a0] : (misuse++, 0);
    if (strcmp(selector, "objectForKey:") == 0) return (intptr_t)value_of(object, ((Object *)a0)->bytes);
    if (strcmp(selector, "domain") == 0) return (intptr_t)string_of("com.apple.appleneuralengine");
    if (strcmp(selector, "localizedDescription") == 0) return (intptr_t)string_of(object->bytes);
    misuse++;
    return 0;
}
