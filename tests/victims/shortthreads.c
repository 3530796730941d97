/* build: cc -O2 -pthread
 * shortthreads N: N threads, eight at a time, each of which works for a millisecond of its CPU time. */
#include "burn.h"
#include <pthread.h>

__attribute__((noinline)) static void *short_work(void *spent) {
    double start = thread_cpu(), now, before = start;
    /* A tenth of a millisecond from one look at the clock to the next, since the look is the kernel's time. */
    for (int rounds = 2000;;) {
        for (int i = 0; i < rounds; i++) burn_sink += (uint64_t)i * 31;
        now = thread_cpu();
        if (now - start >= 0.001) break;
        if (now - before < 0.00005) rounds *= 2;
        before = now;
    }
    *(double *)spent = now - start;
    return 0;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100;
    double sum = 0;
    for (int done = 0; done < n; done += 8) {
        pthread_t t[8];
        double spent[8] = {0};
        for (int i = 0; i < 8; i++) if (pthread_create(&t[i], 0, short_work, &spent[i])) return 3;
        for (int i = 0; i < 8; i++) pthread_join(t[i], 0), sum += spent[i];
    }
    TRUTH(short_work, sum);
    return 0;
}
