/* build: cc -O2 -g
 * filtered [strict]: burns under a seccomp filter that KILLS the process on any system call but exit_group; or in strict mode. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int main(int argc, char **argv) {
    (void)argv;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {4, code};
    volatile double x = 1;
    /* on a line of its own, since nothing can be said afterwards */
    printf("started\n");
    fflush(stdout);
    if (argc > 1) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 2;
    } else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 2;
    for (;;) x = x * 1.0000001 + 1;
}
