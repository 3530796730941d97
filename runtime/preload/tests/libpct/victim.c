// What the tests run under libpct.so: `victim MODE [N]`. Work is counted, so that each mode can say what it did.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spin.h"

extern char **environ;

static void *worker(void *seconds) {
    spin(*(double *)seconds);
    return NULL;
}

static int raw_worker(void *seconds) {
    spin(*(double *)seconds);
    return 0;
}

static void *blocking_worker(void *seconds) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigprocmask(SIG_BLOCK, &all, NULL);
    spin(*(double *)seconds);
    return NULL;
}

static volatile sig_atomic_t hits;
static void hit(int s) { (void)s; hits++; }

// Two threads on one CPU hand each other a byte without end; the second one works three times as long for each.
static int there[2], back[2];

// Elapsed nanoseconds of the calls of `work` by each of the two threads. A call that took more than 20 times as long as
// the shortest is left out: something else had the processor.
static uint64_t worked_ns[2];

static uint64_t elapsed_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void work(int thread, long rounds) {
    static volatile unsigned long sink;
    static uint64_t shortest[2] = {UINT64_MAX, UINT64_MAX};
    uint64_t before = elapsed_ns();
    unsigned long x = 1;
    for (long i = 0; i < rounds; i++) x = x * 6364136223846793005ul + (unsigned long)i, sink = x;
    uint64_t took = elapsed_ns() - before;
    if (took < shortest[thread]) shortest[thread] = took;
    if (took < 20 * shortest[thread]) worked_ns[thread] += took;
}

static void *answer(void *seconds) {
    (void)seconds;
    char byte;
    while (read(there[0], &byte, 1) == 1) {
        work(1, 12000);
        if (write(back[1], &byte, 1) != 1) abort();
    }
    return NULL;
}

static int switching(double before, double seconds, const char *executes) {
    pthread_t t;
    char byte = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    if (pipe(there) || pipe(back) || pthread_create(&t, NULL, answer, NULL)) return 1;
    if (before > 0) spin(before);
    seconds += before;
    struct timespec now;
    struct rusage waits;
    getrusage(RUSAGE_SELF, &waits);
    long waited = waits.ru_nvcsw;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    double began = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    for (int failed = 0;;) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        double used = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
        if (used >= seconds) break;
        if (executes && !failed && used >= seconds / 2) {
            // One that fails, with signals blocked and without: sampling goes on.
            char *args[] = {(char *)executes, NULL};
            sigset_t trap, old;
            sigemptyset(&trap);
            sigaddset(&trap, SIGTRAP);
            execv(executes, args);
            pthread_sigmask(SIG_BLOCK, &trap, &old);
            execv(executes, args);
            pthread_sigmask(SIG_SETMASK, &old, NULL);
            failed = 1;
        }
        for (int i = 0; i < 100; i++) {
            work(0, 4000);
            if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 2;
        }
    }
    // How often the threads waited for each second of CPU time while they switched, and how long each one worked: both
    // are the machine's.
    getrusage(RUSAGE_SELF, &waits);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    printf("%.0f %llu %llu\n",
           (double)(waits.ru_nvcsw - waited) / ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 - began),
           (unsigned long long)worked_ns[0], (unsigned long long)worked_ns[1]);
    close(there[1]);
    pthread_join(t, NULL);
    return 0;
}

static int threads(void) {
    double seconds[4] = {0.1, 0.2, 0.3, 0.4};
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "worker-%d", i + 1);
        if (pthread_create(&t[i], NULL, worker, &seconds[i])) return 1;
        pthread_setname_np(t[i], name);
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "spin")) {
        spin(argc > 2 ? atof(argv[2]) : 0.3);
    } else if (!strcmp(mode, "threads")) {
        return threads();
    } else if (!strcmp(mode, "fork")) {
        for (int i = 0; i < 3; i++) {
            pid_t p = fork();
            if (p < 0) return 1;
            if (p == 0) {
                spin(0.15);
                _exit(0);
            }
        }
        int status, bad = 0;
        while (wait(&status) > 0) bad |= status;
        return bad != 0;
    } else if (!strcmp(mode, "exec")) {
        spin(0.1);
        clearenv();
        execl(argv[0], argv[0], "spin", "0.2", (char *)NULL);
        return 1;
    } else if (!strcmp(mode, "execve")) {
        spin(0.1);
        char *none[] = {NULL}, *args[] = {argv[0], "spin", "0.2", NULL};
        execve("/nonexistent", args, none); // fails, and nothing must be the worse for it
        spin(0.05);
        execve(argv[0], args, none);
        return 1;
    } else if (!strcmp(mode, "system")) {
        static char buffer[1];
        int zero = open("/dev/zero", O_RDONLY);
        double end = cpu() + 0.6;
        while (cpu() < end)
            for (int i = 0; i < 1000; i++)
                if (read(zero, buffer, 1) != 1) return 1;
    } else if (!strcmp(mode, "handler")) {
        // All signals of its own, ours among them without its knowledge.
        struct sigaction a = {0}, old;
        a.sa_handler = hit;
        for (int s = 1; s < 65; s++)
            if (s != SIGKILL && s != SIGSTOP && s != 32 && s != 33) {
                if (sigaction(s, &a, NULL)) return 1;
                if (sigaction(s, NULL, &old) || old.sa_handler != hit) return 2;
            }
        spin(0.2);
        if (hits) return 3; // a signal of ours came to the host
        raise(SIGURG);
        raise(SIGUSR1);
        kill(getpid(), 61);
        if (hits != 3) return 4; // one of the host's did not
    } else if (!strcmp(mode, "die")) {
        spin(0.1);
        raise(SIGURG); // ignored by default
        raise(SIGSTKFLT);
        return 1;
    } else if (!strcmp(mode, "urgent")) {
        // The kernel's own SIGURG, many times: it is ignored, and no expiry of a clock.
        int listener = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0), in;
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof at;
        if (bind(listener, (struct sockaddr *)&at, length) || listen(listener, 1)) return 77;
        if (getsockname(listener, (struct sockaddr *)&at, &length)) return 77;
        if (connect(out, (struct sockaddr *)&at, length) || (in = accept(listener, NULL, NULL)) < 0) return 77;
        fcntl(in, F_SETOWN, getpid());
        for (int i = 0; i < 1000; i++) {
            char octet;
            if (send(out, "!", 1, MSG_OOB) != 1) return 1;
            spin(0.0003);
            recv(in, &octet, 1, MSG_OOB);
        }
        struct timespec all;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
        printf("%f\n", all.tv_sec + all.tv_nsec * 1e-9);
    } else if (!strcmp(mode, "prof")) {
        struct sigaction a = {0};
        a.sa_handler = hit;
        sigaction(SIGPROF, &a, NULL);
        struct itimerval every = {{0, 10000}, {0, 10000}};
        setitimer(ITIMER_PROF, &every, NULL);
        spin(0.4);
        if (hits < 5) return 1; // the kernel's ticks are lost on a loaded virtual machine
    } else if (!strcmp(mode, "blocked")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        spin(0.3);
        char *args[] = {argv[0], "spin", "0.05", NULL};
        execv(argv[0], args);
        return 1;
    } else if (!strcmp(mode, "switching")) {
        return switching(0, 2, argc > 2 ? argv[2] : NULL);
    } else if (!strcmp(mode, "switching-later")) {
        return switching(0.6, 1, NULL);
    } else if (!strcmp(mode, "half-blocked")) {
        // One thread blocks the signals that ours are among (but not all), the other works on.
        double seconds = 0.5;
        pthread_t t;
        sigset_t all, old;
        sigemptyset(&all);
        sigaddset(&all, SIGURG);
        sigaddset(&all, SIGTRAP);
        for (int s = SIGRTMIN; s <= SIGRTMAX; s++) sigaddset(&all, s);
        pthread_sigmask(SIG_BLOCK, &all, &old);
        if (pthread_create(&t, NULL, worker, &seconds)) return 1;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        spin(0.5);
        pthread_join(t, NULL);
        spin(0.1);
    } else if (!strcmp(mode, "all-blocked")) {
        // A worker blocks everything by its maker's mask, one by itself. Signals of ours that somebody sends wait for them.
        double seconds = 0.5;
        pthread_t t[2];
        sigset_t all, old, now;
        struct sigaction a = {0};
        a.sa_handler = hit;
        sigaction(SIGURG, &a, NULL);
        sigaction(61, &a, NULL);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        pthread_sigmask(SIG_BLOCK, NULL, &now);
        if (sigismember(&now, SIGURG) != 1 || sigismember(&now, 61) != 1 || sigismember(&old, 61)) return 2;
        if (pthread_create(&t[0], NULL, worker, &seconds)) return 1;
        if (pthread_create(&t[1], NULL, blocking_worker, &seconds)) return 1;
        spin(0.2);
        if (argc < 3) {
            pthread_join(t[0], NULL);
            pthread_join(t[1], NULL);
            return hits;
        }
        raise(SIGURG);
        kill(getpid(), 61);
        spin(0.05);
        if (hits) return 3; // they did not wait
        pthread_join(t[0], NULL);
        pthread_join(t[1], NULL);
        if (hits) return 4;
        siginfo_t info;
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, 61);
        if (sigtimedwait(&one, &info, &(struct timespec){0, 0}) != 61 || info.si_pid != getpid()) return 5;
        pthread_sigmask(SIG_UNBLOCK, &all, NULL);
        if (hits != 1) return 6; // the one that nobody waited for
        sigprocmask(SIG_SETMASK, &old, &now);
        if (sigismember(&now, SIGURG) || sigismember(&now, 61)) return 7;
    } else if (!strcmp(mode, "raw-fork")) {
        pid_t p = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (p == 0) {
            struct sigaction a;
            sigaction(SIGUSR1, NULL, &a); // a wrapped call: the sampler notices that it is in another process
            spin(0.2);
            _exit(0);
        }
        spin(0.1);
        int status;
        if (waitpid(p, &status, 0) != p) return 1;
        return status != 0;
    } else if (!strcmp(mode, "daemon")) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        int null = open("/dev/null", O_RDWR);
        for (int fd = null; fd < 20; fd++) dup2(null, fd);
        spin(0.1);
        if (geteuid() == 0 && chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0) (void)!setuid(65534);
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#define ALLOW(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
            ALLOW(SYS_rt_sigreturn), ALLOW(SYS_exit_group), ALLOW(SYS_write),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        };
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
        static volatile double x;
        for (long i = 0; i < 300000000; i++) x += i; // no clock: it may not even call the vdso's fall-back
        syscall(SYS_exit_group, 0);
    } else if (!strcmp(mode, "clone")) {
        // A thread that no libc knows of.
        size_t size = 1 << 20;
        char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        double seconds = 0.5;
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        static char tls[4096];
        (void)tls;
        if (clone(raw_worker, stack + size, flags, &seconds) < 0) return 1;
        spin(0.6);
    } else if (!strcmp(mode, "dlopen")) {
        for (int i = 0; i < 30; i++) {
            void *m = dlopen("libm.so.6", RTLD_NOW);
            if (!m) return 1;
            double (*f)(double, double) = (double (*)(double, double))dlsym(m, "pow");
            volatile double x = 0;
            double end = cpu() + 0.01;
            while (cpu() < end)
                for (int k = 0; k < 1000; k++) x += f(k, 1.5);
            dlclose(m);
        }
    } else if (!strcmp(mode, "mark")) {
        int (*mark)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_mark");
        int (*on)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_on");
        int (*off)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "pct_off");
        int (*stat)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "pct_stat");
        if (!mark || !on || !off || !stat) return 1;
        if (stat() != 0 || mark("too early") != -1) return 2;
        if (on(NULL) || stat() != 1) return 3;
        spin(0.1);
        if (mark("half time")) return 4;
        if (off() || stat() != 0 || off() != 1) return 5;
        spin(0.2); // not sampled
        if (on(NULL) || stat() != 1) return 6;
        spin(0.1);
    } else if (!strcmp(mode, "stacks")) {
        // Threads with the smallest stacks that libc allows.
        pthread_attr_t a;
        pthread_attr_init(&a);
        pthread_attr_setstacksize(&a, 65536);
        double seconds = 0.02;
        for (int i = 0; i < 20; i++) {
            pthread_t t;
            if (pthread_create(&t, &a, worker, &seconds)) return 1;
            pthread_join(t, NULL);
        }
    } else if (!strcmp(mode, "sleep")) {
        // Every call that a signal would cut short.
        struct timespec t = {0, 200000000}, left = {0, 0};
        spin(0.05);
        if (nanosleep(&t, &left)) return 1;
        spin(0.05);
    } else {
        return 64;
    }
    return 0;
}
