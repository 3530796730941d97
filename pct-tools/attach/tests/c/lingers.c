/* lingers alt|own read|spin: a second thread waits, and handles signal 35 on a stack of its own (alt) or on top of whatever stack
 * it is on (own); the handler makes the file "in" and then blocks in read (until there is an octet in "fifo") or spins (until there
 * is a file "go"). The main thread sleeps in sigsuspend until it gets SIGUSR1, then in poll. SIGTERM ends it: it prints what it
 * found, and how often it was sent signal 35.
 * No wake-up can be lost: a signal that comes between the look at `stop` and the wait is still blocked (sigsuspend), or its handler
 * has written to the pipe that both threads poll. (A loop of pause or of poll without a pipe sleeps for ever then.)
 * cc -O2 -pthread -Wl,-z,now: binding by need would use stack below the handler */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile sig_atomic_t stop, awake;
static int alt, spin, fifo, bad, signals, ended[2];
static char other[65536];
static void on_term(int s) { (void)s; stop = 1; bad += write(ended[1], "", 1) != 1; }
static void wait_for_end(void) { poll(&(struct pollfd){.fd = ended[0], .events = POLLIN}, 1, -1); }
static void on_wake(int s) { (void)s; awake = 1; }
static void on_signal(int s) {
    (void)s;
    /* its frame reaches down to the low end of a page: of the mapping, on a stack that had to grow for it */
    unsigned long here = (unsigned long)__builtin_frame_address(0);
    volatile unsigned char mine[4096 + ((here - 1000) & 4095)];
    for (unsigned i = 0; i < sizeof mine; i++) mine[i] = i % 251;
    signals++;
    close(open("in", O_CREAT | O_WRONLY, 0600));
    char c;
    if (!spin) bad += read(fifo, &c, 1) != 1;
    else while (access("go", F_OK)) for (volatile int i = 0; i < 1000000; i++);
    for (unsigned i = 0; i < sizeof mine; i++) bad += mine[i] != i % 251;
}
static void *work(void *p) {
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    if (alt) sigaltstack(&stack, 0);
    unsigned long a = 1, b = 2, c = 3, d = (unsigned long)p;
    while (!stop) {
        a += 1, b += 2, c += 3, d += 4;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
        wait_for_end();
        if (b != 2 * a || c != 3 * a || d != 4 * (a - 1) + (unsigned long)p) bad++;
    }
    return 0;
}
int main(int argc, char **argv) {
    if (argc != 3) return 2;
    alt = !strcmp(argv[1], "alt"), spin = !strcmp(argv[2], "spin");
    if (!spin && (fifo = open("fifo", O_RDWR)) < 0) return 2;
    if (pipe(ended)) return 2;
    sigset_t ours, before;
    sigemptyset(&ours), sigaddset(&ours, SIGTERM), sigaddset(&ours, SIGUSR1);
    /* the other thread inherits this: both signals are the main thread's */
    sigprocmask(SIG_BLOCK, &ours, &before);
    signal(SIGTERM, on_term);
    signal(SIGUSR1, on_wake);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(35, &action, 0);
    pthread_t t;
    if (pthread_create(&t, 0, work, on_term)) return 2;
    while (!awake && !stop) sigsuspend(&before);
    sigprocmask(SIG_SETMASK, &before, 0);
    while (!stop) wait_for_end();
    pthread_join(t, 0);
    printf("bad %d signals %d\n", bad, signals);
    return bad != 0;
}
