/* lingers alt|own read|spin: a second thread waits, and handles signal 35 on a stack of its own (alt) or on top of whatever stack
 * it is on (own); the handler makes the file "in" and then blocks in read (until there is an octet in "fifo") or spins (until there
 * is a file "go"). The main thread sleeps in pause until it gets SIGUSR1, then in poll. SIGTERM ends it: it prints what it found, and
 * how often it was sent signal 35.
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
static int alt, spin, fifo, bad, signals;
static char other[65536];
static void on_term(int s) { (void)s; stop = 1; }
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
        poll(0, 0, -1);
        if (b != 2 * a || c != 3 * a || d != 4 * (a - 1) + (unsigned long)p) bad++;
    }
    return 0;
}
int main(int argc, char **argv) {
    if (argc != 3) return 2;
    alt = !strcmp(argv[1], "alt"), spin = !strcmp(argv[2], "spin");
    if (!spin && (fifo = open("fifo", O_RDWR)) < 0) return 2;
    signal(SIGTERM, on_term);
    signal(SIGUSR1, on_wake);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(35, &action, 0);
    pthread_t t;
    if (pthread_create(&t, 0, work, on_term)) return 2;
    while (!awake && !stop) pause();
    while (!stop) poll(0, 0, -1);
    pthread_kill(t, SIGUSR1);
    pthread_join(t, 0);
    printf("bad %d signals %d\n", bad, signals);
    return bad != 0;
}
