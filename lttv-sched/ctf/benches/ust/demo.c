/* Emits argv[1] events from two threads, in a fixed mix; a rare short pause lets the consumer keep up. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "demo-tp.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static long count;
static void *work(void *arg)
{
    long id = (long) arg;
    unsigned long ips[8] = { 0x400000, 0x400100, 0x400200, 0x400300, 0x400400, 0x400500, 0x400600, 0x400700 };
    for (long i = 0; i < count / 2; i++) {
        switch (i & 7) {
        case 0: lttng_ust_tracepoint(bench, request, (int) i, id ? "GET /index" : "POST /form/long/path", i * 0.5); break;
        case 1: lttng_ust_tracepoint(bench, stack, ips, 1 + (i >> 3) % 8); break;
        case 2: lttng_ust_tracepoint(bench, blob, "some text in a blob", 5 + (i >> 3) % 12); break;
        default: lttng_ust_tracepoint(bench, switch, (int) i, (int) (i + 1), i % 3); break;
        }
        if (i % 20000 == 19999)
            usleep(2000);
    }
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t t;
    count = argc > 1 ? atol(argv[1]) : 4000000;
    pthread_create(&t, NULL, work, (void *) 1);
    work(NULL);
    pthread_join(t, NULL);
    return 0;
}
