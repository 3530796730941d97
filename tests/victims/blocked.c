/* build: cc -O2 -g -pthread
 *
 * Threads that do not run, each for one cause, and that measure it themselves. `causes`: each thread makes one call that
 * blocks until main lets it go on; main does so some time after all of them are asleep in the kernel. `queue`: three
 * threads share one processor until each has used half a second of it.
 *
 * A line of truth is: truth TID CAUSE SECONDS (with `_` for blanks): how long the thread was in the call, or how long it
 * waited for the processor by the kernel's figure. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Ends of which nobody writes to the other one before main does. */
static int pipe_ends[2], polled[2], epolled[2], selected[2], childs[2], sockets[2], event, timer, terminal;
static sem_t semaphore;
static _Atomic int go;

static void by_futex(void) { sem_wait(&semaphore); }
static void by_pipe(void) { char c; if (read(pipe_ends[0], &c, 1) != 1) abort(); }
static void by_socket(void) { char c; if (recv(sockets[0], &c, 1, 0) != 1) abort(); }
static void by_event(void) { uint64_t n; if (read(event, &n, 8) != 8) abort(); }
static void by_timer(void) { uint64_t n; if (read(timer, &n, 8) != 8) abort(); }
static void by_terminal(void) { char c; if (read(terminal, &c, 1) != 1) abort(); }
static void by_poll(void) { struct pollfd p[2] = {{polled[0], POLLIN, 0}, {sockets[0], 0, 0}}; poll(p, 2, -1); }
static void by_poll_of_one(void) { struct pollfd p = {polled[0], POLLIN, 0}; poll(&p, 1, -1); }
static void by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(selected[0], &set);
    select(selected[0] + 1, &set, 0, 0, 0);
}
static void by_epoll(void)
{
    int e = epoll_create1(0);
    struct epoll_event what = {EPOLLIN, {0}}, got;
    epoll_ctl(e, EPOLL_CTL_ADD, epolled[0], &what);
    epoll_wait(e, &got, 1, -1);
}
static void by_sleep(void)
{
    struct timespec t = {2, 0};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0);
}
static void by_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        char c;
        _exit(read(childs[0], &c, 1) != 1);
    }
    waitpid(child, 0, 0);
}

static struct way {
    void (*block)(void);
    const char *cause;
    _Atomic pid_t tid;
    double blocked;
} ways[] = {
    {by_futex, "futex", 0, 0}, {by_pipe, "read_pipe", 0, 0}, {by_socket, "receive_socket", 0, 0},
    {by_event, "read_eventfd", 0, 0}, {by_timer, "read_timerfd", 0, 0}, {by_terminal, "read_terminal", 0, 0},
    {by_poll, "poll", 0, 0}, {by_poll_of_one, "poll_pipe", 0, 0}, {by_select, "select", 0, 0}, {by_epoll, "epoll", 0, 0},
    {by_sleep, "sleep", 0, 0}, {by_child, "child", 0, 0},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void *blocks(void *argument)
{
    struct way *way = argument;
    way->tid = gettid();
    double from = seconds(CLOCK_MONOTONIC);
    way->block();
    way->blocked = seconds(CLOCK_MONOTONIC) - from;
    return 0;
}

/* Waits until a thread sleeps in the kernel. */
static void await_sleep(pid_t tid)
{
    char path[64], text[64];
    sprintf(path, "/proc/self/task/%d/syscall", (int)tid);
    for (;; usleep(1000)) {
        FILE *f = fopen(path, "r");
        char *line = f ? fgets(text, sizeof text, f) : 0;
        if (f)
            fclose(f);
        if (line && strncmp(text, "running", 7))
            return;
    }
}

static int causes(void)
{
    pthread_t t[WAYS];
    sem_init(&semaphore, 0, 0);
    if (pipe(pipe_ends) || pipe(polled) || pipe(epolled) || pipe(selected) || pipe(childs) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        return 3;
    event = eventfd(0, 0);
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master))
        return 3;
    terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    for (int i = 0; i < WAYS; i++)
        pthread_create(&t[i], 0, blocks, &ways[i]);
    for (int i = 0; i < WAYS; i++) {
        while (!ways[i].tid)
            usleep(1000);
        await_sleep(ways[i].tid);
    }
    usleep(1500000);
    struct itimerspec at_once = {{0, 0}, {0, 1}};
    uint64_t one = 1;
    sem_post(&semaphore);
    timerfd_settime(timer, 0, &at_once, 0);
    if (write(pipe_ends[1], "x", 1) < 1 || write(polled[1], "x", 1) < 1 || write(epolled[1], "x", 1) < 1 ||
        write(selected[1], "x", 1) < 1 || write(childs[1], "x", 1) < 1 || write(sockets[1], "x", 1) < 1 || write(event, &one, 8) < 8 ||
        write(master, "x\n", 2) < 2)
        return 3;
    for (int i = 0; i < WAYS; i++)
        pthread_join(t[i], 0);
    for (int i = 0; i < WAYS; i++)
        printf("truth %d %s %.6f\n", (int)ways[i].tid, ways[i].cause, ways[i].blocked);
    return 0;
}

/* --- queue --- */

static void *shares_a_processor(void *unused)
{
    (void)unused;
    while (!go)
        usleep(1000);
    static _Thread_local volatile long n;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < 0.5)
        for (int i = 0; i < 10000; i++)
            n++;
    unsigned long long queued = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (!f || fscanf(f, "%*u %llu", &queued) != 1)
        abort();
    fclose(f);
    printf("truth %d run_queue %.6f\n", (int)gettid(), queued * 1e-9);
    return 0;
}

static int queue(void)
{
    pthread_t t[3];
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    int first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], 0, shares_a_processor, 0);
    go = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], 0);
    return 0;
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    return !strcmp(mode, "causes") ? causes() : !strcmp(mode, "queue") ? queue() : 2;
}
