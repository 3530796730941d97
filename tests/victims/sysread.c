/* build: cc -O2
 * sysread [SECONDS]: read(/dev/zero) for so much CPU time, 1.5 s: nearly all of it system time. Prints what getrusage says: user system */
#include "burn.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
static char buffer[1 << 20];
int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1.5;
    int fd = open("/dev/zero", O_RDONLY);
    struct rusage u;
    double sys = 0;
    do {
        for (int i = 0; i < 100; i++) if (read(fd, buffer, sizeof buffer) < 0) return 1;
        getrusage(RUSAGE_SELF, &u);
        sys = u.ru_stime.tv_sec + u.ru_stime.tv_usec * 1e-6;
    } while (sys + u.ru_utime.tv_sec + u.ru_utime.tv_usec * 1e-6 < seconds);
    printf("rusage %.6f %.6f\n", u.ru_utime.tv_sec + u.ru_utime.tv_usec * 1e-6, sys);
    return 0;
}
