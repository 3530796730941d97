/* build: cc -O2 -pthread
 * smallstacks [ROUNDS]: 16 threads with stacks of 64 KiB, each deep in its stack while it burns, 10 rounds. */
#include "burn.h"
#include <pthread.h>
#include <string.h>
BURNER(on_small_stack)
__attribute__((noinline)) static uint64_t down(int n, double *s) {
    volatile char pad[600];
    memset((char *)pad, n, sizeof pad);
    return n ? down(n - 1, s) + pad[n % 600] : on_small_stack(50, s);
}
static int rounds = 10;
static void *work(void *a) { for (int i = 0; i < rounds; i++) burn_sink += down(30, a); return 0; }
int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    pthread_t t[16];
    double s[16] = {0}, sum = 0;
    pthread_attr_t at;
    pthread_attr_init(&at);
    pthread_attr_setstacksize(&at, 64 * 1024);
    for (int i = 0; i < 16; i++) if (pthread_create(&t[i], &at, work, &s[i])) return 1;
    for (int i = 0; i < 16; i++) { pthread_join(t[i], 0); sum += s[i]; }
    printf("truth on_small_stack %.6f\n", sum);
    return 0;
}
