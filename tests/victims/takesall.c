/* build: cc -O2
 * takesall [PROGRAM ARGUMENT...]: works, handles all signals by itself from then on, works, forks a child that works, and
 * executes PROGRAM in another child. Each part is 0.4 s of CPU time. Ends with 3 if something failed, and with 4 if its
 * handler was called. With -DFILTER it handles no signals, but sets a filter on system calls that kills who returns from
 * a handler. */
#include <signal.h>
#include <string.h>
#ifdef FILTER
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

BURNER(before)
BURNER(after)
BURNER(in_the_child)

static volatile sig_atomic_t came;
__attribute__((unused)) static void count(int signal) {
    (void)signal;
    came++;
}

/* From now on nobody can take samples in here. */
static int shuts_the_sampler_out(void) {
#ifdef FILTER
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
#else
    struct sigaction own = {.sa_handler = count, .sa_flags = SA_RESTART};
    for (int s = 1; s < 65; s++)
        if (s != SIGCHLD) sigaction(s, &own, NULL);
    return 1;
#endif
}

static int waits_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {}
    return status == 0;
}

int main(int count_of_words, char **words) {
    double b = 0, a = 0, c = 0;
    while (b < 0.4) burn_sink += before(5, &b);
    if (!shuts_the_sampler_out()) return 3;
    while (a < 0.4) burn_sink += after(5, &a);
    TRUTH(before, b);
    TRUTH(after, a);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        while (c < 0.4) burn_sink += in_the_child(5, &c);
        TRUTH(in_the_child, c);
        fflush(stdout);
        _exit(came != 0);
    }
    if (!waits_for(child)) return 3;
    if (count_of_words > 1) {
        child = fork();
        if (!child) {
            execv(words[1], words + 1);
            _exit(127);
        }
        if (!waits_for(child)) return 3;
    }
    return came ? 4 : 0;
}
