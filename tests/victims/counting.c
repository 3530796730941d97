/* build: cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -pthread
 * counting [SECONDS]: has an allocator that counts its calls, then works for so much CPU time (0.5 s) in deep calls in each of two threads without allocating anything, and
 * prints how often the allocator was called meanwhile. */
#include "burn.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
static atomic_long calls;
void *malloc(size_t n) { calls++; return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { calls++; return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { calls++; return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { calls++; return __libc_memalign(a, n); }
void free(void *p) { calls++; __libc_free(p); }
BURNER(leaf)
static int (*volatile through)(int);
__attribute__((noinline)) static int deep(int n) {
    double t = 0;
    if (n > 0) return through(n - 1) + 1;
    burn_sink = leaf(20, &t);
    return 0;
}
static double seconds = 0.5;
static atomic_int ready, done, ended;
static void burn(void) {
    ready++;
    while (ready < 2) {}
    double end = thread_cpu() + seconds;
    while (thread_cpu() < end)
        for (int depth = 0; depth < 60; depth += 7) deep(depth);
    done++;
    while (done < 2) {}
}
static void *other(void *unused) {
    burn();
    /* A thread's end frees what it has. */
    while (!ended) {}
    return unused;
}
int main(int argc, char **argv) {
    if (argc > 1) seconds = atof(argv[1]);
    through = deep;
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    while (ready < 1) {}
    long before = calls;
    burn();
    long after = calls;
    ended = 1;
    pthread_join(thread, NULL);
    printf("before %s allocations %ld\n", before > 0 ? "some" : "NONE", after - before);
    return 0;
}
