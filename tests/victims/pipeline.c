/* build: cc -O2 -g -pthread
 *
 * Three threads hand a token on in a ring, by semaphores; a fourth one computes beside them and delays nobody. Each ends
 * when the first thread wakes it, one after the other, so the order of everything is known. Lines of truth:
 *   path THREAD LEAST MOST     nanoseconds of the thread on the critical path
 *   cpu FUNCTION NANOSECONDS   CPU time in a function that is wholly on the path */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
enum { STAGES = 3, THREADS = STAGES + 1, ROUNDS = 25 };

static sem_t tokens[STAGES], done, quit[THREADS];
static volatile pid_t tids[THREADS], main_tid;
static volatile int stop;
static u64 posts[STAGES], least[STAGES], most[STAGES], cpu[STAGES];

static u64 clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (u64)t.tv_sec * 1000000000 + t.tv_nsec;
}
static u64 now(void) { return clock_ns(CLOCK_MONOTONIC); }

static void until_asleep(volatile pid_t *tid, const void *object)
{
    char path[64], text[128];
    struct timespec t = {0, 200000};
    for (;; nanosleep(&t, NULL)) {
        long number = 0;
        unsigned long long address = 0;
        sprintf(path, "/proc/self/task/%d/syscall", (int)*tid);
        FILE *f = *tid ? fopen(path, "r") : NULL;
        int known = f && fgets(text, sizeof text, f) && sscanf(text, "%ld %llx", &number, &address) == 2;
        if (f)
            fclose(f);
        if (known && number == SYS_futex && address - (uintptr_t)object < sizeof(sem_t))
            return;
    }
}

#define BURN(name)                                                             \
    __attribute__((noinline, noclone, no_icf)) static u64 name(u64 ns)         \
    {                                                                          \
        u64 from = clock_ns(CLOCK_THREAD_CPUTIME_ID), used;                    \
        do {                                                                   \
            for (volatile int i = 0; i < 20000; i++) {                         \
            }                                                                  \
            used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - from;                   \
        } while (used < ns && !(ns == ~0ul && stop));                          \
        return used;                                                           \
    }
BURN(work_a)
BURN(work_b)
BURN(work_off_path)

__attribute__((noinline, noclone)) static u64 sleep_c(void)
{
    struct timespec t = {0, 2000000};
    nanosleep(&t, NULL);
    return 0;
}

static void *stage(void *argument)
{
    int number = (int)(intptr_t)argument;
    char name[] = {'s', 't', 'a', 'g', 'e', '-', (char)('a' + number), 0};
    pthread_setname_np(pthread_self(), name);
    tids[number] = gettid();
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&tokens[number]);
        u64 got = now();
        if (number == 0 && round == 0)
            until_asleep(&main_tid, &done);
        cpu[number] += number == 0 ? work_a(4000000) : number == 1 ? work_b(8000000) : sleep_c();
        int is_last = number == STAGES - 1 && round == ROUNDS - 1, next = (number + 1) % STAGES;
        u64 came = posts[number], before = now();
        posts[next] = before;
        sem_post(is_last ? &done : &tokens[next]);
        least[number] += before - got;
        most[number] += now() - came;
    }
    sem_wait(&quit[number]);
    return NULL;
}

static void *beside(void *argument)
{
    pthread_setname_np(pthread_self(), "beside");
    tids[STAGES] = gettid();
    work_off_path(~0ul);
    sem_wait(&quit[STAGES]);
    return argument;
}

int main(void)
{
    pthread_t threads[THREADS];
    main_tid = gettid();
    sem_init(&done, 0, 0);
    for (int i = 0; i < THREADS; i++)
        sem_init(&quit[i], 0, 0);
    for (int i = 0; i < STAGES; i++)
        sem_init(&tokens[i], 0, 0);
    for (intptr_t i = 0; i < STAGES; i++)
        pthread_create(&threads[i], NULL, stage, (void *)i);
    pthread_create(&threads[STAGES], NULL, beside, NULL);
    for (int i = 0; i < STAGES; i++)
        until_asleep(&tids[i], &tokens[i]);
    posts[0] = now();
    sem_post(&tokens[0]);
    sem_wait(&done);
    stop = 1;
    for (int i = 0; i < THREADS; i++) {
        until_asleep(&tids[i], &quit[i]);
        u64 before = now();
        sem_post(&quit[i]);
        pthread_join(threads[i], NULL);
        if (i < STAGES)
            printf("path stage-%c %lu %lu\n", 'a' + i, least[i], most[i] + now() - before);
        else
            printf("path beside 0 %lu\n", now() - before);
    }
    printf("cpu work_a %lu\ncpu work_b %lu\n", cpu[0], cpu[1]);
    return 0;
}
