/* build: cc -O2
 * ownprof: a program with its own SIGPROF handler and its own ITIMER_PROF, which counts its ticks and reads its handler back. */
#include "burn.h"
#include <signal.h>
#include <string.h>
#include <sys/time.h>
static volatile sig_atomic_t ticks;
static void on_prof(int s) { (void)s; ticks++; }
BURNER(burning)
int main(void) {
    struct sigaction sa, back;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_prof;
    sa.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &sa, 0);
    struct itimerval iv = {{0, 10000}, {0, 10000}}, got;
    setitimer(ITIMER_PROF, &iv, 0);
    double s = 0;
    while (s < 1.0) burn_sink += burning(10, &s);
    sigaction(SIGPROF, 0, &back);
    getitimer(ITIMER_PROF, &got);
    TRUTH(burning, s);
    printf("handler %s interval %ld ticks %s (%d)\n", back.sa_handler == on_prof ? "own" : "STOLEN", (long)got.it_interval.tv_usec,
           ticks >= 30 && ticks <= 140 ? "right" : "WRONG", (int)ticks);
    return 0;
}
