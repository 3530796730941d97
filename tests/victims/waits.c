/* build: cc -O2 -g -pthread
 * waits SECONDS: six threads, one spins, the others wait in epoll_wait, nanosleep, a condition, a socket with a receive timeout,
 * and (the first) poll. Prints how often a call ended in EINTR, and how often each came back. Exit status 5; SIGTERM ends it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

static atomic_int stop;
static atomic_long eintr, rounds[3];

static void heard(int r) { if (r < 0 && errno == EINTR) eintr++; }

__attribute__((noinline)) void *spins(void *a) {
    volatile double x = 1;
    while (!stop) x = x * 1.0000001 + 1;
    return a;
}
/* a chain of callers, so that there is a stack to see */
__attribute__((noinline)) int epolls(int fd, int depth) {
    struct epoll_event e;
    volatile char frame[64];
    frame[depth] = 1;
    int r = depth ? epolls(fd, depth - 1) : epoll_wait(fd, &e, 1, 50);
    return r + frame[depth] - 1;
}
static void *by_epoll(void *a) {
    int fd = epoll_create1(0);
    for (; !stop; rounds[0]++) heard(epolls(fd, 3));
    return a;
}
__attribute__((noinline)) void naps(void) {
    struct timespec t = {0, 20000000};
    heard(nanosleep(&t, 0));
}
static void *by_nanosleep(void *a) {
    for (; !stop; rounds[1]++) naps();
    return a;
}
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
__attribute__((noinline)) void *waits_for_condition(void *a) {
    pthread_mutex_lock(&lock);
    while (!stop) pthread_cond_wait(&wake, &lock);
    pthread_mutex_unlock(&lock);
    return a;
}
__attribute__((noinline)) void *receives(void *a) {
    int s[2];
    char c;
    struct timeval limit = {0, 70000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) return a;
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (; !stop; rounds[2]++) heard((int)recv(s[0], &c, 1, 0));
    return a;
}
static void on_term(int s) { stop = 1 + 0 * s; }
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
int main(int argc, char **argv) {
    void *(*threads[])(void *) = {spins, by_epoll, by_nanosleep, waits_for_condition, receives};
    pthread_t t[5];
    signal(SIGTERM, on_term);
    for (int i = 0; i < 5; i++) pthread_create(&t[i], 0, threads[i], 0);
    printf("started\n");
    fflush(stdout);
    double end = now() + (argc > 1 ? atof(argv[1]) : 1);
    while (!stop && now() < end) poll(0, 0, 100);
    stop = 1;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 5; i++) pthread_join(t[i], 0);
    printf("eintr %ld\nrounds %ld %ld %ld\n", (long)eintr, (long)rounds[0], (long)rounds[1], (long)rounds[2]);
    return 5;
}
