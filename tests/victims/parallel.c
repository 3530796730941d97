/* build: cc -O2 -g -pthread
 *
 * parallel spread|one: two threads compute in phases. In `alone` one of them computes while the other one waits, in
 * `together` both compute. `one`: on one processor. A line of truth is: phase FUNCTION WALL CPU (seconds). */
#define _GNU_SOURCE
#include "burn.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>
BURNER(alone)
BURNER(together)

enum { ROUNDS = 4 };
static pthread_barrier_t barrier;
static double walls[2], cpus[2][2];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *computes(void *number)
{
    int me = *(int *)number;
    double *used = cpus[me], both[2] = {0, 0};
    uint64_t sink = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double from = now();
        pthread_barrier_wait(&barrier);
        if (me == round % 2)
            sink += alone(3000, &used[0]);
        pthread_barrier_wait(&barrier);
        double middle = now();
        sink += together(3000, &used[1]);
        pthread_barrier_wait(&barrier);
        both[0] += middle - from, both[1] += now() - middle;
    }
    burn_sink += sink;
    if (me == 0)
        memcpy(walls, both, sizeof walls);
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int numbers[2] = {0, 1};
    if (argc > 1 && !strcmp(argv[1], "one")) {
        cpu_set_t first, all;
        sched_getaffinity(0, sizeof all, &all);
        CPU_ZERO(&first);
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &all)) {
                CPU_SET(i, &first);
                break;
            }
        sched_setaffinity(0, sizeof first, &first);
    }
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, computes, &numbers[1]);
    computes(&numbers[0]);
    pthread_join(thread, 0);
    printf("phase %s %.6f %.6f\n", alone_truth.name, walls[0], cpus[0][0] + cpus[1][0]);
    printf("phase %s %.6f %.6f\n", together_truth.name, walls[1], cpus[0][1] + cpus[1][1]);
    return 0;
}
