/* build: cc -O1
 * twocallers SECONDS DEPTH: functions that enter the kernel, each by one call of its own, below 0 to DEPTH frames of a recursion.
 * `often` and `seldom` call one function that reads, three times to one: their stacks differ by one return address. `preads` and
 * `draws` call one function with the number of their system call: the name of the call must be that of the caller. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static char buffer[1 << 16];
static int zero;
static volatile int sink;
__attribute__((noinline)) static void read_once(void) { sink += read(zero, buffer, sizeof buffer) > 0; __asm__ volatile(""); }
__attribute__((noinline)) static void often(void) { read_once(); __asm__ volatile(""); }
__attribute__((noinline)) static void seldom(void) { read_once(); __asm__ volatile(""); }
__attribute__((noinline)) static void call(long number) {
    sink += syscall(number, number == SYS_pread64 ? zero : (long)buffer, number == SYS_pread64 ? (long)buffer : 4096,
                    number == SYS_pread64 ? sizeof buffer : 0, 0) > 0;
    __asm__ volatile("");
}
__attribute__((noinline)) static void preads(void) { call(SYS_pread64); __asm__ volatile(""); }
__attribute__((noinline)) static void draws(void) { call(SYS_getrandom); __asm__ volatile(""); }
__attribute__((noinline)) static void below(int depth) {
    if (depth > 0) below(depth - 1);
    else {
        for (int i = 0; i < 3; i++) often();
        seldom();
        preads();
        draws();
    }
    __asm__ volatile("");
}
int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    int most = argc > 2 ? atoi(argv[2]) : 0;
    zero = open("/dev/zero", O_RDONLY);
    if (zero < 0) return 1;
    struct timespec now;
    for (int depth = 0;; depth = depth >= most ? 0 : depth + 1) {
        below(depth);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        if (now.tv_sec + now.tv_nsec * 1e-9 >= seconds) return 0;
    }
}
