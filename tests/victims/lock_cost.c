/* build: cc -O2 -g -pthread
 *
 * What locks cost. Lines: cost NAME NANOSECONDS.
 *   lock_cost pairs ROUNDS: CPU nanoseconds of taking and releasing a lock that nobody else wants, of 16 locks in turn;
 *                           the least of the rounds
 *   lock_cost contended PAIRS: CPU nanoseconds of a pair with three threads that want one mutex and hold it for a while */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t u64;
enum { LOCKS = 16, PAIRS = 200000, THREADS = 3 };

static u64 clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

static pthread_mutex_t mutexes[LOCKS];
static pthread_rwlock_t rwlocks[LOCKS];
static sem_t semaphores[LOCKS];
static volatile u64 guarded;

#define PAIR(name, take, release)                                  \
    __attribute__((noinline)) static void name(void)               \
    {                                                              \
        for (int i = 0; i < PAIRS; i++) {                          \
            take;                                                  \
            guarded++;                                             \
            release;                                               \
        }                                                          \
    }
#define I (i % LOCKS)
PAIR(mutex_pair, pthread_mutex_lock(&mutexes[I]), pthread_mutex_unlock(&mutexes[I]))
PAIR(read_pair, pthread_rwlock_rdlock(&rwlocks[I]), pthread_rwlock_unlock(&rwlocks[I]))
PAIR(write_pair, pthread_rwlock_wrlock(&rwlocks[I]), pthread_rwlock_unlock(&rwlocks[I]))
PAIR(semaphore_pair, sem_wait(&semaphores[I]), sem_post(&semaphores[I]))

static double least(void (*pairs)(void), int rounds)
{
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        u64 from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        pairs();
        double ns = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - from) / PAIRS;
        if (ns < best)
            best = ns;
    }
    return best;
}

static void of_kind(const char *name, int kind, int robust, int rounds)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    if (robust)
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&mutexes[i], &attributes);
    printf("cost %s %.3f\n", name, least(mutex_pair, rounds));
}

static long pairs_wanted;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin;
static int hold;

static void *contends(void *unused)
{
    pthread_barrier_wait(&begin);
    for (long i = 0; i < pairs_wanted; i++) {
        pthread_mutex_lock(&one);
        for (volatile int n = 0; n < hold; n++)
            guarded++;
        pthread_mutex_unlock(&one);
    }
    return unused;
}

static void contended(const char *name, int turns, long pairs)
{
    pthread_t threads[THREADS];
    hold = turns, pairs_wanted = pairs;
    pthread_barrier_init(&begin, NULL, THREADS);
    u64 from = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, contends, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("cost %s %.3f\n", name, (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / (THREADS * pairs));
}

int main(int argc, char **argv)
{
    long count = argc > 2 ? atol(argv[2]) : 9;
    if (argc > 1 && !strcmp(argv[1], "contended")) {
        contended("hold-20ns", 10, count);
        contended("hold-1us", 600, count / 4);
        contended("hold-20us", 12000, count / 40);
        return 0;
    }
    for (int i = 0; i < LOCKS; i++) {
        pthread_rwlock_init(&rwlocks[i], NULL);
        sem_init(&semaphores[i], 0, 1);
    }
    of_kind("mutex", PTHREAD_MUTEX_NORMAL, 0, (int)count);
    of_kind("recursive", PTHREAD_MUTEX_RECURSIVE, 0, (int)count);
    of_kind("errorcheck", PTHREAD_MUTEX_ERRORCHECK, 0, (int)count);
    of_kind("adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, 0, (int)count);
    of_kind("robust", PTHREAD_MUTEX_NORMAL, 1, (int)count);
    printf("cost rwlock-read %.3f\n", least(read_pair, (int)count));
    printf("cost rwlock-write %.3f\n", least(write_pair, (int)count));
    printf("cost semaphore %.3f\n", least(semaphore_pair, (int)count));
    return 0;
}
