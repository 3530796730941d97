/* build: cc -O2 -g
 * calls SECONDS: computes for so much CPU time and asks for the time every fifteen microseconds or so, by a system call of a
 * fraction of one. Prints how much of it it computed, and how much the calls took by what one of them costs at the end:
 * truth NAME SECONDS */
#define _GNU_SOURCE
#include <stdio.h>
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
    double start = cpu(), end = start + (argc > 1 ? atof(argv[1]) : 1), now = start;
    long rounds = 0;
    for (; now < end; rounds++) {
        computes(3000);
        now = cpu();
    }
    double from = cpu(), calls;
    for (int i = 0; i < 20000; i++) cpu();
    double one = (cpu() - from) / 20000;
    /* those of the measurement too */
    calls = (rounds + 20000) * one;
    printf("truth computes %.6f\ntruth calls %.6f\n", now - start - rounds * one, calls);
    return 0;
}
