// Programs that are hard to be a guest in: `hostile MODE`. Each ends with 0 if all that it did went as without a guest.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spin.h"

#define NOT_HERE 77
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static volatile sig_atomic_t hits;
static void hit(int s) { (void)s; hits++; }

// An alternate stack of exactly what the kernel asks for, memory below it that nobody may touch.
static int small_altstack(size_t size) {
    enum { BELOW = 64 << 10 };
    unsigned char *memory = mmap(NULL, 256 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 0xab, BELOW);
    stack_t mine = {.ss_sp = memory + BELOW, .ss_size = size}, seen;
    if (sigaltstack(&mine, NULL) || sigaltstack(NULL, &seen)) return 1;
    if (seen.ss_sp != mine.ss_sp || seen.ss_size != size || seen.ss_flags & SS_DISABLE) return 2;
    spin(0.2);
    for (int i = 0; i < BELOW; i++)
        if (memory[i] != 0xab) return 3;
    stack_t larger = {.ss_sp = memory + BELOW, .ss_size = 128 << 10}, none = {.ss_flags = SS_DISABLE};
    if (sigaltstack(&larger, &seen) || seen.ss_sp != mine.ss_sp || seen.ss_size != size) return 4;
    struct sigaction a = {.sa_handler = hit, .sa_flags = SA_ONSTACK};
    hits = 0;
    sigaction(SIGUSR1, &a, NULL);
    raise(SIGUSR1);
    if (hits != 1 || sigaltstack(&none, &seen) || seen.ss_sp != larger.ss_sp) return 5;
    if (sigaltstack(NULL, &seen) || !(seen.ss_flags & SS_DISABLE)) return 6;
    spin(0.05);
    return 0;
}

static void *executes(void *result) {
    char *environment[] = {"A=1", NULL}, *arguments[] = {"/bin/true", NULL};
    int status, *bad = result;
    pid_t pid = vfork();
    if (!pid) {
        execve("/bin/true", arguments, environment);
        _exit(9);
    }
    *bad = waitpid(pid, &status, 0) != pid || status;
    *bad |= posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment) || waitpid(pid, &status, 0) != pid || status;
    return NULL;
}

static int executes_on_a_small_stack(void) {
    pthread_attr_t attributes;
    pthread_t t;
    int bad = 1;
    long least = sysconf(_SC_THREAD_STACK_MIN);
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, least > 16384 ? (size_t)least : 16384)) return NOT_HERE;
    if (pthread_create(&t, &attributes, executes, &bad)) return 2;
    pthread_join(t, NULL);
    return bad;
}

static int many_arguments(void) {
#define A4 "x", "x", "x", "x"
#define A16 A4, A4, A4, A4
#define A64 A16, A16, A16, A16
#define A256 A64, A64, A64, A64
    execl("/bin/sh", "sh", "-c", "[ $# = 575 ]", A256, A256, A64, NULL);
    return 9;
}

static int filter(const int *allowed, int count) {
    struct sock_filter code[40] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int n = 1;
    for (int i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, count ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// The child of vfork has a filter for the program that it executes; the parent has none.
static int a_child_is_filtered(void) {
    spin(0.1);
    pid_t pid = vfork();
    if (!pid) {
        if (filter(NULL, 0)) _exit(8);
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status) return 1;
    spin(0.5);
    return 0;
}

// Forks under a filter that kills whoever makes other system calls than fork and its ends.
static int forks_under_a_filter(void) {
    int allowed[] = {SYS_clone, SYS_clone3, SYS_wait4, SYS_waitid, SYS_exit_group, SYS_exit, SYS_rt_sigreturn,
                     SYS_rt_sigprocmask, SYS_set_robust_list, SYS_rseq, SYS_clock_gettime, SYS_write, SYS_gettid};
    spin(0.05);
    if (filter(allowed, sizeof allowed / sizeof *allowed)) return NOT_HERE;
    pid_t pid = fork();
    if (!pid) {
        spin(0.1);
        _exit(3);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 3) return 1;
    spin(0.1);
    _exit(0);
}

// Blocks every signal, works, and takes or waits for signals in all the ways there are.
static int takes_all_signals(void) {
    sigset_t all, none;
    siginfo_t info;
    int signal;
    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int i = 0; i < 3; i++) {
        struct timespec now = {0, 0}, soon = {0, 20000000};
        spin(0.06);
        if (sigtimedwait(&all, &info, &now) != -1 || errno != EAGAIN) return 1;
        spin(0.06);
        if (sigtimedwait(&all, &info, &soon) != -1 || errno != EAGAIN) return 2;
        spin(0.06);
        kill(getpid(), SIGUSR1);
        if (sigwait(&all, &signal) || signal != SIGUSR1) return 3;
        spin(0.06);
        kill(getpid(), SIGUSR2);
        if (sigwaitinfo(&all, &info) != SIGUSR2 || info.si_signo != SIGUSR2 || info.si_pid != getpid()) return 4;
        spin(0.06);
        if (ppoll(NULL, 0, &soon, &none)) return 5;
        if (pselect(0, NULL, NULL, NULL, &soon, &none)) return 6;
        struct sigaction a = {.sa_handler = hit};
        struct itimerval once = {{0, 0}, {0, 20000}};
        sigaction(SIGALRM, &a, NULL);
        hits = 0;
        setitimer(ITIMER_REAL, &once, NULL);
        spin(0.06);
        if (sigsuspend(&none) != -1 || errno != EINTR || hits != 1) return 7;
        spin(0.06);
        int fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
        struct signalfd_siginfo got;
        if (read(fd, &got, sizeof got) != -1 || errno != EAGAIN) return 8;
        kill(getpid(), SIGUSR1);
        if (read(fd, &got, sizeof got) != sizeof got || got.ssi_signo != SIGUSR1) return 9;
        close(fd);
    }
    return 0;
}

static int raw_thread(void *unused) {
    (void)unused;
    spin(0.4);
    return 0;
}

// A process namespace under the /proc of another one: task numbers there are not ours.
static int new_namespace(void) {
    if (unshare(CLONE_NEWPID)) return NOT_HERE;
    pid_t pid = fork();
    if (!pid) {
        static char stack[64 << 10] __attribute__((aligned(16)));
        if (getpid() != 1) _exit(2);
        spin(0.02);
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        if (clone(raw_thread, stack + sizeof stack, flags, NULL) < 0) _exit(3);
        spin(0.6);
        exit(0);
    }
    int status;
    return waitpid(pid, &status, 0) != pid || status;
}

static int no_time_stamps(void) {
#ifdef __x86_64__
    spin(0.05);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) return NOT_HERE;
    volatile double x = 0;
    for (int i = 0; i < 100000000; i++) x += i;
    pid_t pid = fork();
    if (!pid) _exit(x < 0);
    int status;
    return waitpid(pid, &status, 0) != pid || status;
#else
    return NOT_HERE;
#endif
}

// Takes all signals by system call, as runtimes without libc do.
static int resets_all_signals(void) {
    struct { void *handler; unsigned long flags, restorer, mask; } none = {0};
    spin(0.05);
    for (int i = 1; i <= 64; i++) syscall(SYS_rt_sigaction, i, &none, NULL, 8);
    spin(0.3);
    return 0;
}

static sigjmp_buf out;
static void jump(int s) { (void)s; siglongjmp(out, 1); }

// Leaves whatever it is in by jumping out of a handler, many times.
static int jumps_out_of_handlers(void) {
    int (*mark)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_mark");
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    static volatile int jumps;
    if (!mark) return 1;
    spin(0.05);
    signal(SIGALRM, jump);
    setitimer(ITIMER_REAL, &often, NULL);
    if (sigsetjmp(out, 1)) jumps++;
    while (jumps < 300) mark("here");
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    spin(0.4);
    return 0;
}

// Records into one folder, then into another, then into the first again.
static int two_places(char **folders) {
    int (*on)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_on");
    int (*off)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "pct_off");
    if (!on || !off) return 1;
    for (int i = 0; i < 3; i++) {
        char options[1000];
        snprintf(options, sizeof options, "hz=1000,out=%s", folders[i % 2]);
        if (on(options)) return 2;
        spin(0.1);
        if (off()) return 3;
        // without a word about the place: it stays
        if (on("hz=1000")) return 4;
        spin(0.1);
        if (off()) return 5;
    }
    return 0;
}

// A controller borrows this thread, with all signals blocked, to switch sampling on and off: no signal waits for it afterwards.
static int is_borrowed(const char *folder) {
    int (*on)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_on");
    int (*off)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "pct_off");
    sigset_t all, before, waiting;
    if (!on || !off) return 1;
    sigfillset(&all);
    for (int i = 0; i < 8; i++) {
        char options[1000];
        snprintf(options, sizeof options, "hz=10000,controller=%d,out=%s", getpid(), folder);
        sigprocmask(SIG_BLOCK, &all, &before);
        if (on(options)) return 2;
        sigpending(&waiting);
        if (!sigisemptyset(&waiting)) return 3;
        spin(0.01);
        if (off()) return 4;
        sigpending(&waiting);
        if (!sigisemptyset(&waiting)) return 5;
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    return 0;
}

// Has no descriptor free at first; later it has.
static int runs_out_of_descriptors(void) {
    struct rlimit limit, none;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return 1;
    none = limit;
    none.rlim_cur = 0;
    if (setrlimit(RLIMIT_NOFILE, &none)) return 2;
    spin(0.3);
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 3;
    spin(0.3);
    return 0;
}

// Many children that do not live for long, by fork alone.
static int short_children(void) {
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (!pid) {
            spin(0.01);
            _exit(3);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 3) return 1;
    }
    return 0;
}

// Counts its descriptors while it is sampled.
static int counts_descriptors(void) {
    for (int fd = 3; fd < 256; fd++) close(fd);
    for (int i = 0; i < 20; i++) {
        spin(0.02);
        for (int fd = 3; fd < 256; fd++)
            if (fcntl(fd, F_GETFD) != -1) return 1;
    }
    return 0;
}

// Breakpoints of its own, handled and not.
static int traps(void) {
#ifdef __x86_64__
    spin(0.05);
    signal(SIGTRAP, hit);
    for (int i = 0; i < 1000; i++) {
        __asm__ volatile("int3");
        spin(0.0001);
    }
    if (hits != 1000) return 1;
    if (signal(SIGTRAP, SIG_DFL) != hit) return 2;
    spin(0.1);
    pid_t pid = fork();
    if (!pid) {
        spin(0.02);
        __asm__ volatile("int3");
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGTRAP) return 3;
    signal(SIGTRAP, SIG_IGN);
    spin(0.05);
    return 0;
#else
    return NOT_HERE;
#endif
}

static void *switches(void *functions) {
    int (**f)(const char *) = functions;
    for (int i = 0; i < 1500; i++) {
        f[1](NULL); // pct_off takes no argument: none is harmed by one
        f[0]("hz=1000");
    }
    return NULL;
}

// Forks while other threads switch sampling off and on, and exit.
static int forks_among_switches(void) {
    int (*functions[2])(const char *) = {(int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_on"),
                                         (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_off")};
    pthread_t t;
    if (!functions[0] || !functions[1]) return 1;
    if (pthread_create(&t, NULL, switches, functions)) return 2;
    for (int i = 0; i < 150; i++) {
        pid_t pid = fork();
        if (!pid) {
            spin(0.001);
            // what the child does by itself works whatever its parent was at
            _exit(functions[0]("hz=1000") == 0 ? 3 : 4);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 3) return 3;
    }
    pthread_join(t, NULL);
    return 0;
}

// A thread that blocks all signals and waits in one of the functions that take a mask, until it is cancelled there.
static int cleaned;
static void clean(void *unused) { (void)unused; cleaned++; }
static void *waits_somewhere(void *which) {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    siginfo_t info;
    struct timespec long_time = {100, 0};
    struct epoll_event event;
    int signal;
    pthread_cleanup_push(clean, NULL);
    switch ((long)which) {
    case 0: sigwait(&all, &signal); break;
    case 1: sigwaitinfo(&all, &info); break;
    case 2: sigtimedwait(&all, &info, &long_time); break;
    case 3: ppoll(NULL, 0, NULL, &none); break;
    case 4: pselect(0, NULL, NULL, NULL, NULL, &none); break;
    case 5: sigsuspend(&none); break;
    case 6: epoll_pwait(epoll_create1(0), &event, 1, -1, &none); break;
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static int is_cancelled(void) {
    for (long which = 0; which < 7; which++) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, waits_somewhere, (void *)which)) return 1;
        spin(0.02);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED || cleaned != which + 1) return 2;
    }
    return 0;
}

// Takes nearly all that its address space limit leaves.
static int fills_its_address_space(void) {
    struct rlimit limit = {512 << 20, 512 << 20};
    if (setrlimit(RLIMIT_AS, &limit)) return NOT_HERE;
    spin(0.1);
    size_t got = 0;
    while (malloc(1 << 20)) got++;
    return got < 420;
}

// Finds the file that it is recorded into: 0 if there is none.
static int finds_the_recording(char path[4096]) {
    char line[4200];
    *path = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strchr(line, '/');
        if (name && strstr(name, ".pct\n")) {
            name[strcspn(name, "\n")] = 0;
            snprintf(path, 4096, "%s", name);
        }
    }
    if (maps) fclose(maps);
    return *path != 0;
}

// Cuts its recording at `bytes`.
static int cuts_the_recording(off_t bytes) {
    char path[4096];
    return !finds_the_recording(path) || chmod(path, 0600) || truncate(path, bytes);
}

// Removes its recording, and works on.
static int removes_the_recording(void) {
    char path[4096];
    spin(0.1);
    if (!finds_the_recording(path) || unlink(path)) return 1;
    spin(0.1);
    return 0;
}

// Has no address space left before its file is made. If a sample came earlier, it begins again as a new image.
static int has_no_space(void) {
    char path[4096];
    struct rlimit limit = {300 << 20, 300 << 20};
    if (setrlimit(RLIMIT_AS, &limit)) return NOT_HERE;
    free(malloc(65536)); // what reading the maps needs later
    for (size_t size = 64 << 20; size >= 4096; size /= 2)
        while (mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) !=
               MAP_FAILED) {
        }
    if (finds_the_recording(path)) {
        execl("/proc/self/exe", "hostile", "no-space", (char *)NULL);
        return 1;
    }
    spin(0.4);
    pid_t child = fork();
    if (!child) spin(0.1), _exit(0);
    int status;
    return waitpid(child, &status, 0) != child || status;
}

static void *spins(void *blocks) {
    sigset_t all;
    sigfillset(&all);
    if (blocks) pthread_sigmask(SIG_BLOCK, &all, NULL);
    spin(0.2);
    return NULL;
}

// Threads are sampled into a file that is cut; one of them blocks all signals.
static int is_cut(off_t bytes) {
    pthread_t t[3];
    for (long i = 0; i < 3; i++)
        if (pthread_create(&t[i], NULL, spins, i ? NULL : "")) return 1;
    spin(0.1);
    if (cuts_the_recording(bytes)) return 2;
    spin(0.2);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    pthread_t late;
    if (pthread_create(&late, NULL, spins, NULL)) return 3;
    pthread_join(late, NULL);
    pid_t child = fork();
    if (!child) spin(0.05), _exit(0);
    int status;
    return waitpid(child, &status, 0) != child || status;
}

static volatile char *cut_page;
static sigjmp_buf beyond;
static volatile int info_is_right;
static void on_bus(int s, siginfo_t *info, void *context) {
    (void)context;
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    info_is_right += s == SIGBUS && info->si_addr == cut_page && info->si_code == BUS_ADRERR && sigismember(&now, SIGUSR2) == 1
                     && sigismember(&now, SIGUSR1) == 0 && sigismember(&now, SIGBUS) == 1;
    // The first samples after the recording was cut come in here, where SIGBUS is blocked.
    if (info_is_right == 1) spin(0.01);
    siglongjmp(beyond, 1);
}

// Faults of its own: handled, read back, and deadly without a handler; its recording is cut as well.
static int faults_by_itself(void) {
    struct sigaction a = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO}, back;
    FILE *file = tmpfile();
    spin(0.1);
    if (!file || ftruncate(fileno(file), 4096)) return 1;
    cut_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (cut_page == MAP_FAILED || ftruncate(fileno(file), 0)) return 1;
    sigaddset(&a.sa_mask, SIGUSR2);
    if (sigaction(SIGBUS, &a, &back) || back.sa_handler != SIG_DFL) return 2;
    if (sigaction(SIGBUS, NULL, &back) || back.sa_sigaction != on_bus || !(back.sa_flags & SA_SIGINFO)) return 3;
    if (sigismember(&back.sa_mask, SIGUSR2) != 1 || sigismember(&back.sa_mask, SIGUSR1)) return 4;
    if (cuts_the_recording(0)) return 5;
    for (int i = 0; i < 100; i++) {
        if (!sigsetjmp(beyond, 1)) *cut_page = 1;
        spin(0.002);
    }
    if (info_is_right != 100) return 6;
    signal(SIGBUS, SIG_IGN);
    raise(SIGBUS);
    for (int blocked = 0; blocked < 3; blocked++) {
        pid_t child = fork();
        if (!child) {
            sigset_t all;
            sigfillset(&all);
            spin(0.03);
            if (blocked == 1) sigaction(SIGBUS, &a, NULL), sigprocmask(SIG_BLOCK, &all, NULL);
            if (blocked == 2) signal(SIGBUS, SIG_DFL);
            *cut_page = 1;
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS) return 7;
    }
    return 0;
}

// Loads all objects of a folder; says how many bytes the process has read then.
static int loads_objects(const char *folder) {
    DIR *entries = opendir(folder);
    if (!entries) return 1;
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strstr(path, ".so") && !dlopen(path, RTLD_NOW)) return 2;
    }
    closedir(entries);
    spin(0.4);
    long so_far = 0;
    FILE *io = fopen("/proc/self/io", "r");
    if (!io || fscanf(io, "rchar: %ld", &so_far) != 1) return 3;
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage)) return 4;
    printf("%ld %ld\n", so_far, usage.ru_minflt);
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    size_t frame = getauxval(AT_MINSIGSTKSZ);
    if (!strcmp(mode, "altstack")) return small_altstack(2048) ?: frame > 2048 ? small_altstack(frame) : 0;
    if (!strcmp(mode, "small-stack")) return executes_on_a_small_stack();
    if (!strcmp(mode, "arguments")) return many_arguments();
    if (!strcmp(mode, "child-filter")) return a_child_is_filtered();
    if (!strcmp(mode, "filter-fork")) return forks_under_a_filter();
    if (!strcmp(mode, "all-signals")) return takes_all_signals();
    if (!strcmp(mode, "namespace")) return new_namespace();
    if (!strcmp(mode, "no-time")) return no_time_stamps();
    if (!strcmp(mode, "resets")) return resets_all_signals();
    if (!strcmp(mode, "jumps")) return jumps_out_of_handlers();
    if (!strcmp(mode, "places")) return two_places(argv + 2);
    if (!strcmp(mode, "borrowed")) return is_borrowed(argv[2]);
    if (!strcmp(mode, "descriptors")) return runs_out_of_descriptors();
    if (!strcmp(mode, "children")) return short_children();
    if (!strcmp(mode, "counts-descriptors")) return counts_descriptors();
    if (!strcmp(mode, "traps")) return traps();
    if (!strcmp(mode, "spin")) return spin(0.4), 0;
    if (!strcmp(mode, "nothing")) return 0;
    if (!strcmp(mode, "objects")) return loads_objects(argv[2]);
    if (!strcmp(mode, "switches")) return forks_among_switches();
    if (!strcmp(mode, "cancelled")) return is_cancelled();
    if (!strcmp(mode, "cut")) return is_cut(atol(argv[2]));
    if (!strcmp(mode, "removed")) return removes_the_recording();
    if (!strcmp(mode, "no-space")) return has_no_space();
    if (!strcmp(mode, "bus")) return faults_by_itself();
    if (!strcmp(mode, "space")) return fills_its_address_space();
    return 2;
}
