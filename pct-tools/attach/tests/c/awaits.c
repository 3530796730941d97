/* awaits MODE: two threads; the other one waits for a condition that never comes.
 * "signal": the first waits in epoll_wait without an end, until its SIGTERM handler has run in it.
 * "timer": the first has a timer on its CPU time, which expires when spend() is called, and sleeps two seconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t elsewhere, code, sender, expired;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void on_term(int s, siginfo_t *info, void *c) {
    (void)s, (void)c;
    elsewhere = gettid() != getpid();
    code = info->si_code;
    sender = info->si_pid;
}
static void on_expiry(int s) { (void)s; expired++; }
static void *waits(void *a) {
    pthread_mutex_lock(&mutex);
    for (;;) pthread_cond_wait(&never, &mutex);
    return a;
}
/* ten milliseconds of CPU time */
__attribute__((visibility("default"))) int spend(void) {
    struct timespec t;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_nsec < 30000000);
    return 7;
}
int main(int argc, char **argv) {
    struct sigaction term = {.sa_sigaction = on_term, .sa_flags = SA_SIGINFO};
    struct sigaction expiry = {.sa_handler = on_expiry, .sa_flags = SA_RESTART};
    struct epoll_event e;
    pthread_t thread;
    int r;
    sigaction(SIGTERM, &term, 0);
    sigaction(SIGRTMIN + 5, &expiry, 0);
    pthread_create(&thread, 0, waits, 0);
    if (argc > 1 && !strcmp(argv[1], "timer")) {
        struct sigevent to = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 5};
        struct itimerspec once = {.it_value = {0, 15000000}};
        struct timespec nap = {2, 0};
        timer_t timer;
        to._sigev_un._tid = gettid();
        timer_create(CLOCK_THREAD_CPUTIME_ID, &to, &timer);
        timer_settime(timer, 0, &once, 0);
        r = nanosleep(&nap, 0);
        printf("slept %d errno %d\n", r, r ? errno : 0);
        return 0;
    }
    r = epoll_wait(epoll_create1(0), &e, 1, 20000);
    printf("woken %d elsewhere %d code %d sender %d\n", r < 0 && errno == EINTR, elsewhere, code, sender);
    return 0;
}
