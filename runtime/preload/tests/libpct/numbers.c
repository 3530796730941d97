// Programs that use the very signal numbers that the sampler has: each must behave as it does alone. Status 0: it did.
#define _GNU_SOURCE
#include "spin.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int hits;
static void *volatile where;
static void hit(int s) { (void)s; int here; where = &here; hits++; }

static int set(int number, int flags) {
    struct sigaction a = {.sa_handler = hit, .sa_flags = flags}, back;
    sigaddset(&a.sa_mask, SIGUSR2);
    if (sigaction(number, NULL, &back) || back.sa_handler != SIG_DFL) return 1;
    if (sigaction(number, &a, &back) || back.sa_handler != SIG_DFL) return 1;
    if (sigaction(number, NULL, &back) || back.sa_handler != hit) return 1;
    if ((back.sa_flags & (SA_ONSTACK | SA_RESTART | SA_SIGINFO)) != flags) return 1;
    return sigismember(&back.sa_mask, SIGUSR2) != 1;
}

// A handler without SA_ONSTACK runs on the ordinary stack, not on the small alternate one.
static int ordinary_stack(int number) {
    char *low = malloc(16384);
    stack_t alternate = {.ss_sp = low, .ss_size = 16384};
    spin(0.05);
    if (sigaltstack(&alternate, NULL) || set(number, 0)) return 2;
    spin(0.2);
    raise(number);
    if (hits != 1) return 3;
    return (char *)where >= low && (char *)where < low + 16384 ? 4 : 0;
}

static volatile int through;
static pthread_t reader;
static void *sends(void *number) {
    while (!through) {
        pthread_kill(reader, (int)(intptr_t)number);
        // Without a rest the reader may get signals faster than it handles them, and never come to its read.
        usleep(1000);
    }
    return NULL;
}

// A handler without SA_RESTART ends a read.
static int ends_a_read(int number) {
    pthread_t t;
    int ends[2];
    char byte;
    spin(0.05);
    if (pipe(ends) || set(number, 0)) return 2;
    spin(0.1);
    reader = pthread_self();
    if (pthread_create(&t, NULL, sends, (void *)(intptr_t)number)) return 2;
    alarm(20); // as a mark of the fault: it ends the program
    ssize_t got = read(ends[0], &byte, 1);
    int error = errno;
    through = 1;
    pthread_join(t, NULL);
    return got != -1 || error != EINTR;
}

// Timers of its own, by a handler and by waiting.
static int timers(int number) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number, .sigev_value.sival_int = 42};
    struct itimerspec often = {{0, 2000000}, {0, 2000000}}, never = {{0, 0}, {0, 0}};
    timer_t timer;
    sigset_t one;
    siginfo_t info;
    spin(0.05);
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_BLOCK, &one, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL)) return 2;
    for (int i = 0; i < 5; i++) {
        if (sigwaitinfo(&one, &info) != number || info.si_code != SI_TIMER || info.si_value.sival_int != 42) return 3;
    }
    if (set(number, 0)) return 4;
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    double end = cpu() + 10;
    while (hits < 20 && cpu() < end) spin(0.01);
    timer_settime(timer, 0, &never, NULL);
    return hits < 20;
}

// Waits for a number by a descriptor, while another thread works.
static int by_descriptor(int number) {
    sigset_t one;
    struct signalfd_siginfo info;
    spin(0.05);
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_BLOCK, &one, NULL);
    int fd = signalfd(-1, &one, 0);
    if (fd < 0) return 2;
    spin(0.1);
    kill(getpid(), number);
    alarm(20);
    return read(fd, &info, sizeof info) != sizeof info || info.ssi_signo != (unsigned)number || info.ssi_code != SI_USER;
}

// What was sent before there was a handler is there when there is one, and nothing else.
static int waiting_signals(int number) {
    sigset_t one;
    spin(0.05);
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_BLOCK, &one, NULL);
    spin(0.05);
    int sent = number >= SIGRTMIN ? 3 : 1;
    for (int i = 0; i < sent; i++) sigqueue(getpid(), number, (union sigval){.sival_int = i});
    if (set(number, 0)) return 2;
    if (hits) return 3;
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    if (hits != sent) return 4;
    spin(0.1);
    return hits != sent;
}

static void *works(void *unused) { (void)unused; while (!through) spin(0.001); return NULL; }

// Takes and gives back number after number while threads work: no signal of the sampler's is ever seen.
static int takes_and_gives_back(void) {
    pthread_t t[4];
    spin(0.02);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&t[i], NULL, works, NULL)) return 2;
    for (int round = 0; round < 20; round++) {
        for (int s = 64; s > 0; s--) {
            if (s == SIGKILL || s == SIGSTOP || s == 32 || s == 33) continue;
            signal(s, hit);
            if (s % 8 == 0) spin(0.0005);
        }
        spin(0.002);
        for (int s = 64; s > 0; s--)
            if (s != SIGKILL && s != SIGSTOP && s != 32 && s != 33) signal(s, SIG_DFL);
        spin(0.002);
    }
    through = 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    return hits;
}

// A child of vfork resets all signals in a table of its own: its parent keeps what it has.
static int resets_in_a_vfork_child(int number) {
    spin(0.05);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (!child) {
            for (int s = 1; s < 65; s++) signal(s, s == number ? SIG_IGN : SIG_DFL);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 2;
        spin(0.01);
    }
    return 0;
}

// Takes a number, then forks.
static int takes_and_forks(int number) {
    spin(0.05);
    if (set(number, 0)) return 2;
    pid_t child = fork();
    spin(0.2);
    if (!child) _exit(hits);
    int status;
    return waitpid(child, &status, 0) != child || status || hits;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(mode, "stack")) return ordinary_stack(number);
    if (!strcmp(mode, "read")) return ends_a_read(number);
    if (!strcmp(mode, "timers")) return timers(number);
    if (!strcmp(mode, "descriptor")) return by_descriptor(number);
    if (!strcmp(mode, "waiting")) return waiting_signals(number);
    if (!strcmp(mode, "back")) return takes_and_gives_back();
    if (!strcmp(mode, "vfork")) return resets_in_a_vfork_child(number);
    if (!strcmp(mode, "fork")) return takes_and_forks(number);
    return 9;
}
