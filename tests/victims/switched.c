/* build: cc -O2 -fomit-frame-pointer -ldl
 * switched api OPTIONS [OPTIONS...]: sampled by function alpha; switches sampling off, runs unseen(), switches it on with each of
 *     the OPTIONS and runs beta, gamma_ ... there, always switching it off in between.
 * switched signal NUMBER: runs unseen(), sends itself the signal, runs alpha, sends it again, runs unseen(), again, beta.
 * `api:4` and `signal:4` spend four times as long in each.
 * Prints the truth of the functions that should be seen. */
#include "burn.h"
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
BURNER(unseen)
BURNER(alpha)
BURNER(beta)
BURNER(gamma_)
typedef uint64_t burner(double, double *);
static double spend(burner *f, double seconds) {
    double spent = 0;
    while (spent < seconds) burn_sink += f(4, &spent);
    return spent;
}
int main(int argc, char **argv) {
    burner *seen[] = {alpha, beta, gamma_};
    double cpu[3] = {0};
    if (argc < 3) return 2;
    char *scale = strchr(argv[1], ':');
    double times = scale ? atof(scale + 1) : 1;
    if (!strncmp(argv[1], "signal", 6)) {
        for (int i = 0; i < 2; i++) {
            spend(unseen, 0.4);
            raise(atoi(argv[2]));
            cpu[i] = spend(seen[i], 1.2 * times);
            raise(atoi(argv[2]));
        }
        spend(unseen, 0.4);
    } else {
        int (*on)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_on");
        int (*off)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "pct_off");
        if (!on || !off) return 3;
        cpu[0] = spend(alpha, 0.8 * times);
        for (int i = 2; i < argc && i < 4; i++) {
            if (off()) return 4;
            spend(unseen, 0.4);
            if (on(argv[i])) return 5;
            cpu[i - 1] = spend(seen[i - 1], 0.8 * times);
        }
    }
    TRUTH(alpha, cpu[0]); TRUTH(beta, cpu[1]);
    if (cpu[2]) TRUTH(gamma_, cpu[2]);
    return 0;
}
