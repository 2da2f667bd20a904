#define _GNU_SOURCE
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

#define VARIABLE "ANEFORGE_TRACE"

static int file = -1;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* Continues a record, or begins one; a file that is something else is left alone. */
static void open_file(void) {
    const char *path = getenv(VARIABLE);
    char first = '[';
    if (path == NULL || *path == '\0') return;
    file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) {
        report(VARIABLE ": %s: %s", path, strerror(errno));
        return;
    }
    const ssize_t got = pread(file, &first, 1, 0);
    if (got == 0 && write(file, "[\n", 2) == 2) return;
    if (got == 1 && first == '[') return;
    report(VARIABLE ": %s is not a record of calls; nothing is recorded", path);
    close(file);
    file = -1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

struct call trace_begin(const char *function, const void *program, const char *text, uint64_t bytes) {
    pthread_once(&opened, open_file);
    return (struct call){function, file < 0 ? -1.0 : now(), program, text, NULL, bytes};
}

static void write_escaped(FILE *out, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < 0x20)
            fprintf(out, "\\u%04x", *at);
        else
            fputc(*at, out);
    }
}

void trace_end(const struct call *call, long long status) {
    if (call->begin < 0) return;
    const double end = now();
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    if (out == NULL) return;
    fprintf(out, "{\"name\":\"%s\",\"cat\":\"dispatch\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%ld,\"args\":{",
            call->function, call->begin, end - call->begin, (int)getpid(), (long)syscall(SYS_gettid));
    fprintf(out, "\"status\":%lld", status);
    if (call->program != NULL) fprintf(out, ",\"program\":\"%p\"", call->program);
    if (call->bytes != 0) fprintf(out, ",\"bytes\":%llu", (unsigned long long)call->bytes);
    if (call->text != NULL) {
        fputs(",\"of\":\"", out);
        write_escaped(out, call->text);
        fputc('"', out);
    }
    if (call->about != NULL) fprintf(out, ",\"about\":%s", call->about);
    fputs("}},\n", out);
    fclose(out);
    if (line != NULL && write(file, line, length) != (ssize_t)length) {
        /* A full disk costs the record, not the program. */
    }
    free(line);
}
