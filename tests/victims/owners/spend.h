/* Calls a function until it has used so many seconds of this thread's CPU time, and prints how many. */
#include <stdio.h>
#include <time.h>

static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void spend(const char *name, void (*work)(void), double seconds) {
    double start = thread_seconds();
    while (thread_seconds() - start < seconds) {
        work();
    }
    printf("truth %s %f\n", name, thread_seconds() - start);
}
