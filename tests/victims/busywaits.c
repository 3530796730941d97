/* build: cc -O2 -g -pthread
 * busywaits SECONDS [THREADS]: six threads (or so many) that compute and wait in turn; the first and the second in epoll_wait, two in poll and nanosleep, two
 * nearly always compute. Prints "eintr N": how many of the waits ended in EINTR. No signal has a handler. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

static double end;
static atomic_long eintr, waits;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void compute(long n) {
    volatile long x = 0;
    for (long i = 0; i < n; i++) x += i;
}
static void *thread(void *number) {
    struct epoll_event e;
    struct timespec t = {0, 1000000};
    int r, fd = epoll_create1(0);
    while (now() < end) {
        compute(30000);
        switch ((long)number) {
        case 0: case 1: r = epoll_wait(fd, &e, 1, 1); break;
        case 2: r = poll(0, 0, 1); break;
        case 3: r = nanosleep(&t, 0); break;
        default: compute(300000); r = 0;
        }
        if (r < 0 && errno == EINTR) eintr++;
        waits++;
    }
    return 0;
}
int main(int argc, char **argv) {
    pthread_t threads[6];
    int count = argc > 2 ? atoi(argv[2]) : 6;
    end = now() + atof(argv[1]);
    for (long i = 1; i < count; i++) pthread_create(&threads[i], 0, thread, (void *)i);
    puts("started");
    fflush(stdout);
    thread(0);
    for (int i = 1; i < count; i++) pthread_join(threads[i], 0);
    printf("eintr %ld of %s\n", (long)eintr, waits > 100 ? "many" : "few");
    return 0;
}
