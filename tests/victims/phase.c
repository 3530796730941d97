/* build: cc -O2
 * phase SECONDS: bursts of 1 ms that start right after a timer tick and end before the next one, so that a profiler that
 * samples on ticks sees none of them. */
#include "burn.h"
#include <unistd.h>
BURNER(burst)
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int argc, char **argv) {
    double end = now() + (argc > 1 ? atof(argv[1]) : 2), s = 0;
    struct timespec coarse, t = {0, 4000000};
    while (now() < end) {
        /* CLOCK_MONOTONIC_COARSE moves at the tick: wait for it to move, burn for a millisecond, sleep over the next tick */
        nanosleep(&t, 0);
        clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
        struct timespec c = coarse;
        double give_up = now() + 0.0001;
        while (c.tv_nsec == coarse.tv_nsec && now() < give_up) clock_gettime(CLOCK_MONOTONIC_COARSE, &c);
        double stop = s + 0.001;
        while (s < stop) burn_sink += burst(1, &s);
    }
    TRUTH(burst, s);
    return 0;
}
