/* build: cc -O2 -pthread
 * relay N SECONDS [leave]: N threads, one after the other, each works for SECONDS of its CPU time while the first thread waits for it.
 * With `leave` the first thread ends (pthread_exit) as soon as it has made the first of them, and that one makes the next. */
#include "burn.h"
#include <pthread.h>
#include <string.h>

static double each, sum;
static int left;

__attribute__((noinline)) static void relay_work(void) {
    double start = thread_cpu(), now;
    do {
        for (int i = 0; i < 20000; i++) burn_sink += (uint64_t)i * 31;
        now = thread_cpu();
    } while (now - start < each);
    sum += now - start;
}

__attribute__((noinline)) static void relay_call(void) {
    relay_work();
    burn_sink++;
}

static void *runner(void *a) {
    relay_call();
    return a;
}

static void *last_of_all(void *a) {
    pthread_t t;
    while (left-- > 0) {
        if (pthread_create(&t, 0, runner, 0)) exit(3);
        pthread_join(t, 0);
    }
    TRUTH(relay_work, sum);
    exit(0);
    return a;
}

int main(int argc, char **argv) {
    pthread_t t;
    left = argc > 1 ? atoi(argv[1]) : 15;
    each = argc > 2 ? atof(argv[2]) : 0.05;
    if (argc > 3 && !strcmp(argv[3], "leave")) {
        if (pthread_create(&t, 0, last_of_all, 0)) return 3;
        pthread_exit(0);
    }
    last_of_all(0);
    return 0;
}
