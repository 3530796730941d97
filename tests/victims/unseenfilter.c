/* build: cc -O2
 * unseenfilter: works 0.1 CPU seconds in `open_`, gives up new privileges, sets a filter on system calls by an instruction
 * of its own, and works in `filtered_`. The filter kills at any call but write, rt_sigreturn, exit_group and clock_gettime. */
#include "burn.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
BURNER(open_)
BURNER(filtered_)

static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    double seconds[2] = {0, 0};
    while (seconds[0] < 0.1) burn_sink += open_(10, &seconds[0]);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
    if (call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&filter)) return 3;
    while (seconds[1] < 0.4) burn_sink += filtered_(10, &seconds[1]);
    char text[128];
    int n = snprintf(text, sizeof text, "truth open_ %.6f\ntruth filtered_ %.6f\n", seconds[0], seconds[1]);
    call(SYS_write, 1, (long)text, n);
    call(SYS_exit_group, 5, 0, 0);
}
