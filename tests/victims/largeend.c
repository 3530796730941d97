/* build: cc -O2 */
/* Touches 600 MB in small pages, says `ready` and works. Its end takes the kernel a tenth of a second and more. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

int main(void) {
    const size_t bytes = 600u << 20;
    char *pages = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return 1;
    madvise(pages, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4096) pages[at] = 1;
    puts("ready");
    fflush(stdout);
    for (volatile unsigned long sum = 0;;) sum += sum * 3 + 1;
}
