// Programs under filters on system calls: `filters MODE`. Each works 0.2 s before its filter and 0.3 s under it.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin.h"

static struct sock_filter code[64];
static struct sock_fprog program = {0, code};

static void add(struct sock_filter instruction) { code[program.len++] = instruction; }

// A filter that answers `listed` to these calls and `other` to the rest.
static void make(const int *calls, int count, unsigned listed, unsigned other) {
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (int i = 0; i < count; i++) {
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1));
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed));
    }
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, other));
}

static long by_instruction(long number, long a, long b, void *c) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c);
#endif
}

static int spin_and_compare(const void *a, const void *b) {
    spin(0.3);
    return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    const int without_return[] = {SYS_clock_gettime, SYS_exit_group};
    const int with_return[] = {SYS_clock_gettime, SYS_exit_group, SYS_rt_sigreturn};
    const int perf[] = {SYS_perf_event_open};
    if (!strcmp(mode, "under")) {
        spin(0.3);
        return 0;
    }
    spin(0.2);
    if (!strcmp(mode, "question")) {
        // Whether the kernel knows filters; then a thread's worth of work without one.
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == 0) return 1;
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == 0) return 1;
        execl("/proc/self/exe", argv[0], "under", NULL);
        return 2;
    }
    int allows = !strcmp(mode, "allows");
    if (!strcmp(mode, "exec")) make(perf, 1, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
    else if (allows) make(with_return, 3, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
    else make(without_return, 2, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 3;
    long result;
    if (!strcmp(mode, "landlock")) {
        // Landlock's limits, of which the kernel need not know.
        syscall(446, -1, 0);
        spin(0.3);
        return 0;
    }
    if (!strcmp(mode, "instruction")) result = by_instruction(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    else if (!strcmp(mode, "syscall")) result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    else result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (result) _exit(77);
    if (!strcmp(mode, "exec")) {
        execl("/proc/self/exe", argv[0], "under", NULL);
        return 4;
    }
    if (allows) {
        // Callers in a library of which no sample met anything before.
        int some[] = {2, 1};
        qsort(some, 2, sizeof *some, spin_and_compare);
    } else spin(0.3);
    syscall(SYS_exit_group, 0);
}
