/* build: cc -O2
 * kernelcalls SECONDS: one system call after the other, each for so much system time; some by their wrapper, some by the
 * number given to syscall(). Prints what getrusage says of each: truth NAME SECONDS */
#define _GNU_SOURCE
#include "burn.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
static char buffer[1 << 20];
static double system_time(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_stime.tv_sec + u.ru_stime.tv_usec * 1e-6;
}
#define PHASE(name, what) do { \
        double from = system_time(), spent; \
        do { for (int i = 0; i < 50; i++) { what; } spent = system_time() - from; } while (spent < seconds); \
        printf("truth %s %.6f\n", name, spent); \
    } while (0)
int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0.5;
    int zero = open("/dev/zero", O_RDONLY);
    char *pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zero < 0 || pages == MAP_FAILED) return 1;
    PHASE("read", if (read(zero, buffer, sizeof buffer) < 0) return 1);
    PHASE("getppid", for (int j = 0; j < 1000; j++) syscall(SYS_getppid));
    PHASE("pread64", if (pread(zero, buffer, sizeof buffer, 0) < 0) return 1);
    PHASE("getrandom", if (syscall(SYS_getrandom, buffer, 1 << 12, 0) < 0) return 1);
    PHASE("madvise", if (madvise(pages, 1 << 20, 23 /* MADV_POPULATE_WRITE */) || madvise(pages, 1 << 20, MADV_DONTNEED)) return 1);
    return 0;
}
