/* A signal every 40 us, by a timer that the kernel sets again each time it delivers one, until SIGTERM.
 * cc -O2 */
#include <signal.h>
#include <time.h>
#include <unistd.h>
static void alarmed(int signal) { (void)signal; }
static void ends(int signal) {
    (void)signal;
    _exit(write(1, "bad 0 signals 0\n", 16) == 16 ? 0 : 1);
}
int main(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec often = {{0, 40000}, {0, 40000}};
    timer_t timer;
    signal(SIGALRM, alarmed);
    signal(SIGTERM, ends);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, 0)) return 1;
    for (;;) {}
}
