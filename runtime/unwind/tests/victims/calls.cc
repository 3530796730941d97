// Call paths that a walker of stacks must get right, built with -O2 -fomit-frame-pointer.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <immintrin.h>
#include <stdexcept>

#define NOINLINE __attribute__((noinline, noclone))
#define EXPORT extern "C" __attribute__((visibility("default")))

static volatile unsigned long sink;
static volatile int fails_at;

NOINLINE static unsigned long work(unsigned long n) {
    unsigned long h = n;
    for (int i = 0; i < 40; i++) h = h * 6364136223846793005ul + (h >> 29);
    sink += h;
    return h;
}

NOINLINE static unsigned long recurse(int depth, unsigned long x) {
    volatile char room[48];
    room[x & 31] = (char)x;
    if (depth == 0) return work(x) + room[3];
    unsigned long r = recurse(depth - 1, x + depth);
    work(r);
    return r + room[x & 31];
}

static int compare(const void *a, const void *b) {
    work(*(const int *)a);
    return *(const int *)a - *(const int *)b;
}

// Frames of variable size need rbp; frames aligned for vectors need a saved stack pointer.
NOINLINE static unsigned long variable(int n) {
    char *p = (char *)__builtin_alloca(n);
    memset(p, n, n);
    return work(p[n / 2]) + recurse(3, p[0]);
}

NOINLINE static unsigned long aligned(unsigned long x) {
    alignas(64) volatile unsigned long v[16];
    for (int i = 0; i < 16; i++) v[i] = x + i;
    unsigned long r = recurse(2, v[3]);
    return work(r + v[5]) + v[9];
}

// Both at once: the realigned frame finds its caller through a word in memory.
NOINLINE static unsigned long aligned_variable(unsigned long x, int n) {
    alignas(64) volatile unsigned long v[8];
    char *p = (char *)__builtin_alloca(n);
    memset(p, n, n);
    v[x & 7] = p[n / 2];
    return recurse(2, v[x & 7]) + work(x);
}

NOINLINE static void thrower(int depth) {
    if (depth == 0) {
        work(7);
        if (fails_at == 0) throw std::runtime_error("thrown");
    }
    if (depth > 0) thrower(depth - 1);
    work(depth);
}

NOINLINE static unsigned long catcher() {
    try {
        thrower(6);
    } catch (const std::exception &e) {
        return work(e.what()[0]);
    }
    return 0;
}

struct Shape { virtual unsigned long area(int n) = 0; virtual ~Shape() {} };
struct Square : Shape { unsigned long area(int n) override { return n ? recurse(2, n) + work(n) : 0; } };

EXPORT void call_recursion() { recurse(30, 1); }
EXPORT void call_deep() { recurse(700, 1); }
EXPORT void call_sort() {
    int v[64];
    for (int i = 0; i < 64; i++) v[i] = (i * 7919) % 64;
    qsort(v, 64, sizeof v[0], compare);
}
EXPORT void call_print() {
    char text[256];
    static FILE *null;
    if (!null) null = fopen("/dev/null", "w");
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "%d %s %.17g %x", i, "string", i / 3.0, i);
        fprintf(null, "%s %20.10f\n", text, i * 1.5);
    }
}
EXPORT void call_frames() { variable(100); variable(3000); aligned(3); aligned_variable(5, 200); }
EXPORT void call_exception() { catcher(); }
EXPORT void call_virtual() { static Square s; Shape *volatile p = &s; for (int i = 0; i < 10; i++) p->area(i); }
EXPORT void call_memory() {
    void *p[32];
    for (int i = 0; i < 32; i++) p[i] = malloc(16 << (i % 12));
    for (int i = 0; i < 32; i++) { memset(p[i], 1, 16); free(p[i]); }
}
EXPORT void call_clock() { struct timespec t; for (int i = 0; i < 50; i++) clock_gettime(CLOCK_MONOTONIC, &t); sink += t.tv_nsec; }

// A signal of the program's own, whose handler does the work: on the same and on an alternate stack.
static void on_usr(int) { recurse(8, 2); }
NOINLINE static void raise_both() { raise(SIGUSR1); work(1); raise(SIGUSR2); work(2); }
EXPORT void call_signals() {
    static thread_local char *alt;
    if (!alt) {
        alt = (char *)malloc(65536);
        stack_t s = {};
        s.ss_sp = alt; s.ss_size = 65536;
        sigaltstack(&s, 0);
        struct sigaction a = {};
        a.sa_handler = on_usr;
        a.sa_flags = SA_RESTART;
        sigaction(SIGUSR1, &a, 0);
        a.sa_flags = SA_RESTART | SA_ONSTACK;
        sigaction(SIGUSR2, &a, 0);
    }
    raise_both();
}

// A coroutine on a stack of its own: the walk ends at its entry.
static ucontext_t home, away;
static void coroutine() { for (;;) { recurse(5, 3); swapcontext(&away, &home); } }
EXPORT void call_coroutine() {
    static char *stack;
    if (!stack) {
        stack = (char *)malloc(262144);
        getcontext(&away);
        away.uc_stack.ss_sp = stack; away.uc_stack.ss_size = 262144;
        away.uc_link = 0;
        makecontext(&away, coroutine, 0);
    }
    swapcontext(&home, &away);
}
