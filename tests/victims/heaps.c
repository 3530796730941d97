/* build: cc -O2 -g -fno-ipa-icf
 * heaps [N]: churns N blocks, then allocates by command, and says when it is done. Commands are lines on stdin:
 *   leak N   N blocks of 1000 octets stay;  cache N   the cache grows by N blocks of 500 octets
 *   drop N   N blocks of the cache go;      churn N   N blocks of 700 octets, each freed at once
 * Each is answered by a line "truth LEAK CACHE CHURNED": octets live in leak() and cache(), octets churned so far. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };
static void *cached[MOST], *leaked[MOST];
static long caches, leaks, churned;

__attribute__((noinline)) static void leak(long n) {
    for (long i = 0; i < n && leaks < MOST; i++) {
        leaked[leaks] = malloc(1000);
        memset(leaked[leaks++], 1, 1000);
    }
}
__attribute__((noinline)) static void cache(long n) {
    for (long i = 0; i < n && caches < MOST; i++) {
        cached[caches] = malloc(500);
        memset(cached[caches++], 2, 500);
    }
}
__attribute__((noinline)) static void drop(long n) {
    for (long i = 0; i < n && caches > 0; i++) free(cached[--caches]);
}
__attribute__((noinline)) static void churn(long n) {
    for (long i = 0; i < n; i++) {
        char *volatile block = malloc(700);
        block[0] = 3;
        free(block);
        churned += 700;
    }
}

int main(int argc, char **argv) {
    char word[16];
    long n;
    static char in[256], out[256];
    setvbuf(stdin, in, _IOLBF, sizeof in);
    setvbuf(stdout, out, _IOLBF, sizeof out);
    if (argc > 1) churn(atol(argv[1]));
    while (scanf("%15s %ld", word, &n) == 2) {
        if (!strcmp(word, "leak")) leak(n);
        else if (!strcmp(word, "cache")) cache(n);
        else if (!strcmp(word, "drop")) drop(n);
        else if (!strcmp(word, "churn")) churn(n);
        else return 2;
        printf("truth %ld %ld %ld\n", leaks * 1000, caches * 500, churned);
    }
    return 0;
}
