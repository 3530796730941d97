/* build: cc -O2 -pthread
 * blockall: blocks all signals in all threads for a second of CPU, then lets them through. Meant for `ulimit -i 50`. */
#include "burn.h"
#include <pthread.h>
#include <signal.h>
BURNER(blocked)
BURNER(open_again)
static void *work(void *a) {
    double *s = a;
    while (s[0] < 0.6) burn_sink += blocked(10, &s[0]);
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, 0);
    while (s[1] < 0.3) burn_sink += open_again(10, &s[1]);
    return 0;
}
int main(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, 0);
    pthread_t t[3];
    double s[4][2] = {{0}};
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, s[i]);
    work(s[3]);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    TRUTH(blocked, s[0][0] + s[1][0] + s[2][0] + s[3][0]);
    TRUTH(open_again, s[0][1] + s[1][1] + s[2][1] + s[3][1]);
    return 0;
}
