/* build: cc -O2 -ldl */
/*
 * loadspct LIBRARY OPTIONS: loads pct's library, is sampled for some 0.2 s, unloads the library, and calls the
 * functions that it has redirected.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile uint64_t sum;

__attribute__((noinline)) static void work(void) {
    for (int i = 0; i < 200000000; i++) sum += i * sum;
}

int main(int count, char **words) {
    char name[16];
    void *library = count > 2 ? dlopen(words[1], RTLD_NOW) : 0;
    if (!library) return 2;
    int (*on)(const char *) = (int (*)(const char *))dlsym(library, "pct_on");
    int (*off)(void) = (int (*)(void))dlsym(library, "pct_off");
    if (on(words[2])) return 3;
    work();
    prctl(PR_GET_NAME, name);
    if (off() || dlclose(library)) return 4;
    if (prctl(PR_GET_NAME, name) || syscall(SYS_getpid) != getpid() || !dlsym(RTLD_DEFAULT, "prctl")) return 6;
    puts(name);
    return 5;
}
