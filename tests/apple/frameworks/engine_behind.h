/* What the fake frameworks share: the engine, reached through the dispatch ABI of a library that FAKE_ENGINE_LIBRARY
 * names, and the ports of a MIL program, read from its text. */

#ifndef ENGINE_BEHIND_H
#define ENGINE_BEHIND_H

#include <ctype.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PORTS = 64, MOST_NAME = 128, MOST_RANK = 8, ENGINE_MASK = 0x4 };

typedef struct {
    void *(*compile)(const char *, const char *, uint64_t, const char *const *, const size_t *, size_t,
                     const char *const *, const size_t *, size_t);
    int (*set_input)(void *, const char *, const uint16_t *, size_t);
    int (*get_output)(void *, const char *, uint16_t *, size_t);
    int (*execute)(void *);
    void (*release)(void *);
    int (*check)(const char *, const char *, uint64_t, const char *);
} Engine;

typedef struct {
    char name[MOST_NAME];
    int is_input;
    int element_bytes;
    int rank;
    size_t extents[MOST_RANK];
    size_t bytes; /* As the ABI counts them: an even number. */
} MilPort;

typedef struct {
    size_t count;
    MilPort ports[MOST_PORTS];
} MilPorts;

static Engine *engine_behind(void) {
    static Engine engine;
    if (engine.compile) return &engine;
    const char *path = getenv("FAKE_ENGINE_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "FAKE_ENGINE_LIBRARY must name a dispatch library: %s\n", path ? dlerror() : "it is not set");
        return NULL;
    }
    *(void **)&engine.set_input = dlsym(library, "ane_e5rt_program_set_input_fp16");
    *(void **)&engine.get_output = dlsym(library, "ane_e5rt_program_get_output_fp16");
    *(void **)&engine.execute = dlsym(library, "ane_e5rt_program_execute");
    *(void **)&engine.release = dlsym(library, "ane_e5rt_program_release");
    *(void **)&engine.check = dlsym(library, "ane_e5rt_compile_check");
    *(void **)&engine.compile = dlsym(library, "ane_e5rt_program_compile");
    return &engine;
}

static char *read_text(const char *path) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    size_t got = fread(text, 1, (size_t)size, file);
    text[got] = 0;
    fclose(file);
    return text;
}

/* Reads "fp16, [1, 2]>" after "tensor<". */
static const char *read_type(const char *at, MilPort *port) {
    port->element_bytes = strncmp(at, "uint8", 5) == 0 || strncmp(at, "int8", 4) == 0 ? 1 : 2;
    const char *open = strchr(at, '['), *end = strchr(at, '>');
    port->rank = 0;
    size_t count = 1;
    for (const char *next = open; next && next < end && *next != ']';) {
        char *after;
        size_t extent = strtoul(next + 1, &after, 10);
        port->extents[port->rank++] = extent;
        count *= extent;
        next = after;
        while (*next == ' ') next++;
    }
    port->bytes = count * (size_t)port->element_bytes;
    port->bytes += port->bytes % 2;
    return end + 1;
}

static const char *read_name(const char *at, char *name) {
    while (*at == ' ') at++;
    size_t length = 0;
    while ((isalnum((unsigned char)*at) || *at == '_') && length + 1 < MOST_NAME) name[length++] = *at++;
    name[length] = 0;
    return at;
}

/* Finds the type of a result: "tensor<…> NAME = " or "tensor<…> NAME, ". */
static int find_result(const char *text, MilPort *port) {
    for (const char *at = strstr(text, "tensor<"); at; at = strstr(at, "tensor<")) {
        MilPort found = *port;
        char name[MOST_NAME];
        const char *after = read_name(read_type(at + 7, &found), name);
        while (*after == ' ') after++;
        if (strcmp(name, port->name) == 0 && (*after == '=' || *after == ',')) {
            *port = found;
            return 1;
        }
        at += 7;
    }
    return 0;
}

/* Gives an output the type of the input of its name, which leaves unchanged. */
static int find_input(const MilPorts *ports, MilPort *port) {
    for (const MilPort *one = ports->ports; one < port; one++)
        if (one->is_input && strcmp(one->name, port->name) == 0) {
            *port = *one;
            port->is_input = 0;
            return 1;
        }
    return 0;
}

/* Reads the ports of the function main; returns 0 where the text is something else. */
static int read_ports(const char *text, MilPorts *ports) {
    memset(ports, 0, sizeof *ports);
    const char *at = strstr(text, "func main<"), *body = at ? strchr(at, '{') : NULL;
    if (!body) return 0;
    for (at = strchr(at, '('); at && (at = strstr(at, "tensor<")) && at < body;) {
        MilPort *port = &ports->ports[ports->count++];
        port->is_input = 1;
        at = read_name(read_type(at + 7, port), port->name);
    }
    const char *returned = NULL;
    for (const char *next = strstr(body, "-> ("); next; next = strstr(next + 1, "-> (")) returned = next;
    if (!returned) return 0;
    for (at = returned + 4; *at && *at != ')' && ports->count < MOST_PORTS;) {
        MilPort *port = &ports->ports[ports->count++];
        at = read_name(at, port->name);
        if (!find_input(ports, port) && !find_result(body, port)) return 0;
        while (*at == ' ' || *at == ',') at++;
    }
    return 1;
}

static void *compile_ports(const char *path, const char *cache, const MilPorts *ports) {
    const char *names[2][MOST_PORTS];
    size_t bytes[2][MOST_PORTS], counts[2] = {0, 0};
    for (size_t i = 0; i < ports->count; i++) {
        const MilPort *port = &ports->ports[i];
        int side = port->is_input ? 0 : 1;
        names[side][counts[side]] = port->name;
        bytes[side][counts[side]++] = port->bytes;
    }
    return engine_behind()->compile(path, cache, ENGINE_MASK, names[0], bytes[0], counts[0], names[1], bytes[1],
                                    counts[1]);
}

#endif
