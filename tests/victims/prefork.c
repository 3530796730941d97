/* build: cc -O2 -g
 * prefork ROUNDS: a server of processes: in each round one child by fork burns 0.05 s, one by vfork and exec of itself 0.05 s,
 * and the parent 0.03 s. Checks each child's status (3); exit status 5. SIGTERM ends it after the round.
 * The rounds begin when a line is on its stdin. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int stop;
static void on_term(int s) { (void)s; stop = 1; }
static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
#define BURN(f)                                          \
    __attribute__((noinline)) void f(double s) {         \
        double end = cpu() + s;                          \
        volatile double x = 1;                           \
        while (cpu() < end)                              \
            for (int i = 0; i < 20000; i++) x = x * 1.00001 + 1; \
    }
BURN(forked_burns)
BURN(executed_burns)
BURN(parent_burns)
static int well(pid_t p) {
    int status;
    return waitpid(p, &status, 0) == p && WIFEXITED(status) && WEXITSTATUS(status) == 3;
}
int main(int argc, char **argv) {
    if (argc > 1 && argv[1][0] == 'x') {
        executed_burns(0.05);
        return 3;
    }
    int rounds = argc > 1 ? atoi(argv[1]) : 1, bad = 0, n = 0;
    signal(SIGTERM, on_term);
    printf("started\n");
    fflush(stdout);
    getchar(); /* a line on stdin begins the rounds */
    for (; n < rounds && !stop; n++) {
        pid_t p = fork();
        if (!p) {
            forked_burns(0.05);
            _exit(3);
        }
        parent_burns(0.03);
        pid_t q = vfork();
        if (!q) {
            execl("/proc/self/exe", argv[0], "x", (char *)0);
            _exit(9);
        }
        bad += !well(p);
        bad += !well(q);
    }
    printf("rounds %d bad %d\n", n, bad);
    return bad ? 1 : 5;
}
