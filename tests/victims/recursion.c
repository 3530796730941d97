/* build: cc -O2 -fomit-frame-pointer
 * recursion DEPTH [ROUNDS]: burns at the bottom of a recursion of that depth, 60 times. */
#include "burn.h"
#include <stdlib.h>
BURNER(at_the_bottom)
__attribute__((noinline)) static uint64_t down(int n, double *s) {
    volatile long pad[3];
    pad[n % 3] = n;
    return n ? down(n - 1, s) + pad[n % 3] : at_the_bottom(100, s);
}
int main(int argc, char **argv) {
    double s = 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 60;
    for (int i = 0; i < rounds; i++) burn_sink += down(argc > 1 ? atoi(argv[1]) : 1000, &s);
    TRUTH(at_the_bottom, s);
    return 0;
}
