/* build: cc -O2 -pthread
 * fewfiles BEFORE AFTER LIMIT: works for BEFORE CPU seconds in `early`, then lowers its limit for descriptors
 * (RLIMIT_NOFILE) to LIMIT, says `ready`, and works for AFTER CPU seconds in `late`, half of it in a second thread.
 * At the end it sees whether its descriptors, its limit and its signal mask are as they were, and prints the truth. */
#include "burn.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
BURNER(early)
BURNER(late)

static double late_seconds[2];

static void *work(void *arg) {
    double *seconds = arg;
    double end = thread_cpu() + *seconds / 2;
    *seconds = 0;
    while (thread_cpu() < end) burn_sink += late(10, seconds);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    double end = thread_cpu() + atof(argv[1]), early_seconds = 0;
    while (thread_cpu() < end) burn_sink += early(10, &early_seconds);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)atoi(argv[3]);
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 3;
    /* gaps below the limit are filled */
    while (dup(0) >= 0) {}
    printf("ready\n");
    fflush(stdout);
    pthread_t other;
    late_seconds[0] = late_seconds[1] = atof(argv[2]);
    if (pthread_create(&other, 0, work, &late_seconds[1])) return 4;
    work(&late_seconds[0]);
    pthread_join(other, 0);
    int kept = fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0;
    int full = open("/dev/null", O_RDONLY) == -1 && errno == EMFILE;
    struct rlimit now;
    sigset_t mask;
    getrlimit(RLIMIT_NOFILE, &now);
    pthread_sigmask(SIG_BLOCK, 0, &mask);
    int open_signals = 1;
    for (int s = 1; s < 32; s++) open_signals &= !sigismember(&mask, s);
    printf("descriptors %s\n", kept && full && now.rlim_cur == limit.rlim_cur && open_signals ? "as before" : "changed");
    TRUTH(early, early_seconds);
    TRUTH(late, late_seconds[0] + late_seconds[1]);
    return 5;
}
