// What a program can do to itself by system calls: `itself WHAT [SECONDS]`. Each works so long before it, and after it,
// prints what it saw, and ends with a status of its own: under the sampler both must be as without.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "spin.h"

// The status of a mode that this machine cannot have.
enum { NOT_HERE = 77 };

// By the instruction, so that nobody who stands in front of the C library sees it.
static long raw(long number, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

// Work that makes no system call.
static volatile uint64_t sink;
static void count(long rounds) {
    for (long i = 0; i < rounds; i++) sink += (uint64_t)i;
}
enum { HUNDRED_MS = 40000000 };

static void strict(const char *what) {
    if (!strcmp(what, "strict")) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(NOT_HERE);
    } else if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)) _exit(NOT_HERE);
    for (int i = 0; i < 4; i++) {
        count(HUNDRED_MS / 2);
        if (write(1, ".", 1) != 1) _exit(1);
    }
    // (exit_group, which the C library would call, is not allowed.)
    raw(SYS_exit, 3, 0, 0, 0);
}

// Wine's way: outside of one page each call becomes SIGSYS while `blocks` says so.
static volatile char blocks;
static volatile int own, foreign;
extern char allowed[];
__asm__(".text\n.balign 4096\nallowed: mov $15, %eax\nsyscall\n.balign 4096\n");
static void on_call(int number, siginfo_t *info, void *context) {
    (void)number;
    blocks = 0;
    if (info->si_syscall == SYS_getpid) {
        own++;
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4242;
    } else {
        foreign++;
    }
    blocks = 1;
    __asm__ volatile("mov %0, %%rsp\njmp allowed" ::"r"(context) : "memory");
}

static int dispatch(void) {
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    if (prctl(59, 1, allowed, 4096, &blocks)) return NOT_HERE;
    int answered = 0;
    blocks = 1;
    for (int i = 0; i < 100; i++) {
        count(HUNDRED_MS / 30);
        answered += raw(SYS_getpid, 0, 0, 0, 0) == 4242;
    }
    blocks = 0;
    printf("answered %d own %d foreign %d\n", answered, own, foreign);
    return 5;
}

// A thread whose handlers have a stack of their own takes its own stack's rights away while it counts in registers: a
// stack of another protection key looks the same to a handler. (Not those of the uppermost part, where the C library and
// the kernel keep what is the thread's.)
enum { STACK = 1 << 20, UPPERMOST = 1 << 16 };

__attribute__((noinline)) static void count_without(void *stack) {
    register long at __asm__("r12") = (long)stack, length __asm__("r13") = STACK - UPPERMOST;
    register long rounds __asm__("rbx") = HUNDRED_MS * 4L;
    __asm__ volatile(
        "mov $10, %%eax\nmov %1, %%rdi\nmov %2, %%rsi\nxor %%edx, %%edx\nsyscall\n"
        "1: dec %0\njnz 1b\n"
        "mov $10, %%eax\nmov %1, %%rdi\nmov %2, %%rsi\nmov $3, %%edx\nsyscall\n"
        : "+r"(rounds)
        : "r"(at), "r"(length)
        : "rax", "rcx", "rdx", "rsi", "rdi", "r11", "memory", "cc");
}

static void *without_stack(void *stack) {
    static char other[1 << 16];
    stack_t alternate = {.ss_sp = other, .ss_size = sizeof other};
    sigaltstack(&alternate, NULL);
    spin(0.03);
    char room[UPPERMOST + 1024];
    __asm__ volatile("" ::"r"(room) : "memory");
    count_without(stack);
    spin(0.02);
    return NULL;
}

static int stack_without_rights(void) {
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, without_stack, stack)) return NOT_HERE;
    pthread_join(thread, NULL);
    return 6;
}

// Code on a page that can only be executed: it counts, and makes a system call each time.
static int execute_only(void) {
    static const unsigned char code[] = {
        0x53,                         // push rbx
        0x48, 0x89, 0xfb,             // mov rbx, rdi
        0xb8, 0x27, 0x00, 0x00, 0x00, // 1: mov eax, SYS_getpid
        0x0f, 0x05,                   // syscall
        0x48, 0xff, 0xcb,             // dec rbx
        0x75, 0xf4,                   // jnz 1b
        0x5b, 0xc3,                   // pop rbx; ret
    };
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    if (mprotect(page, 4096, PROT_EXEC)) return NOT_HERE;
    ((void (*)(uint64_t))page)(2000000);
    return 7;
}

// Reading the time stamp counter becomes a fault between the two steps by which a program sets a filter on system calls:
// pct's pause, which a filter ends, must not end then.
static int without_counter(void) {
    static struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    static struct sock_fprog program = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return NOT_HERE;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return NOT_HERE;
    spin(0.06);
    return 9;
}

static int limit(int which, rlim_t most) {
    struct rlimit to = {most, most};
    return (int)raw(SYS_prlimit64, 0, which, (long)&to, 0);
}

// The rest: what the call gave.
static long other(const char *what) {
    static struct itimerval profiling = {{0, 50000}, {0, 50000}};
    static char page[8192];
    stack_t none = {.ss_flags = SS_DISABLE};
    if (!strcmp(what, "tid_address")) return raw(SYS_set_tid_address, 0, 0, 0, 0) > 0;
    if (!strcmp(what, "robust_list")) return raw(SYS_set_robust_list, 0, 24, 0, 0);
    if (!strcmp(what, "personality")) return raw(SYS_personality, 0x0040000, 0, 0, 0) >= 0;
    if (!strcmp(what, "unshare_files")) return raw(SYS_unshare, 0x400, 0, 0, 0);
    if (!strcmp(what, "unshare_places")) return raw(SYS_unshare, 0x200, 0, 0, 0);
    if (!strcmp(what, "close_range")) return raw(SYS_close_range, 3, ~0u, 0, 0);
    if (!strcmp(what, "close_all")) {
        for (int i = 3; i < 1024; i++) raw(SYS_close, i, 0, 0, 0);
        return open("/dev/null", O_RDONLY);
    }
    if (!strcmp(what, "over_files")) {
        for (int i = 3; i < 64; i++) raw(SYS_dup3, 1, i, 0, 0);
        return 0;
    }
    if (!strcmp(what, "no_alternate_stack")) return raw(SYS_sigaltstack, (long)&none, 0, 0, 0);
    if (!strcmp(what, "not_dumpable")) return raw(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0);
    if (!strcmp(what, "root_elsewhere")) return raw(SYS_chroot, (long)"/proc", 0, 0, 0) == 0;
    if (!strcmp(what, "few_files")) return limit(RLIMIT_NOFILE, 3);
    if (!strcmp(what, "no_signals_queued")) return limit(RLIMIT_SIGPENDING, 0);
    if (!strcmp(what, "no_memory")) return limit(RLIMIT_AS, 1 << 20);
    if (!strcmp(what, "no_locked_memory")) {
        limit(RLIMIT_MEMLOCK, 0);
        return raw(SYS_mlockall, 2, 0, 0, 0) > 0;
    }
    if (!strcmp(what, "short_files")) return limit(RLIMIT_FSIZE, 4096);
    if (!strcmp(what, "own_timer")) {
        // (One that expires would kill.)
        struct itimerval off = {0};
        long set = raw(SYS_setitimer, ITIMER_PROF, (long)&profiling, 0, 0);
        return set + raw(SYS_setitimer, ITIMER_PROF, (long)&off, 0, 0);
    }
    if (!strcmp(what, "no_timers")) {
        for (int i = 0; i < 64; i++) raw(SYS_timer_delete, i, 0, 0, 0);
        return 0;
    }
    if (!strcmp(what, "all_blocked")) {
        uint64_t all = ~0ull;
        return raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, 0, 8);
    }
    if (!strcmp(what, "thrown_away")) return raw(SYS_madvise, ((long)page + 4095) & ~4095L, 4096, 4, 0);
    if (!strcmp(what, "events_off")) return raw(SYS_prctl, 31, 0, 0, 0);
    if (!strcmp(what, "niceness")) return raw(SYS_setpriority, PRIO_PROCESS, 0, 19, 0);
    if (!strcmp(what, "landlock")) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        uint64_t handled = (1 << 13) - 1;
        long set = raw(444, (long)&handled, 8, 0, 0);
        return set < 0 ? -NOT_HERE : raw(446, set, 0, 0, 0);
    }
    return -NOT_HERE;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    spin(argc > 2 ? atof(argv[2]) : 0.03);
    if (!strncmp(what, "strict", 6)) strict(what);
    if (!strcmp(what, "dispatch")) return dispatch();
    if (!strcmp(what, "stack_without_rights")) return stack_without_rights();
    if (!strcmp(what, "execute_only")) return execute_only();
    if (!strcmp(what, "without_counter")) return without_counter();
    long gave = other(what);
    if (gave == -NOT_HERE) return NOT_HERE;
    spin(0.06);
    // What a program does later: a thread, a child, memory, a file.
    int files = open("/dev/null", O_RDONLY);
    printf("%s gave %ld, a file %d, memory %d\n", what, gave, files, malloc(1 << 16) != NULL);
    return 8;
}
