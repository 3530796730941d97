/* build: cc -O2 -g -pthread
 * pairs SIZE THREADS THOUSANDS: each thread requests and frees so many thousand blocks in a ring of 64; prints the
 *   nanoseconds of CPU time that a pair took.
 * pairs paced DEPTH: 300 bursts of 4 requests of 4 KiB, below so many calls, with pauses; prints the median nanoseconds
 *   of the first request of a burst (caches are cold) and of the others. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static size_t size;
static long count;

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *pairs(void *to) {
    char *ring[64] = {0};
    double before = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (long i = 0; i < count; i++) {
        char *volatile *place = &ring[i & 63];
        free(*place);
        *place = malloc(size);
    }
    *(double *)to = (seconds(CLOCK_THREAD_CPUTIME_ID) - before) / count * 1e9;
    for (int i = 0; i < 64; i++) free(ring[i]);
    return 0;
}

enum { BURSTS = 300, BURST = 4 };
static double cold[BURSTS], hot[BURSTS * (BURST - 1)];

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

__attribute__((noinline)) static void bursts(int depth) {
    if (depth > 0) {
        bursts(depth - 1);
        __asm__ volatile("");
        return;
    }
    for (int i = 0; i < BURSTS; i++) {
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, 0);
        void *blocks[BURST];
        for (int k = 0; k < BURST; k++) {
            double before = seconds(CLOCK_MONOTONIC);
            blocks[k] = malloc(4096);
            double took = (seconds(CLOCK_MONOTONIC) - before) * 1e9;
            if (k == 0) cold[i] = took;
            else hot[i * (BURST - 1) + k - 1] = took;
        }
        for (int k = 0; k < BURST; k++) free(blocks[k]);
    }
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "paced")) {
        bursts(atoi(argv[2]));
        qsort(cold, BURSTS, sizeof *cold, compare);
        qsort(hot, BURSTS * (BURST - 1), sizeof *hot, compare);
        printf("truth cold %g\ntruth hot %g\n", cold[BURSTS / 2], hot[BURSTS * (BURST - 1) / 2]);
        return 0;
    }
    if (argc != 4) return 2;
    int threads = atoi(argv[2]);
    size = strtoul(argv[1], 0, 10);
    count = atol(argv[3]) * 1000;
    pthread_t all[64];
    double took[64], sum = 0;
    for (int i = 0; i < threads && i < 64; i++) pthread_create(&all[i], 0, pairs, &took[i]);
    for (int i = 0; i < threads && i < 64; i++) {
        pthread_join(all[i], 0);
        sum += took[i];
    }
    printf("truth pair %g\n", sum / threads);
    return 0;
}
