/* build: cc -O2 -pthread
 * smallstacks: 16 threads with stacks of 64 KiB, each deep in its stack while it burns. */
#include "burn.h"
#include <pthread.h>
#include <string.h>
BURNER(on_small_stack)
__attribute__((noinline)) static uint64_t down(int n, double *s) {
    volatile char pad[600];
    memset((char *)pad, n, sizeof pad);
    return n ? down(n - 1, s) + pad[n % 600] : on_small_stack(50, s);
}
static void *work(void *a) { for (int i = 0; i < 10; i++) burn_sink += down(30, a); return 0; }
int main(void) {
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
