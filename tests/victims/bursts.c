/* build: cc -O2 -fno-omit-frame-pointer -pthread
 * bursts SECONDS BURST_US SLEEP_US SYSTEM_PERCENT CALLERS THREADS [SPREAD]: each thread works for so much CPU time in
 * bursts, with a sleep behind each burst (0: none). A burst is divided evenly among CALLERS (1 to 4) functions, and so
 * much of it is spent in system calls. Each sleep is longer or shorter by chance, by at most the part SPREAD of it (0:
 * none): sleeps of one length can be in step with the kernel's tick, and samples are then not by chance.
 * Prints the truth per function over all threads, and what getrusage says. */
#include "burn.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>
static double seconds, burst, asleep, in_kernel, spread;
static int callers, zero;

struct job { pthread_t thread; uint64_t dice; double spent[4]; };

static inline uint64_t roll(struct job *j) {
    j->dice ^= j->dice << 13; j->dice ^= j->dice >> 7; j->dice ^= j->dice << 17;
    return j->dice;
}

/* Steps of a few microseconds, in the kernel or not by chance, until the function's part is spent. What a step takes
 * of the kernel's time or ours is measured, so that the parts are as asked for on any machine. */
static inline __attribute__((always_inline)) void work(struct job *j, double part) {
    static __thread char buffer[32768];
    double start = thread_cpu(), now = start, kernel = 0;
    while (now < start + part) {
        if (kernel <= in_kernel * (now - start)) {
            if (read(zero, buffer, sizeof buffer) < 0) exit(1);
            double after = thread_cpu();
            kernel += after - now;
            now = after;
        } else {
            for (int n = 0; n < 500; n++) burn_sink += roll(j) & 1;
            now = thread_cpu();
        }
    }
}

#define CALLER(n) __attribute__((noinline)) void caller_##n(struct job *j, double part) { \
        double start = thread_cpu();                                                        \
        work(j, part);                                                                      \
        j->spent[n] += thread_cpu() - start;                                                \
    }
CALLER(0)
CALLER(1)
CALLER(2)
CALLER(3)

static void *run(void *given) {
    struct job *j = given;
    static void (*const all[4])(struct job *, double) = {caller_0, caller_1, caller_2, caller_3};
    double end = thread_cpu() + seconds;
    while (thread_cpu() < end) {
        for (int i = 0; i < callers; i++) all[i](j, burst / callers);
        if (asleep > 0) {
            double chance = (double)(roll(j) >> 11) / (double)(1ull << 52) - 1;
            double length = asleep * (1 + spread * chance);
            struct timespec nap = {(long)length, (long)((length - (long)length) * 1e9)};
            nanosleep(&nap, 0);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 7) return 2;
    seconds = atof(argv[1]);
    burst = atof(argv[2]) * 1e-6;
    asleep = atof(argv[3]) * 1e-6;
    in_kernel = atof(argv[4]) / 100;
    callers = atoi(argv[5]);
    int threads = atoi(argv[6]);
    spread = argc > 7 ? atof(argv[7]) : 0;
    if (spread < 0 || spread > 1 || threads < 1 || threads > 64 || callers < 1 || callers > 4) return 2;
    zero = open("/dev/zero", O_RDONLY);
    static struct job jobs[64];
    for (int i = 0; i < threads; i++) {
        jobs[i].dice = 88172645463325252u + (uint64_t)i * 2654435761u;
        if (i > 0 && pthread_create(&jobs[i].thread, 0, run, &jobs[i])) return 3;
    }
    run(&jobs[0]);
    double sum[4] = {0};
    for (int i = 0; i < threads; i++) {
        if (i > 0) pthread_join(jobs[i].thread, 0);
        for (int f = 0; f < 4; f++) sum[f] += jobs[i].spent[f];
    }
    static const char *const names[4] = {"caller_0", "caller_1", "caller_2", "caller_3"};
    for (int f = 0; f < callers; f++) printf("truth %s %.6f\n", names[f], sum[f]);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("cpu user %.6f\ncpu system %.6f\n", u.ru_utime.tv_sec + u.ru_utime.tv_usec * 1e-6,
           u.ru_stime.tv_sec + u.ru_stime.tv_usec * 1e-6);
    return 0;
}
