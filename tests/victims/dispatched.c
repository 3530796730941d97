/* build: cc -O2 */
/*
 * Has the kernel turn its system calls into SIGSYS, as Wine does with those of Windows programs, for ROUNDS of about a
 * millisecond. It answers getpid itself, and counts calls that it did not make.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

enum { LET_PASS = 0, TURN = 1, RANGE = 4096, OWN_ANSWER = 4242, MOST = 50 };

static volatile char selector;
static volatile int emulated, foreign;
static volatile uint64_t sum;

/* The only code whose calls pass: the return from the handler. */
extern char allowed[];
__asm__(".text\n.balign 4096\nallowed: syscall\n.balign 4096\n");

static void on_call(int signal, siginfo_t *info, void *context) {
    (void)signal;
    selector = LET_PASS;
    if (info->si_syscall == SYS_getpid) {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = OWN_ANSWER;
        emulated++;
    } else if (++foreign > MOST) {
        _exit(77);
    }
    selector = TURN;
    __asm__ volatile("mov %0, %%rsp\n mov %1, %%eax\n jmp allowed" ::"r"(context), "i"(SYS_rt_sigreturn) : "memory");
}

static long call(long number) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number) : "rcx", "r11", "memory");
    return answer;
}

__attribute__((noinline)) void compute(void) {
    for (int i = 0; i < 1500000; i++) sum += i * sum;
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 1000, answered = 0;
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, 0);
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, allowed, RANGE, &selector)) return 3;
    puts("ready");
    fflush(stdout);
    selector = TURN;
    for (int round = 0; round < rounds; round++) {
        compute();
        answered += call(SYS_getpid) == OWN_ANSWER;
    }
    selector = LET_PASS;
    printf("%d of %d answered, %d foreign\n", answered, rounds, foreign);
    return answered == emulated ? 0 : 4;
}
