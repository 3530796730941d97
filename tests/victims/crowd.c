/* build: cc -O2 -g -pthread
 * crowd: 64 threads, each of which works a little and sleeps 20 ms, again and again, until SIGTERM. Prints whether each one's
 * sums were right; exit status 5. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
static volatile int stop;
static volatile long bad, rounds;
static volatile unsigned long seed = 88172645463325252ul;
static void on_term(int s) { (void)s; stop = 1; }
__attribute__((noinline)) unsigned long crowd_works(unsigned long x) {
    for (int i = 0; i < 60000; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    return x;
}
static void *work(void *a) {
    unsigned long truth = crowd_works(seed);
    while (!stop) {
        struct timespec t = {0, 20000000};
        nanosleep(&t, 0);
        if (crowd_works(seed) != truth) bad++;
        rounds++;
    }
    return a;
}
int main(void) {
    pthread_t t[63];
    signal(SIGTERM, on_term);
    for (int i = 0; i < 63; i++) if (pthread_create(&t[i], 0, work, 0)) return 2;
    printf("started\n");
    fflush(stdout);
    work(0);
    for (int i = 0; i < 63; i++) pthread_join(t[i], 0);
    printf("bad %ld\n", bad);
    return bad ? 1 : 5;
}
