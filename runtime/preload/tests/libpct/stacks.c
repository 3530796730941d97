/* Threads that spin below 30 frames of a kilobyte: with a stack of the C library's size, with one of their own size, in memory of
 * the program's, and the first thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static __attribute__((noinline)) int spin_below(int frames)
{
    volatile char room[1000];
    room[frames] = 1;
    if (frames == 0) {
        double end = cpu_seconds() + 0.4;
        volatile int count = 0;
        while (cpu_seconds() < end)
            for (int i = 0; i < 100000; i++) count += i;
        return count;
    }
    return spin_below(frames - 1) + room[3];
}

static void *begin(void *unused)
{
    (void)unused;
    return (void *)(long)spin_below(30);
}

static void run(const pthread_attr_t *attributes)
{
    pthread_t thread;
    if (pthread_create(&thread, attributes, begin, NULL)) exit(2);
    pthread_join(thread, NULL);
}

int main(void)
{
    pthread_attr_t attributes;
    run(NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    run(&attributes);
    pthread_attr_setstack(&attributes, aligned_alloc(4096, 256 << 10), 256 << 10);
    run(&attributes);
    spin_below(30);
    return 0;
}
