/* build: cc -O2
 * faults SECONDS: rounds of fresh memory: mapped, written to page by page, computed with, unmapped; rounds differ in length,
 * so that they are not in step with the kernel's tick. Prints what the thread's clock says of each step: truth NAME SECONDS */
#define _GNU_SOURCE
#include "burn.h"
#include <sys/mman.h>
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
__attribute__((noinline)) static void touch(volatile char *memory, long pages) {
    for (long i = 0; i < pages; i++) memory[i * 4096] = 1;
}
__attribute__((noinline)) static unsigned compute(unsigned n) {
    for (int i = 0; i < 400000; i++) { n = n * 1103515245u + 12345; __asm__ volatile("" : "+r"(n)); }
    return n;
}
int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1, in[3] = {0, 0, 0};
    unsigned sum = 0, dice = 1;
    while (in[0] + in[1] + in[2] < seconds) {
        dice = dice * 1103515245u + 12345;
        long pages = 500 + (dice >> 16) % 2000;
        char *memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || madvise(memory, pages * 4096, MADV_NOHUGEPAGE)) return 1;
        double a = now();
        touch(memory, pages);
        double b = now();
        sum = compute(sum);
        double c = now();
        munmap(memory, pages * 4096);
        in[0] += b - a; in[1] += c - b; in[2] += now() - c;
    }
    printf("truth touch %.6f\ntruth compute %.6f\ntruth munmap %.6f\n", in[0], in[1], in[2]);
    return sum == 1;
}
