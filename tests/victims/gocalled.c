/* build: cc -O2 -fno-optimize-sibling-calls -ldl
 * gocalled LIBRARY: calls the library's EnterGo (gocalls.go) for about a second; prints "done". With -DLINKED it is linked with it. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#ifdef LINKED
extern long EnterGo(long, long);
#endif
int main(int argc, char **argv) {
#ifdef LINKED
    long (*enter)(long, long) = EnterGo;
    (void)argc, (void)argv;
#else
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
    long (*enter)(long, long) = library ? (long (*)(long, long))dlsym(library, "EnterGo") : 0;
    if (!enter) return 2;
#endif
    struct timespec from, now;
    long sum = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        sum += enter(2, 300000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - from.tv_sec + (now.tv_nsec - from.tv_nsec) * 1e-9 < 1);
    puts(sum ? "done" : "nothing");
    return 0;
}
