#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "worker.h"

int report(const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "ane_open: %s\n", line); /* One call, so that lines of several threads stay whole. */
    return -1;
}

int keep_above_standard(int descriptor) {
    if (descriptor < 0 || descriptor > WORKER_END) return descriptor;
    const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, WORKER_END + 1), reason = errno;
    close(descriptor);
    errno = reason;
    return moved;
}
