// What the victims burn CPU time with.
#ifndef SPIN_H
#define SPIN_H

#include <time.h>

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// Spins until the thread has used `seconds` more of CPU time.
__attribute__((noinline)) static void spin(double seconds) {
    double end = cpu() + seconds;
    static __thread volatile double x;
    while (cpu() < end)
        for (int i = 0; i < 20000; i++) x += i;
}

#endif
