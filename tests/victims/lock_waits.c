/* build: cc -O2 -g -pthread
 *
 * Threads that wait for each other, and that keep the truth: `matrix` (three mutexes, four threads: who waited where,
 * and who held the lock meanwhile), `work` (a condition, a semaphore, a barrier, the end of a thread), `rwlock`,
 * `relock` (a condition whose mutex stays taken after the signal), `given_up` (a mutex that is released by a wait for
 * a condition), `start` (the first waits of a process, of several threads at once), and `manners` (what the functions
 * return in odd cases).
 *
 * A line of truth is: truth WAITER KIND HOLDER LEAST MOST WAITS. The waits lasted LEAST to MOST nanoseconds, whatever the
 * scheduler did: LEAST is from the moment at which the waiter is asleep in the kernel to the moment before it is woken,
 * MOST is between the clocks around the call. (WAITS is 0 in `matrix`: how often a lock was taken is not known there.) */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;

static u64 now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR) {
    }
}

/* Waits until a thread sleeps in the kernel because of this object, and says when that was. The other thread is about to
 * wait for it. */
static u64 asleep(pid_t tid, const void *object, size_t size)
{
    char path[64], text[128];
    sprintf(path, "/proc/self/task/%d/syscall", (int)tid);
    for (;; pause_us(200)) {
        long number = 0;
        unsigned long long address = 0;
        FILE *f = fopen(path, "r");
        if (!f) {
            perror(path);
            exit(3);
        }
        int known = fgets(text, sizeof text, f) && sscanf(text, "%ld %llx", &number, &address) == 2;
        fclose(f);
        if (known && number == SYS_futex && address - (uintptr_t)object < size)
            return now();
    }
}

/* --- matrix --- */

enum { LOCKS = 3, SITES = 4, THREADS = 4, ROUNDS = 60 };
static const char *const site_name[SITES] = {"site_a", "site_b", "site_c", "site_d"};
static pthread_mutex_t locks[LOCKS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
struct hold {
    u64 asked, taken, releases, released;
    int lock, site, thread;
};
static struct hold holds[THREADS][ROUNDS];

#define SITE(name, number)                                                                    \
    __attribute__((noinline, noclone)) static void name(struct hold *h, int lock, long us)   \
    {                                                                                         \
        h->lock = lock;                                                                       \
        h->site = number;                                                                     \
        h->asked = now();                                                                     \
        pthread_mutex_lock(&locks[lock]);                                                     \
        h->taken = now();                                                                     \
        pause_us(us);                                                                         \
        h->releases = now();                                                                  \
        pthread_mutex_unlock(&locks[lock]);                                                   \
        h->released = now();                                                                  \
    }
SITE(site_a, 0)
SITE(site_b, 1)
SITE(site_c, 2)
SITE(site_d, 3)

static void *worker(void *argument)
{
    int self = (int)(intptr_t)argument;
    unsigned dice = 12345 + 777 * self;
    for (int i = 0; i < ROUNDS; i++) {
        struct hold *h = &holds[self][i];
        h->thread = self;
        int lock = rand_r(&dice) % LOCKS;
        long us = 200 + rand_r(&dice) % 2000;
        switch (rand_r(&dice) % SITES) {
        case 0: site_a(h, lock, us); break;
        case 1: site_b(h, lock, us); break;
        case 2: site_c(h, lock, us); break;
        default: site_d(h, lock, us); break;
        }
    }
    return 0;
}

static int by_time_of_taking(const void *a, const void *b)
{
    u64 x = (*(struct hold *const *)a)->taken, y = (*(struct hold *const *)b)->taken;
    return (x > y) - (x < y);
}

static u64 overlap(u64 from, u64 to, u64 begin, u64 end)
{
    from = from > begin ? from : begin;
    to = to < end ? to : end;
    return to > from ? to - from : 0;
}

static int matrix(void)
{
    pthread_t t[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], 0, worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], 0);
    static u64 most[SITES][SITES + 1];
    struct hold *sorted[THREADS * ROUNDS];
    for (int i = 0; i < THREADS * ROUNDS; i++)
        sorted[i] = &holds[0][0] + i;
    qsort(sorted, THREADS * ROUNDS, sizeof sorted[0], by_time_of_taking);
    for (int i = 0; i < THREADS * ROUNDS; i++) {
        struct hold *w = sorted[i];
        u64 free_from[LOCKS] = {0}, nobody = w->taken - w->asked;
        for (int j = 0; j < THREADS * ROUNDS; j++) {
            struct hold *h = sorted[j];
            /* It got the lock after it had asked, and after the one before it began to release it. */
            u64 from = h->asked > free_from[h->lock] ? h->asked : free_from[h->lock];
            free_from[h->lock] = h->releases;
            if (h->lock != w->lock || h->thread == w->thread)
                continue;
            most[w->site][h->site] += overlap(w->asked, w->taken, from, h->released);
            nobody -= overlap(w->asked, w->taken, h->taken, h->releases);
        }
        most[w->site][SITES] += nobody;
    }
    for (int w = 0; w < SITES; w++)
        for (int h = 0; h <= SITES; h++)
            printf("truth %s mutex %s 0 %llu 0\n", site_name[w], h == SITES ? "hand-over" : site_name[h],
                   (unsigned long long)most[w][h]);
    return 0;
}

/* --- work, and locks that are waited for one at a time --- */

enum { ITEMS = 8 };
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static sem_t full;
static pthread_barrier_t barrier;
static int items;
/* Steps of the two threads. */
static _Atomic int turn, held, done;
static _Atomic pid_t waiter;

/* What is known of the waits of one function. */
struct waits {
    u64 least, most, count;
};
static struct waits of_condition, of_semaphore, of_barrier, of_join, of_read, of_write, of_relock, of_given_up;

static void say(const char *waiter, const char *kind, const char *holder, struct waits w)
{
    printf("truth %s %s %s %llu %llu %llu\n", waiter, kind, holder, (unsigned long long)w.least, (unsigned long long)w.most,
           (unsigned long long)w.count);
}

#define MEASURED(of, call)       \
    do {                         \
        u64 from = now();        \
        call;                    \
        (of).most += now() - from; \
        (of).count++;            \
    } while (0)

/* The other thread waits for an object: lets it wait for some time. */
#define LET_WAIT(of, object)                                       \
    do {                                                           \
        u64 since = asleep(waiter, &(object), sizeof(object));     \
        pause_us(10000);                                           \
        (of).least += now() - since;                               \
    } while (0)

__attribute__((noinline, noclone)) static void consume(void)
{
    pthread_mutex_lock(&m);
    while (!items)
        MEASURED(of_condition, pthread_cond_wait(&c, &m));
    items--;
    pthread_mutex_unlock(&m);
}

__attribute__((noinline, noclone)) static void produce(void)
{
    LET_WAIT(of_condition, c);
    pthread_mutex_lock(&m);
    items++;
    pthread_mutex_unlock(&m);
    pthread_cond_signal(&c);
    __asm__ volatile("");
}

/* When the signal was given, and the wait began. */
static _Atomic u64 began, signals, signalled;

__attribute__((noinline, noclone)) static void consume_late(void)
{
    pthread_mutex_lock(&m);
    while (!items) {
        began = now();
        pthread_cond_wait(&c, &m);
        u64 end = now();
        of_condition.most += signalled - began;
        of_relock.most += end - signals;
        of_condition.count++;
        of_relock.count++;
    }
    items--;
    pthread_mutex_unlock(&m);
}

/* The other thread is woken, and waits for the mutex then. */
__attribute__((noinline, noclone)) static void produce_and_hold(void)
{
    u64 since = asleep(waiter, &c, sizeof c);
    pause_us(10000);
    pthread_mutex_lock(&m);
    items++;
    signals = now();
    pthread_cond_signal(&c);
    signalled = now();
    of_condition.least += signals - since;
    since = asleep(waiter, &m, sizeof m);
    pause_us(10000);
    of_relock.least += now() - since;
    pthread_mutex_unlock(&m);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void take(void)
{
    int result;
    do
        MEASURED(of_semaphore, result = sem_wait(&full));
    while (result != 0 && errno == EINTR);
}

__attribute__((noinline, noclone)) static void give(void)
{
    LET_WAIT(of_semaphore, full);
    sem_post(&full);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void meet_early(void)
{
    MEASURED(of_barrier, pthread_barrier_wait(&barrier));
}

__attribute__((noinline, noclone)) static void meet_late(void)
{
    LET_WAIT(of_barrier, barrier);
    pthread_barrier_wait(&barrier);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void reap(pthread_t t)
{
    MEASURED(of_join, pthread_join(t, 0));
}

/* The end of a thread is waited for at its id, in its control block. */
static void *ends_later(void *unused)
{
    (void)unused;
    LET_WAIT(of_join, *(char(*)[4096])pthread_self());
    return 0;
}

static void *consumer(void *unused)
{
    (void)unused;
    waiter = gettid();
    for (int i = 0; i < 3 * ITEMS; i++) {
        while (turn <= i)
            pause_us(200);
        if (i < ITEMS)
            consume();
        else if (i < 2 * ITEMS)
            take();
        else
            meet_early();
        done = i + 1;
    }
    return 0;
}

static int work(void)
{
    pthread_t t;
    sem_init(&full, 0, 0);
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&t, 0, consumer, 0);
    while (!waiter)
        pause_us(200);
    for (int i = 0; i < 3 * ITEMS; i++) {
        turn = i + 1;
        if (i < ITEMS)
            produce();
        else if (i < 2 * ITEMS)
            give();
        else
            meet_late();
        while (done <= i)
            pause_us(200);
    }
    pthread_join(t, 0);
    waiter = getpid();
    pthread_create(&t, 0, ends_later, 0);
    reap(t);
    say("consume", "condition", "produce", of_condition);
    say("take", "semaphore", "give", of_semaphore);
    say("meet_early", "barrier", "meet_late", of_barrier);
    say("reap", "thread's_end", "-", of_join);
    return 0;
}

__attribute__((noinline, noclone)) static void write_long(void)
{
    pthread_rwlock_wrlock(&rw);
    held = 1;
    LET_WAIT(of_read, rw);
    pthread_rwlock_unlock(&rw);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void read_waits(void)
{
    MEASURED(of_read, pthread_rwlock_rdlock(&rw));
    pthread_rwlock_unlock(&rw);
}

__attribute__((noinline, noclone)) static void read_long(void)
{
    pthread_rwlock_rdlock(&rw);
    held = 1;
    LET_WAIT(of_write, rw);
    pthread_rwlock_unlock(&rw);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void write_waits(void)
{
    MEASURED(of_write, pthread_rwlock_wrlock(&rw));
    pthread_rwlock_unlock(&rw);
}

static void *other(void *unused)
{
    (void)unused;
    waiter = gettid();
    for (int i = 0; i < 2 * ITEMS; i++) {
        while (!held)
            pause_us(200);
        held = 0;
        if (i < ITEMS)
            read_waits();
        else
            write_waits();
        done = i + 1;
    }
    return 0;
}

static int rwlock(void)
{
    pthread_t t;
    pthread_create(&t, 0, other, 0);
    while (!waiter)
        pause_us(200);
    for (int i = 0; i < 2 * ITEMS; i++) {
        if (i < ITEMS)
            write_long();
        else
            read_long();
        while (done <= i)
            pause_us(200);
    }
    pthread_join(t, 0);
    say("read_waits", "rwlock_(read)", "write_long", of_read);
    say("write_waits", "rwlock_(write)", "read_long", of_write);
    return 0;
}

/* --- manners --- */

static void make(pthread_mutex_t *lock, int type, int robust, int protocol)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setrobust(&a, robust);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutex_init(lock, &a);
    pthread_mutexattr_destroy(&a);
}

static pthread_mutex_t odd;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t nothing;
static _Atomic int cleaned, arrived;

static void *dies_with_it(void *lock)
{
    pthread_mutex_lock(lock);
    return 0;
}

static void unlock(void *lock)
{
    cleaned++;
    pthread_mutex_unlock(lock);
}

static void *cancelled_in_condition(void *unused)
{
    pthread_mutex_lock(&odd);
    pthread_cleanup_push(unlock, &odd);
    arrived = 1;
    for (;;)
        pthread_cond_wait(&never, &odd);
    pthread_cleanup_pop(0);
    return unused;
}

static void count(void *unused)
{
    (void)unused;
    cleaned++;
}

static void *cancelled_in_semaphore(void *unused)
{
    pthread_cleanup_push(count, 0);
    arrived = 1;
    for (;;)
        sem_wait(&nothing);
    pthread_cleanup_pop(0);
    return unused;
}

static void *cancelled_in_join(void *thread)
{
    pthread_cleanup_push(count, 0);
    arrived = 1;
    pthread_join(*(pthread_t *)thread, 0);
    pthread_cleanup_pop(0);
    return 0;
}

static void *sleeps(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void cancel(const char *where, void *(*function)(void *), void *argument)
{
    pthread_t t;
    void *result = 0;
    arrived = cleaned = 0;
    pthread_create(&t, 0, function, argument);
    while (!arrived)
        pause_us(500);
    pause_us(5000);
    pthread_cancel(t);
    pthread_join(t, &result);
    printf("%s: cancelled %d, cleaned %d\n", where, result == PTHREAD_CANCELED, cleaned);
}

static sigjmp_buf out;

static void jump(int number)
{
    (void)number;
    siglongjmp(out, 1);
}

/* A handler leaves the wait by a jump. */
__attribute__((noinline, noclone)) static int jumps_out_of_semaphore(void)
{
    arrived = gettid();
    int jumped = sigsetjmp(out, 1);
    if (!jumped)
        sem_wait(&nothing);
    return jumped;
}

static void *strikes(void *thread)
{
    while (!arrived)
        pause_us(500);
    asleep(arrived, &nothing, sizeof nothing);
    pthread_kill(*(pthread_t *)thread, SIGUSR2);
    return 0;
}

static void handler(int number)
{
    (void)number;
    sem_post(&nothing);
}

static void *holds_a_while(void *lock)
{
    pthread_mutex_lock(lock);
    arrived = 1;
    pause_us(20000);
    pthread_mutex_unlock(lock);
    return 0;
}

static struct timespec soon(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static int manners(void)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
    static const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT};
    pthread_t t;
    struct timespec when;
    for (int type = 0; type < 4; type++)
        for (int robust = 0; robust < 2; robust++)
            for (int protocol = 0; protocol < 2; protocol++) {
                make(&odd, types[type], robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED, protocols[protocol]);
                errno = 4711;
                printf("%d %d %d: lock %d", type, robust, protocol, pthread_mutex_lock(&odd));
                printf(" try %d", pthread_mutex_trylock(&odd));
                if (types[type] == PTHREAD_MUTEX_RECURSIVE || types[type] == PTHREAD_MUTEX_ERRORCHECK)
                    printf(" again %d", pthread_mutex_lock(&odd));
                when = soon(CLOCK_REALTIME, 2);
                if (types[type] == PTHREAD_MUTEX_NORMAL)
                    printf(" timed %d", pthread_mutex_timedlock(&odd, &when));
                printf(" unlock %d %d %d", pthread_mutex_unlock(&odd), types[type] == PTHREAD_MUTEX_RECURSIVE ? pthread_mutex_unlock(&odd) : 0,
                       types[type] == PTHREAD_MUTEX_RECURSIVE ? pthread_mutex_unlock(&odd) : 0);
                /* another thread holds it for a while: this one waits */
                arrived = 0;
                pthread_create(&t, 0, holds_a_while, &odd);
                while (!arrived)
                    pause_us(200);
                printf(" waited %d", pthread_mutex_lock(&odd));
                printf(" unlock %d", pthread_mutex_unlock(&odd));
                pthread_join(t, 0);
                if (robust) {
                    pthread_create(&t, 0, dies_with_it, &odd);
                    pthread_join(t, 0);
                    printf(" owner died %d", pthread_mutex_lock(&odd));
                    printf(" consistent %d", pthread_mutex_consistent(&odd));
                    printf(" unlock %d", pthread_mutex_unlock(&odd));
                    pthread_create(&t, 0, dies_with_it, &odd);
                    pthread_join(t, 0);
                    printf(" owner died %d", pthread_mutex_lock(&odd));
                    printf(" unlock %d", pthread_mutex_unlock(&odd));
                    printf(" not recoverable %d", pthread_mutex_lock(&odd));
                }
                printf(" errno %d\n", errno);
                pthread_mutex_destroy(&odd);
            }
    make(&odd, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_NONE);
    sem_init(&nothing, 0, 0);
    pthread_t sleeper;
    pthread_create(&sleeper, 0, sleeps, 0);
    for (int i = 0; i < 3; i++) {
        cancel("condition", cancelled_in_condition, 0);
        cancel("semaphore", cancelled_in_semaphore, 0);
        cancel("join", cancelled_in_join, &sleeper);
    }
    pthread_mutex_lock(&odd);
    when = soon(CLOCK_REALTIME, 2);
    printf("timed condition %d\n", pthread_cond_timedwait(&never, &odd, &when));
    when = soon(CLOCK_MONOTONIC, 2);
    printf("clock condition %d\n", pthread_cond_clockwait(&never, &odd, CLOCK_MONOTONIC, &when));
    pthread_mutex_unlock(&odd);
    when = soon(CLOCK_REALTIME, 2);
    errno = 0;
    int result = sem_timedwait(&nothing, &when);
    printf("timed semaphore %d errno %d\n", result, errno);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    result = sem_wait(&nothing);
    printf("posted by a handler %d\n", result);
    pthread_t self = pthread_self();
    signal(SIGUSR2, jump);
    for (int i = 0; i < 3; i++) {
        arrived = 0;
        pthread_create(&t, 0, strikes, &self);
        printf("jumped out of a wait %d\n", jumps_out_of_semaphore());
        pthread_join(t, 0);
    }
    when = soon(CLOCK_REALTIME, 2);
    printf("timed join %d\n", pthread_timedjoin_np(sleeper, 0, &when));
    printf("join of itself %d\n", pthread_join(pthread_self(), 0));
    static pthread_rwlock_t twice = PTHREAD_RWLOCK_INITIALIZER;
    printf("rwlock %d", pthread_rwlock_wrlock(&twice));
    printf(" again %d", pthread_rwlock_wrlock(&twice));
    printf(" read %d", pthread_rwlock_rdlock(&twice));
    printf(" try %d %d", pthread_rwlock_tryrdlock(&twice), pthread_rwlock_trywrlock(&twice));
    when = soon(CLOCK_REALTIME, 2);
    printf(" timed %d", pthread_rwlock_timedrdlock(&twice, &when));
    printf(" unlock %d\n", pthread_rwlock_unlock(&twice));
    /* a lock in shared memory, held by another process */
    pthread_mutex_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared, &a);
    volatile int *flag = (volatile int *)(shared + 1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(shared);
        *flag = 1;
        pause_us(20000);
        pthread_mutex_unlock(shared);
        _exit(0);
    }
    while (!*flag)
        pause_us(500);
    printf("shared %d", pthread_mutex_lock(shared));
    printf(" unlock %d\n", pthread_mutex_unlock(shared));
    waitpid(child, 0, 0);
    /* fork while other threads wait: the child locks at once */
    arrived = 0;
    pthread_create(&t, 0, holds_a_while, &odd);
    while (!arrived)
        pause_us(200);
    static pthread_mutex_t free_one = PTHREAD_MUTEX_INITIALIZER;
    child = fork();
    if (child == 0)
        _exit(pthread_mutex_lock(&free_one) || pthread_mutex_unlock(&free_one));
    int status = -1;
    waitpid(child, &status, 0);
    printf("child %d\n", status);
    pthread_join(t, 0);
    /* The last wait of this thread is one that it leaves by a jump: nobody waits when the process ends. */
    arrived = 0;
    pthread_create(&t, 0, strikes, &self);
    printf("jumped out of the last wait %d\n", jumps_out_of_semaphore());
    return 0;
}

/* --- relock: who signals keeps the mutex --- */

static void *consumer_alone(void *unused)
{
    (void)unused;
    waiter = gettid();
    for (int i = 0; i < ITEMS; i++) {
        while (turn <= i)
            pause_us(200);
        consume_late();
        done = i + 1;
    }
    return 0;
}

/* The other thread waits for the mutex. It gets it when this one waits for the condition. */
__attribute__((noinline, noclone)) static void gives_up_by_waiting(void)
{
    pthread_mutex_lock(&m);
    held = 1;
    LET_WAIT(of_given_up, m);
    while (!items)
        pthread_cond_wait(&c, &m);
    items--;
    pthread_mutex_unlock(&m);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void asks_meanwhile(void)
{
    MEASURED(of_given_up, pthread_mutex_lock(&m));
    items++;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    __asm__ volatile("");
}

static void *asks(void *unused)
{
    (void)unused;
    waiter = gettid();
    for (int i = 0; i < ITEMS; i++) {
        while (!held)
            pause_us(200);
        held = 0;
        asks_meanwhile();
        done = i + 1;
    }
    return 0;
}

static int given_up(void)
{
    pthread_t t;
    pthread_create(&t, 0, asks, 0);
    while (!waiter)
        pause_us(200);
    for (int i = 0; i < ITEMS; i++) {
        gives_up_by_waiting();
        while (done <= i)
            pause_us(200);
    }
    pthread_join(t, 0);
    say("asks_meanwhile", "mutex", "gives_up_by_waiting", of_given_up);
    return 0;
}

static int relock(void)
{
    pthread_t t;
    pthread_create(&t, 0, consumer_alone, 0);
    while (!waiter)
        pause_us(200);
    for (int i = 0; i < ITEMS; i++) {
        turn = i + 1;
        produce_and_hold();
        while (done <= i)
            pause_us(200);
    }
    pthread_join(t, 0);
    say("consume_late", "condition", "produce_and_hold", of_condition);
    say("consume_late", "mutex", "produce_and_hold", of_relock);
    return 0;
}

/* --- start: the first waits of a process, of several threads at once --- */

enum { WAITERS = 6 };
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static _Atomic pid_t waiters[WAITERS];

__attribute__((noinline, noclone)) static void wait_at_once(void)
{
    pthread_mutex_lock(&first);
    pthread_mutex_unlock(&first);
    __asm__ volatile("");
}

__attribute__((noinline, noclone)) static void *begins_with_a_wait(void *slot)
{
    *(_Atomic pid_t *)slot = gettid();
    while (!turn)
        sched_yield();
    wait_at_once();
    return 0;
}

static int start(void)
{
    pthread_t t[WAITERS];
    pthread_mutex_lock(&first);
    for (int i = 0; i < WAITERS; i++)
        pthread_create(&t[i], 0, begins_with_a_wait, &waiters[i]);
    for (int i = 0; i < WAITERS; i++)
        while (!waiters[i])
            pause_us(200);
    turn = 1;
    for (int i = 0; i < WAITERS; i++)
        asleep(waiters[i], &first, sizeof first);
    pthread_mutex_unlock(&first);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(t[i], 0);
    return 0;
}

int main(int count_of_words, char **words)
{
    const char *mode = count_of_words > 1 ? words[1] : "";
    if (!strcmp(mode, "matrix"))
        return matrix();
    if (!strcmp(mode, "work"))
        return work();
    if (!strcmp(mode, "rwlock"))
        return rwlock();
    if (!strcmp(mode, "manners"))
        return manners();
    if (!strcmp(mode, "relock"))
        return relock();
    if (!strcmp(mode, "given_up"))
        return given_up();
    if (!strcmp(mode, "start"))
        return start();
    return 2;
}
