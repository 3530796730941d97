/* build: cc -O2 -g
 * calls SECONDS: computes for so much CPU time and asks for the time every fifteen microseconds or so, by a system call of a
 * fraction of one. */
#define _GNU_SOURCE
#include <stdlib.h>
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
    return 0;
}
