/* build: cc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -pthread
 * paths [ROUNDS]: burns in leaf functions that are reached by known call paths: plain calls, recursion, a callback of qsort, a thread,
 * a signal handler on its own stack and on an alternate one. Prints each path, leaf first, up to main or the thread's entry. */
#include "burn.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#define NOINLINE __attribute__((noinline))
BURNER(leaf_plain)
BURNER(leaf_deep)
BURNER(leaf_sort)
BURNER(leaf_thread)
BURNER(leaf_signal)
static double spent;
static int rounds = 100;

NOINLINE static uint64_t plain_inner(int n) { volatile char pad[200]; memset((char *)pad, n, sizeof pad); return leaf_plain(60, &spent) + pad[n & 63]; }
NOINLINE static uint64_t plain_outer(int n) { return plain_inner(n + 1) + n; }
NOINLINE static uint64_t deep(int n) { volatile long pad[3]; pad[n % 3] = n; return n ? deep(n - 1) + pad[n % 3] : leaf_deep(60, &spent); }
static int compare(const void *a, const void *b) { burn_sink += leaf_sort(1, &spent); return *(const int *)a - *(const int *)b; }
NOINLINE static void sorting(void) { int v[16]; for (int i = 0; i < 16; i++) v[i] = i * 7919 % 16; qsort(v, 16, sizeof v[0], compare); burn_sink += v[3]; }
NOINLINE static uint64_t thread_inner(double *s) { return leaf_thread(60, s) + 1; }
static void *thread_entry(void *a) { for (int i = 0; i < rounds; i++) burn_sink += thread_inner(a); return a; }
static void on_signal(int n) { burn_sink += leaf_signal(60, &spent) + n; }
NOINLINE static void signalled(int n) { raise(n); burn_sink++; }

int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    static char alternate[65536];
    stack_t s = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction a = {.sa_handler = on_signal};
    sigaltstack(&s, 0);
    sigaction(SIGUSR1, &a, 0);
    a.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &a, 0);
    pthread_t t;
    double in_thread = 0;
    pthread_create(&t, 0, thread_entry, &in_thread);
    for (int i = 0; i < rounds; i++) {
        burn_sink += plain_outer(i) + deep(40);
        sorting();
        signalled(SIGUSR1);
        signalled(SIGUSR2);
    }
    pthread_join(t, 0);
    puts("path leaf_plain plain_inner plain_outer main");
    printf("path leaf_deep");
    for (int i = 0; i < 41; i++) printf(" deep");
    puts(" main");
    puts("path leaf_thread thread_inner thread_entry");
    puts("path leaf_signal on_signal signalled main");
    puts("path leaf_sort compare sorting main");
    return 0;
}
