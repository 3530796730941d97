/* build: cc -O2 -g
 * hidden: a program with an allocator of its own under the name that Rust's jemalloc has; malloc is the C library's. */
#include <stdio.h>
#include <stdlib.h>

static char arena[1 << 20];
static size_t used;

__attribute__((noinline)) void *_rjem_malloc(size_t size) {
    void *block = arena + used;
    used += (size + 15) & ~(size_t)15;
    return block;
}

int main(void) {
    for (int i = 0; i < 1000; i++) *(volatile char *)_rjem_malloc(100) = 1;
    char *volatile seen = malloc(4 << 20);
    seen[0] = 1;
    printf("%zu\n", used);
    return 0;
}
