/* build: cc -O2 -g
 * calls SECONDS: computes for so much CPU time and asks for the time every fifteen microseconds or so, by a system call of a
 * fraction of one. Prints its CPU seconds, and those of them in the kernel. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double cpu(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) void computes(int n) {
    volatile double x = 1;
    for (int i = 0; i < n; i++) x = x * 1.00001 + 1;
}

int main(int argc, char **argv) {
    double end = cpu() + (argc > 1 ? atof(argv[1]) : 1);
    while (cpu() < end) computes(3000);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double system = used.ru_stime.tv_sec + used.ru_stime.tv_usec * 1e-6;
    printf("%.3f %.3f\n", used.ru_utime.tv_sec + used.ru_utime.tv_usec * 1e-6 + system, system);
    return 0;
}
