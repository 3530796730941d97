/* build: cc -O2 -fomit-frame-pointer -pthread
 * shares THREADS SECONDS [ROUNDS]: each thread runs four functions in unequal shares, thread k more of it than thread k-1.
 * Prints the truth per function over all threads, and per thread, and the CPU seconds of the process. With ROUNDS each thread
 * does that many rounds whatever they take (for measuring what a profiler costs): about 2.4 ms a round on average. */
#include "burn.h"
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
BURNER(alpha)
BURNER(beta)
BURNER(gamma_)
BURNER(delta)

struct job { int index; long rounds; double budget; double cpu[4]; };

static void *work(void *arg) {
    struct job *j = arg;
    char name[16];
    snprintf(name, sizeof name, "worker-%d", j->index);
    if (j->index > 0) pthread_setname_np(pthread_self(), name);
    double end = thread_cpu() + j->budget;
    uint64_t dice = 88172645463325252u + (uint64_t)j->index * 2654435761u;
    for (long n = 0; j->rounds ? n < j->rounds : thread_cpu() < end; n++) {
        /* Rounds of random length, 0.08 to 4.8 ms and all between: a program in step with a sampler's period is phase.c's
         * business. (Five lengths in turn made 12.00 ms, three ticks of a kernel with HZ=250: each tick-bound sample fell on
         * one of three places.) Every run does the same rounds. */
        dice ^= dice << 13; dice ^= dice >> 7; dice ^= dice << 17;
        double k = 0.1 + 5.9 * (double)(dice >> 11) / (double)(1ull << 53);
        burn_sink += alpha(8 * k, &j->cpu[0]);
        burn_sink += beta(5 * k, &j->cpu[1]);
        burn_sink += gamma_(2 * k, &j->cpu[2]);
        burn_sink += delta(k, &j->cpu[3]);
    }
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    if (threads < 1 || threads > 64) return 2;
    struct job jobs[64];
    pthread_t t[64];
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < threads; i++) {
        jobs[i].index = i;
        jobs[i].rounds = argc > 3 ? atol(argv[3]) : 0;
        jobs[i].budget = seconds * (i + 1) / threads;
        if (i > 0 && pthread_create(&t[i], 0, work, &jobs[i])) return 3;
    }
    work(&jobs[0]);
    for (int i = 1; i < threads; i++) pthread_join(t[i], 0);
    double sum[4] = {0};
    for (int i = 0; i < threads; i++) {
        double own = 0;
        for (int f = 0; f < 4; f++) { sum[f] += jobs[i].cpu[f]; own += jobs[i].cpu[f]; }
        printf("thread %d %.6f\n", i, own);
    }
    TRUTH(alpha, sum[0]); TRUTH(beta, sum[1]); TRUTH(gamma_, sum[2]); TRUTH(delta, sum[3]);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("cpu process %.6f\n", u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
    return 0;
}
