#define _GNU_SOURCE
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

#define VARIABLE "ANEFORGE_TRACE"

/* A record is a list of JSON objects at any time: each call is written over its end, with the end after it. */
#define END "\n]\n"
#define END_LENGTH ((off_t)sizeof END - 1)

static int file = -1;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) { pthread_mutex_lock(&writing); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&writing); }
static void after_fork_in_child(void) { pthread_mutex_init(&writing, NULL); }

/* Continues a record, or begins one; a file that is something else is left alone. */
static void open_file(void) {
    const char *path = getenv(VARIABLE);
    char first = '[';
    if (path == NULL || *path == '\0') return;
    file = keep_above_standard(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (file < 0) {
        report(VARIABLE ": %s: %s", path, strerror(errno));
        return;
    }
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    const ssize_t got = pread(file, &first, 1, 0);
    struct stat about;
    if (got == 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) return;
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

/* Lets no other process write, or lets them again. Threads of this one are kept out by the mutex. */
static void keep_out_others(short kind) {
    struct flock whole = {.l_type = kind, .l_whence = SEEK_SET};
    while (fcntl(file, F_SETLKW, &whole) != 0 && errno == EINTR) {
    }
}

/* Writes a call, which has the end of the record after it. A full disk costs the record, not the program. */
static void append(const char *text, size_t length) {
    char last[sizeof END - 1] = {0};
    struct stat about;
    pthread_mutex_lock(&writing);
    keep_out_others(F_WRLCK);
    if (fstat(file, &about) == 0) {
        off_t at = about.st_size;
        const ssize_t got = at < END_LENGTH ? 0 : pread(file, last, sizeof last, at - END_LENGTH);
        const int ended = got == END_LENGTH && memcmp(last, END, sizeof last) == 0;
        if (ended) at -= END_LENGTH;
        /* A record without an end was cut off, perhaps after a call. */
        const char *before = at == 0 ? "[\n" : ended || last[END_LENGTH - 1] != '\n' ? ",\n" : "";
        const off_t begin = at + (off_t)strlen(before);
        if (pwrite(file, before, strlen(before), at) < 0 || pwrite(file, text, length, begin) < 0) {
        }
    }
    keep_out_others(F_UNLCK);
    pthread_mutex_unlock(&writing);
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
    fputs("}}" END, out);
    fclose(out);
    if (line != NULL) append(line, length);
    free(line);
}
