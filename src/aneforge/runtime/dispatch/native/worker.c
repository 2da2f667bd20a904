#define _GNU_SOURCE
#include "worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "programs.h"
#include "report.h"

#define INTERPRETER_VARIABLE "ANEFORGE_ENGINE_PYTHON"
#define RECORD "libane_open.python"
/* Far more than any answer; a larger one is not an answer. */
#define LONGEST_ANSWER (1u << 20)

/* How long a thread looks for an answer before it sleeps. */
#define SOON_NS 300000L

/* What a worker ends with that has said itself why it cannot start. */
#define SAID_WHY 70

/* What the worker is told to run. Isolated, so nothing of the client's environment or folder reaches it; where the
 * library lies in the package, that package is the one, whatever else has its name. A client sees one line, and no
 * traceback of a program that is not its own. */
static const char *const START = "import sys; sys.path[:0] = sys.argv[1:2]\n"
                                 "try:\n"
                                 "    from aneforge.runtime.dispatch.worker import main\n"
                                 "    main()\n"
                                 "except BaseException as error:\n"
                                 "    why = f'{type(error).__name__} {error}'.partition('\\n')[0].strip()\n"
                                 "    sys.stderr.write(f'ane_open: the engine cannot be started: {why}\\n')\n"
                                 "    sys.exit(70)\n";

extern char **environ;

struct channel {
    int socket;
    struct channel *next;
};

static struct {
    /* Held while sockets are made and handed over, so that no child of a fork keeps one open. */
    pthread_mutex_t lock;
    worker_number number;
    worker_number last;
    int control;
    int answered; /* It has answered once, so it had what it needs to start. */
    struct channel *idle;
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER, .control = -1};

static pthread_once_t prepared = PTHREAD_ONCE_INIT;

/* Forgets the worker: whoever has its number gets no answer any more. The lock is held. */
static void forget(void) {
    while (worker.idle != NULL) {
        struct channel *channel = worker.idle;
        worker.idle = channel->next;
        close(channel->socket);
        free(channel);
    }
    if (worker.control >= 0) close(worker.control);
    worker.control = -1;
    worker.number = 0;
}

static void before_fork(void) {
    programs_before_fork();
    pthread_mutex_lock(&worker.lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&worker.lock);
    programs_after_fork_in_parent();
}

/* A child has no worker until it asks for one. Channels that were in use belong to threads that it does not have; the
 * parent's end stays open in the child until it ends, which no one waits for: the worker's own end is what tells the
 * parent, and the parent's control socket, closed here, is what tells the worker. */
static void after_fork_in_child(void) {
    pthread_mutex_init(&worker.lock, NULL);
    forget();
    programs_after_fork_in_child();
}

static void prepare(void) { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

/* Starting ---------------------------------------------------------------------------------------------------------- */

/* The folder of this library, without a slash at its end. */
static int own_folder(char folder[PATH_MAX]) {
    Dl_info found;
    if (dladdr((void *)START, &found) == 0 || realpath(found.dli_fname, folder) == NULL)
        return report("the folder of the library cannot be found");
    *strrchr(folder, '/') = '\0';
    return 0;
}

/* The interpreter: the environment's, or the one that was recorded beside the library. */
static int find_interpreter(const char *folder, char interpreter[PATH_MAX]) {
    const char *given = getenv(INTERPRETER_VARIABLE);
    if (given != NULL && *given != '\0') {
        snprintf(interpreter, PATH_MAX, "%s", given);
    } else {
        char record[PATH_MAX + sizeof RECORD];
        snprintf(record, sizeof record, "%s/" RECORD, folder);
        FILE *file = fopen(record, "re");
        const char *read = file == NULL ? NULL : fgets(interpreter, PATH_MAX, file);
        if (file != NULL) fclose(file);
        if (read == NULL)
            return report("%s is missing, which names the interpreter of the engine; run `aneforge dispatch-library`, "
                          "or set " INTERPRETER_VARIABLE,
                          record);
        interpreter[strcspn(interpreter, "\n")] = '\0';
    }
    if (access(interpreter, X_OK) != 0)
        return report("the interpreter of the engine cannot be run: %s: %s; run `aneforge dispatch-library`, or set "
                      INTERPRETER_VARIABLE,
                      interpreter, strerror(errno));
    return 0;
}

/* The folder that holds the package which this library belongs to; empty where it lies elsewhere. */
static void find_package(const char *folder, char root[PATH_MAX]) {
    static const char inside[] = "/aneforge/runtime/dispatch";
    const size_t length = strlen(folder), tail = sizeof inside - 1;
    root[0] = '\0';
    if (length > tail && strcmp(folder + length - tail, inside) == 0)
        snprintf(root, PATH_MAX, "%.*s", (int)(length - tail), folder);
}

/* Runs the interpreter with one end of a socket. It goes its own way at once (its first process ends), so a client's
 * own children are never mixed with it. */
static int spawn(const char *interpreter, const char *root, int end) {
    char *const arguments[] = {(char *)interpreter, "-I", "-c", (char *)START, (char *)root, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t process = 0;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (fcntl(STDERR_FILENO, F_GETFD) < 0) /* A client may have closed it. */
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, end, WORKER_END);
    /* A group of its own: what a terminal sends to the client's, such as Ctrl-C, is for the client. */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    const int error = posix_spawn(&process, interpreter, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) return report("the engine cannot be started: %s: %s", interpreter, strerror(error));
    int ended = 0; /* It stays so where the client's own handling of children takes the status away. */
    while (waitpid(process, &ended, 0) < 0 && errno == EINTR) continue;
    if (ended == 0) return 0;
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == SAID_WHY) return -1;
    return report("the engine cannot be started: %s ended with %s %d", interpreter,
                  WIFSIGNALED(ended) ? "signal" : "code", WIFSIGNALED(ended) ? WTERMSIG(ended) : WEXITSTATUS(ended));
}

/* Two sockets that are one another's ends, none of which is WORKER_END: dup2 onto itself keeps close-on-exec. */
static int make_pair(int pair[2]) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return -1;
    pair[0] = keep_above_standard(pair[0]);
    pair[1] = keep_above_standard(pair[1]);
    if (pair[0] >= 0 && pair[1] >= 0) return 0;
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0) close(pair[i]);
    return -1;
}

static int start(void) {
    char folder[PATH_MAX], interpreter[PATH_MAX], root[PATH_MAX];
    int pair[2];
    if (own_folder(folder) != 0 || find_interpreter(folder, interpreter) != 0) return -1;
    find_package(folder, root);
    if (make_pair(pair) != 0) return report("the engine cannot be reached: %s", strerror(errno));
    const int status = spawn(interpreter, root, pair[1]);
    close(pair[1]);
    if (status != 0) {
        close(pair[0]);
        return -1;
    }
    worker.control = pair[0];
    worker.answered = 0;
    worker.number = ++worker.last;
    return 0;
}

/* Whether the worker has ended: it sends nothing over the first socket, so all that can come there is its end. */
static int has_ended(void) {
    char byte;
    const ssize_t got = recv(worker.control, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

worker_number worker_running(int wanted) {
    pthread_once(&prepared, prepare);
    pthread_mutex_lock(&worker.lock);
    if (worker.number != 0 && wanted && has_ended()) forget();
    if (worker.number == 0 && wanted) start();
    const worker_number number = worker.number;
    pthread_mutex_unlock(&worker.lock);
    return number;
}

/* Messages ---------------------------------------------------------------------------------------------------------- */

/* Sends everything, the descriptor with the first byte. */
static int send_all(int socket, const void *data, size_t length, int descriptor) {
    const uint8_t *from = data;
    while (length > 0) {
        struct iovec part = {.iov_base = (void *)from, .iov_len = length};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        union {
            char room[CMSG_SPACE(sizeof(int))];
            struct cmsghdr aligned;
        } control;
        if (descriptor >= 0) {
            message.msg_control = control.room;
            message.msg_controllen = sizeof control.room;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof descriptor);
            memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
        }
        const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return -1;
        descriptor = -1;
        from += sent;
        length -= (size_t)sent;
    }
    return 0;
}

/* Most answers come at once: a thread that looks for one is not woken late. */
static ssize_t receive_soon(int socket, void *to, size_t length) {
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do {
        const ssize_t got = recv(socket, to, length, MSG_DONTWAIT);
        if (got >= 0 || errno != EAGAIN) return got;
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - began.tv_sec) * 1000000000L + (now.tv_nsec - began.tv_nsec) < SOON_NS);
    return recv(socket, to, length, 0);
}

static int receive_all(int socket, void *data, size_t length) {
    uint8_t *to = data;
    while (length > 0) {
        const ssize_t got = receive_soon(socket, to, length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        to += got;
        length -= (size_t)got;
    }
    return 0;
}

/* A channel to the worker of that number: one that is idle, or a new one. NULL if there is no such worker any more. */
static struct channel *take_channel(worker_number number) {
    pthread_mutex_lock(&worker.lock);
    struct channel *channel = NULL;
    if (number != 0 && number == worker.number) {
        channel = worker.idle;
        if (channel != NULL) {
            worker.idle = channel->next;
        } else if ((channel = malloc(sizeof *channel)) != NULL) {
            int pair[2];
            if (make_pair(pair) != 0) {
                free(channel);
                channel = NULL;
            } else {
                channel->socket = pair[0];
                const int status = send_all(worker.control, "c", 1, pair[1]);
                close(pair[1]);
                if (status != 0) {
                    close(channel->socket);
                    free(channel);
                    channel = NULL;
                    forget();
                }
            }
        }
    }
    pthread_mutex_unlock(&worker.lock);
    return channel;
}

/* Gives a channel back; one that failed means that the worker is gone. Returns whether it ever answered. */
static int return_channel(worker_number number, struct channel *channel, int failed) {
    pthread_mutex_lock(&worker.lock);
    int answered = 1;
    if (number == worker.number) {
        if (failed) {
            answered = worker.answered;
            forget();
        } else {
            worker.answered = 1;
            channel->next = worker.idle;
            worker.idle = channel;
            channel = NULL;
        }
    }
    pthread_mutex_unlock(&worker.lock);
    if (channel != NULL) {
        close(channel->socket);
        free(channel);
    }
    return answered;
}

static int ask_on(int socket, enum request code, const struct bytes *message, int memory, int *status, char **said) {
    uint32_t head[2] = {(uint32_t)(message->length + sizeof(uint32_t)), (uint32_t)code};
    struct {
        uint32_t length;
        int32_t status;
    } answer;
    if (message->length <= 64) { /* What is asked often goes out in one call. */
        uint8_t whole[sizeof head + 64];
        memcpy(whole, head, sizeof head);
        memcpy(whole + sizeof head, message->data, message->length);
        if (send_all(socket, whole, sizeof head + message->length, memory) != 0) return -1;
    } else if (send_all(socket, head, sizeof head, memory) != 0 ||
               send_all(socket, message->data, message->length, -1) != 0) {
        return -1;
    }
    if (receive_all(socket, &answer, sizeof answer) != 0) return -1;
    const uint32_t length = answer.length - (uint32_t)sizeof answer.status;
    if (length > LONGEST_ANSWER) return -1;
    *status = answer.status;
    if (length == 0) return 0;
    char *text = malloc(length + 1);
    if (text == NULL || receive_all(socket, text, length) != 0) {
        free(text);
        return -1;
    }
    text[length] = '\0';
    if (*text != '\0') report("%s", text);
    const size_t shown = strlen(text) + 1;
    if (said != NULL && shown < length) *said = strdup(text + shown);
    free(text);
    return 0;
}

int worker_ask(worker_number number, enum request code, const struct bytes *message, int memory, char **said) {
    if (message->failed || message->length > UINT32_MAX / 2) return report("the request is too large");
    struct channel *channel = take_channel(number);
    if (channel == NULL) return report("the engine's process has ended, and its programs with it");
    int status = -1;
    const int failed = ask_on(channel->socket, code, message, memory, &status, said) != 0;
    const int answered = return_channel(number, channel, failed);
    if (!failed) return status;
    if (answered) return report("the engine's process ended during the request");
    return report("the engine's process ended before its first answer; it needs memory for Python with NumPy");
}
