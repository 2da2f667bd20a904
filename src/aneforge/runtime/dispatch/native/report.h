/* Messages for a person. */

#ifndef ANE_OPEN_REPORT_H
#define ANE_OPEN_REPORT_H

/* Prints one line to stderr, with the name of the library before it, and returns -1: what functions give that fail. */
int report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
