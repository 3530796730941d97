/* births: from the first octet on stdin on, the main thread computes for one second of its CPU time and makes a thread every
 * fifth of a millisecond, which ends at once. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void burn_until(double end) {
    volatile double x = 1;
    while (cpu() < end)
        for (int i = 0; i < 2000; i++) x = x * 1.00001 + 1;
}
static void *nothing(void *p) { return p; }
int main(void) {
    getchar();
    double end = cpu() + 1.0;
    while (cpu() < end) {
        burn_until(cpu() + 0.0002);
        pthread_t t;
        if (pthread_create(&t, 0, nothing, 0)) return 1;
        pthread_join(t, 0);
    }
    return 0;
}
