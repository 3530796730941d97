/* build: cc -O2
 * daemon [chroot]: what careful daemons do: closes every descriptor from 3 on, dups over some, chroots and drops rights
 * (as root), blocks all signals, then installs a seccomp filter that KILLS on anything but write, exit_group and
 * rt_sigreturn, and burns. Whoever makes another system call in it kills it. */
#include "burn.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
BURNER(behind_the_filter)
int main(int argc, char **argv) {
    double s = 0, s2 = 0;
    while (s < 0.05) burn_sink += behind_the_filter(5, &s);
    for (int fd = 3; fd < 1024; fd++) close(fd);
    for (int fd = 10; fd < 40; fd++) dup2(1, fd);
    if (argc > 1 && !strcmp(argv[1], "chroot") && geteuid() == 0) {
        if (chroot("/var/empty") && chroot("/usr/share")) return 3;
        if (chdir("/") || setgid(65534) || setuid(65534)) return 4;
    }
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = {sizeof f / sizeof *f, f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 5;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 6;
    /* the thread CPU clock is a real system call that the filter allows; everything else in here is arithmetic */
    while (s2 < 1.0) burn_sink += behind_the_filter(10, &s2);
    char line[64];
    int n = snprintf(line, sizeof line, "truth behind_the_filter %.6f\n", s + s2);
    return write(1, line, n) == n ? 5 : 8;
}
