/* Shared by the victims: functions that burn CPU and a truth that they count themselves.
 *
 * Each function named by BURNER(f) does units of the same work; its CPU time is read from the thread's CPU clock at entry
 * and exit, so a victim knows to the microsecond what a profiler should say. `truth_print` prints one line a function:
 *     truth NAME CPU_SECONDS
 */
#ifndef BURN_H
#define BURN_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double thread_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* CPU seconds that a look at the clock takes. On some machines (emulated kernels, filters, tracing) it is as long as a
 * unit of work, and it is the kernel's time: no function's. */
static double clock_cost = 1;
__attribute__((constructor)) static void measure_clock_cost(void) {
    for (int i = 0; i < 8; i++) {
        double before = thread_cpu(), took = thread_cpu() - before;
        if (took < clock_cost) clock_cost = took;
    }
}

struct truth { const char *name; double seconds; };

/* burns about `units` x 0.05 ms without a call, so that all its time has this function's name */
#define BURNER(f)                                                                                    \
    static struct truth f##_truth = {#f, 0};                                                         \
    __attribute__((noinline)) uint64_t f(double units, double *seconds) {                            \
        double t0 = thread_cpu() + clock_cost;                                                       \
        uint64_t x = (uint64_t)units * 2654435761u + 88172645463325252u;                             \
        for (long n = (long)(units * 30000); n > 0; n--) {                                           \
            x ^= x << 13; x ^= x >> 7; x ^= x << 17;                                                 \
        }                                                                                            \
        *seconds += thread_cpu() - t0;                                                               \
        return x;                                                                                    \
    }

#define TRUTH(f, s) printf("truth %s %.6f\n", #f, (s))
static volatile uint64_t burn_sink;
#endif
