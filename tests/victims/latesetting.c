/* build: cc -O2 -ldl */
/*
 * latesetting MODE [PLUGIN]: says `ready`, works in `open_` until a line comes, makes a setting under which most system
 * calls end the program, and works in `limited_`. MODE: `prctl`, `syscall` (a filter on system calls, by this
 * function), `plugin` (by a function of a shared object that is loaded after the line; it is compiled from this file
 * with -DPLUGIN), `strict`, `dispatch` (system calls become signals), `counter` (reading the time stamp counter becomes
 * a fault).
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

/* Allows what a thread needs that only computes, writes and ends. */
static struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog filter = {sizeof code / sizeof *code, code};

#ifdef PLUGIN
int limit(void) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LET_PASS = 0, TURN = 1, TURNS = 400000000 };

static volatile uint64_t sum;
static volatile char selector;
extern char allowed[];
__asm__(".text\n.balign 4096\nallowed: ret\n.balign 4096\n");

__attribute__((noinline)) static void open_(void) {
    for (int i = 0; i < 300000; i++) sum += i * sum;
}

__attribute__((noinline)) static void limited_(void) {
    for (int i = 0; i < TURNS; i++) sum += i * sum;
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "prctl";
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char line[16];
    write(1, "ready\n", 6);
    while (poll(&input, 1, 0) == 0) open_();
    if (read(0, line, sizeof line) <= 0) return 2;
    int refused = 0, is_strict = !strcmp(mode, "strict"), dispatches = !strcmp(mode, "dispatch");
    if (!strcmp(mode, "prctl")) {
        refused = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    } else if (!strcmp(mode, "syscall")) {
        refused = syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
                  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    } else if (!strcmp(mode, "plugin")) {
        void *plugin = dlopen(words[2], RTLD_NOW);
        int (*limit)(void) = plugin ? (int (*)(void))dlsym(plugin, "limit") : 0;
        refused = !limit || limit();
    } else if (is_strict) {
        refused = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    } else if (dispatches) {
        refused = prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, allowed, 4096, &selector);
        selector = TURN;
    } else {
        refused = prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    }
    if (refused) return 3;
    limited_();
    selector = LET_PASS;
    write(1, "done\n", 5);
    /* The strict mode lets only the thread's own end pass. */
    for (;;) syscall(is_strict ? SYS_exit : SYS_exit_group, 5);
}
#endif
