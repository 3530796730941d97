/* build: cc -O2
 * execchain N [clean]: burns 0.2 s, then execs itself with N-1; with `clean` the environment of each exec is empty.
 * The pid stays the same: one process, N+1 images. */
#include "burn.h"
#include <string.h>
#include <unistd.h>
BURNER(link_of_chain)
extern char **environ;

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 0;
    int clean = argc > 2 && !strcmp(argv[2], "clean");
    double s = 0;
    while (s < 0.2) burn_sink += link_of_chain(10, &s);
    TRUTH(link_of_chain, s);
    fflush(stdout);
    if (n == 0) return getenv("LD_PRELOAD") && clean && argc > 3 ? 9 : 0;
    char next[16];
    snprintf(next, sizeof next, "%d", n - 1);
    char *args[] = {argv[0], next, clean ? "clean" : 0, 0};
    char *none[] = {0};
    execve("/proc/self/exe", args, clean ? none : environ);
    return 1;
}
