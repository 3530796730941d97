// Sets the actions of signals by the instruction, so that nobody who stands in front of the C library sees it:
// `actions HOW [SIGNAL]`. Without SIGNAL all actions are set. As a library it exports `set_actions`.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "spin.h"

struct action {
    void *handler;
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

extern void return_from_handler(void);
#ifdef __x86_64__
__asm__(".text\nreturn_from_handler: mov $15, %eax\nsyscall\n");
static long set_action(int signal, const struct action *action) {
    long result;
    register long size __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_rt_sigaction), "D"((long)signal), "S"(action), "d"(0L), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}
#else
__asm__(".text\nreturn_from_handler: mov x8, #139\nsvc #0\n");
static long set_action(int signal, const struct action *action) {
    register long x0 __asm__("x0") = signal, x1 __asm__("x1") = (long)action, x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 8, x8 __asm__("x8") = SYS_rt_sigaction;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x3), "r"(x8) : "memory");
    return x0;
}
#endif

static volatile int came;
static void count(int signal) { (void)signal; came++; }

int set_actions(const char *how, int only) {
    struct action to = {0};
    if (!strcmp(how, "ignored")) to.handler = (void *)SIG_IGN;
    if (!strcmp(how, "own")) to = (struct action){(void *)count, 0x04000000 | SA_RESTART, return_from_handler, 0};
    for (int s = 1; s < 65; s++)
        if (s != SIGKILL && s != SIGSTOP && (only == 0 || s == only) && set_action(s, &to)) return 1;
    return 0;
}

#ifndef LIBRARY
int main(int argc, char **argv) {
    spin(0.1);
    if (argc < 2 || set_actions(argv[1], argc > 2 ? atoi(argv[2]) : 0)) return 1;
    spin(0.6);
    printf("%d came\n", came);
    return 0;
}
#endif
