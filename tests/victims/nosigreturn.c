/* build: cc -O2
 * nosigreturn: works, sets a filter on system calls that kills who returns from a signal handler, works, and forks a
 * child that works. Each part is 0.4 s of CPU time. Ends with 3 if something failed. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

BURNER(before)
BURNER(after)
BURNER(in_the_child)

int main(void) {
    double b = 0, a = 0, c = 0;
    while (b < 0.4) burn_sink += before(5, &b);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 3;
    while (a < 0.4) burn_sink += after(5, &a);
    TRUTH(before, b);
    TRUTH(after, a);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        while (c < 0.4) burn_sink += in_the_child(5, &c);
        TRUTH(in_the_child, c);
        fflush(stdout);
        _exit(0);
    }
    int status;
    return waitpid(child, &status, 0) != child || status ? 3 : 0;
}
