/* Four threads that allocate, fill, check and free without end; SIGTERM ends it. Prints what it found, and how often it was
 * sent signal 35.
 * cc -O2 -pthread; -DHANDLES: it has handlers for the signals that do nothing by default; SIGUSR2: it executes itself anew */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile sig_atomic_t stop;
static int bad;
static unsigned long signals;
static void on_term(int s) { (void)s; stop = 1; }
static void on_signal(int s) { (void)s; __atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED); }
static void on_exec(int s) {
    (void)s;
    execl("/proc/self/exe", "mallocs", (char *)0);
    _exit(3);
}
static void *work(void *a) {
    unsigned x = (unsigned)(long)a * 2654435761u + 1;
    unsigned char *kept[64] = {0};
    size_t size[64] = {0};
    while (!stop) {
        x ^= x << 13; x ^= x >> 17; x ^= x << 5;
        unsigned i = x & 63;
        if (kept[i]) {
            for (size_t k = 0; k < size[i]; k++) if (kept[i][k] != (unsigned char)(i + size[i])) { __atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED); break; }
            free(kept[i]);
        }
        size[i] = (x >> 8) % 5000 + 1;
        kept[i] = malloc(size[i]);
        memset(kept[i], (unsigned char)(i + size[i]), size[i]);
    }
    return 0;
}
int main(void) {
    signal(SIGTERM, on_term);
    signal(35, on_signal);
    signal(SIGUSR2, on_exec);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0); /* it was executed in a handler */
#ifdef HANDLES
    signal(SIGURG, on_signal);
    signal(SIGWINCH, on_signal);
#endif
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    printf("bad %d signals %lu\n", bad, __atomic_load_n(&signals, __ATOMIC_RELAXED));
    return bad != 0;
}
