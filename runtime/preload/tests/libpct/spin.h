// What the victims burn CPU time with.
#ifndef SPIN_H
#define SPIN_H

#include <time.h>

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// Spins until the thread has used `seconds` more of CPU time. It looks at its clock each millisecond or, if that is
// shorter, 16 times: on some machines a system call takes as long as many thousand additions, and it is system time.
__attribute__((noinline)) static void spin(double seconds) {
    static __thread volatile double x;
    double now = cpu(), end = now + seconds, piece = seconds < 0.016 ? seconds / 16 : 0.001;
    for (int rounds = 2000; now < end;) {
        for (int i = 0; i < rounds; i++) x += i;
        double before = now;
        now = cpu();
        if (now - before < piece / 2) rounds *= 2;
        if (now - before > piece) rounds = rounds / 2 + 1;
    }
}

#endif
