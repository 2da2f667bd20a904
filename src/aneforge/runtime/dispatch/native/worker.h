/* The worker: the process that holds the engine. One serves one client process; it starts at the first request and ends
 * with the client, because its sockets end then.
 *
 * A request takes a channel for as long as it is under way, so as many are open as requests ever ran at once, whatever
 * the number of programs. In the worker a thread serves each channel.
 *
 * What a message is: a length (u32), a code (u32), the rest. What an answer is: a length (u32), a status (i32), a
 * text for a person, or none, and behind a zero byte what a record of calls says of a program.
 */

#ifndef ANE_OPEN_WORKER_H
#define ANE_OPEN_WORKER_H

#include <stdint.h>

#include "bytes.h"

/* The descriptor by which a worker finds its end of the first socket. */
#define WORKER_END 3

enum request {
    REQUEST_COMPILE = 1,
    REQUEST_EXECUTE = 2,
    REQUEST_SHARE = 3,
    REQUEST_RELEASE = 4,
    REQUEST_CHECK = 5,
    REQUEST_LEND = 6,
};

/* Which worker: a number that is never used twice in a process, nor by a child of it. 0 where there is none. */
typedef uint64_t worker_number;

/* The worker that runs now, started if `start` is set. 0 if there is none, or it cannot be started; then a message was
 * printed. */
worker_number worker_running(int start);

/* Asks a worker, and waits for its answer. `memory` is a descriptor that goes with the message, or -1. What the worker
 * says to a person is printed; what it says for records is given in `said`, to be freed, where that is not NULL. A
 * worker that is not there any more gives -1. */
int worker_ask(worker_number number, enum request code, const struct bytes *message, int memory, char **said);

#endif
