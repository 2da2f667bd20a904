/* Messages for a person. */

#ifndef ANE_OPEN_REPORT_H
#define ANE_OPEN_REPORT_H

/* Prints one line to stderr, with the name of the library before it, and returns -1: what functions give that fail. */
int report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns a descriptor above those by which programs read and print, and the one that a worker starts with, in place of
 * the given one, or -1. Where a client has closed some of them, a new socket or memory would get their numbers, and with
 * them what is printed. */
int keep_above_standard(int descriptor);

#endif
