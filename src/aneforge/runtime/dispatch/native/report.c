#include "report.h"

#include <stdarg.h>
#include <stdio.h>

int report(const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "ane_open: %s\n", line); /* One call, so that lines of several threads stay whole. */
    return -1;
}
