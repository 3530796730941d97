/* build: cc -O2 -g -fno-builtin */
/* The C library and the kernel do the work. Prints how much, by its own clock. */
#include "owners/spend.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char from[1 << 20], to[1 << 20];
static int zero;

__attribute__((noinline)) static void copy(void) {
    for (int i = 0; i < 20; i++) {
        memcpy(to, from, sizeof to);
    }
}

__attribute__((noinline)) static void receive(void) {
    for (int i = 0; i < 10; i++) {
        if (read(zero, to, 200000) < 0) {
            abort();
        }
    }
}

__attribute__((noinline)) static void allocate(void) {
    for (int i = 0; i < 20000; i++) {
        free(malloc(16 + i % 512));
    }
}

int main(void) {
    zero = open("/dev/zero", O_RDONLY);
    spend("copy", copy, 0.48);
    spend("receive", receive, 0.24);
    spend("allocate", allocate, 0.12);
    return 0;
}
