/* build: cc -O1 -fno-omit-frame-pointer */
/* Code that is made at run time, in two mappings. That in the first one leads its callers to an address where nothing
   is: whoever looks for code there looks in vain. That in the second one is made afterwards, and is called by run_late;
   it calls a function beside it.
   latecode MILLISECONDS MILLISECONDS: CPU time in each. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef void code(unsigned long rounds, unsigned long *frame);

/* push %rbp; mov %rsp,%rbp; call 2f; pop %rbp; ret
   2: push %rbp; mov %rsp,%rbp; mov %rdi,%rcx; 1: dec %rcx; jnz 1b; pop %rbp; ret */
static const unsigned char right[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 2, 0, 0, 0, 0x5d, 0xc3,
    0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0x5d, 0xc3};
/* The inner function with mov %rsi,%rbp: the frame is what the caller says. */
static const unsigned char wrong[] = {0x55, 0x48, 0x89, 0xf5, 0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0x5d, 0xc3};

static code *made(const unsigned char *octets, unsigned long size) {
    /* Apart from all other mappings, so that it does not become a part of one. */
    char *at = mmap(0, 3 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + (1 << 16), 4096, PROT_READ | PROT_WRITE | PROT_EXEC)) exit(1);
    memcpy(at + (1 << 16), octets, size);
    return (code *)(at + (1 << 16));
}

static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

__attribute__((noinline)) static void run_late(code *f, double milliseconds) {
    double end = used() + milliseconds;
    while (used() < end) f(1000000, 0);
}

__attribute__((noinline)) static void run_lost(code *f, double milliseconds) {
    unsigned long frame[2] = {0, 0x123456789000};
    double end = used() + milliseconds;
    while (used() < end) f(1000000, frame);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    run_lost(made(wrong, sizeof wrong), atof(argv[1]));
    run_late(made(right, sizeof right), atof(argv[2]));
    puts("done");
    return 0;
}
