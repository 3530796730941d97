// A thread blocks all signals and works; the first thread waits for the end of its standard input.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
static volatile unsigned long work_done;
static void *work(void *unused) {
    for (;;) work_done++;
    return unused;
}
int main(void) {
    sigset_t all, old;
    pthread_t t;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&t, NULL, work, NULL)) return 1;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    getchar();
    return 0;
}
