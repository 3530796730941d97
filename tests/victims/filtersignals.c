/* build: cc -O2
 * filtersignals [opens]: forbids itself all system calls but those that it makes, or to open files, on pain of death,
 * and uses signals from then on: it sends itself some, sets the timers of its process, and works with handlers of its
 * own for all numbers. Ends with 0 if each signal came as often as it was sent, under the mask that was asked for, and
 * each action is read back as it was set. Otherwise it says what does not hold. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "burn.h"
#include <signal.h>

/* (Headers do not always have it.) */
void (*sigset(int, void (*)(int)))(int);

BURNER(before)
BURNER(after)

/* (Not rt_sigprocmask: who wants another mask in a handler than the kernel gave it is found out.) */
static const int allowed[] = {SYS_rt_sigaction, SYS_rt_sigreturn, SYS_tgkill,    SYS_write,
                              SYS_setitimer,    SYS_clock_gettime, SYS_exit_group};
static pid_t process, thread;
static volatile sig_atomic_t came[65], first_came_inside, came_inside, came_otherwise;
static int failed, allows_nothing_else;

#define EXPECT(what)                                                    \
    do {                                                                \
        if (!(what)) {                                                  \
            fprintf(stderr, "line %d, signal %d: %s\n", __LINE__, signal_number, #what); \
            failed = 1;                                                 \
        }                                                               \
    } while (0)

static void send(int number) { syscall(SYS_tgkill, process, thread, number); }

static void count(int number) { came[number]++; }

/* Sends SIGUSR1 and its own signal once more, and notes whether they come in here. */
static void sends(int number, siginfo_t *info, void *context) {
    (void)context;
    came[number]++;
    if (info->si_code != SI_TKILL || info->si_pid != process) came_otherwise++;
    if (came[number] > 1) return;
    send(SIGUSR1);
    send(number);
    first_came_inside = came[SIGUSR1];
    came_inside = came[number] - 1;
}

static struct sigaction action_that_sends(int flags) {
    struct sigaction action = {.sa_sigaction = sends, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    return action;
}

/* The signal has an action that sends. (Of two that are blocked the kernel keeps one: where a sampler cannot stop its
 * clocks, one that it sent just then takes the other's place.) */
static void comes(int signal_number, int may_come_inside) {
    came[signal_number] = came[SIGUSR1] = came_otherwise = 0;
    send(signal_number);
    if (allows_nothing_else && !may_come_inside) EXPECT(came[signal_number] == 1 || came[signal_number] == 2);
    else EXPECT(came[signal_number] == 2);
    EXPECT(came[SIGUSR1] == 1);
    EXPECT(first_came_inside == 0);
    EXPECT(came_inside == may_come_inside);
    EXPECT(came_otherwise == 0);
}

static void is_used(int signal_number) {
    const int read_back = SA_SIGINFO | SA_RESTART | SA_RESETHAND | SA_NODEFER;
    struct sigaction was, own = action_that_sends(SA_RESTART);
    EXPECT(!sigaction(signal_number, &own, &was));
    EXPECT(was.sa_handler == SIG_DFL && !(was.sa_flags & read_back));
    EXPECT(!sigaction(signal_number, NULL, &was));
    EXPECT(was.sa_sigaction == sends && sigismember(&was.sa_mask, SIGUSR1) && !sigismember(&was.sa_mask, SIGUSR2));
    EXPECT((was.sa_flags & read_back) == (SA_SIGINFO | SA_RESTART));
    comes(signal_number, 0);
    own = action_that_sends(SA_NODEFER);
    EXPECT(!sigaction(signal_number, &own, NULL));
    comes(signal_number, 1);
    own = (struct sigaction){.sa_handler = count, .sa_flags = SA_RESETHAND};
    EXPECT(!sigaction(signal_number, &own, &was) && was.sa_sigaction == sends);
    came[signal_number] = 0;
    send(signal_number);
    EXPECT(came[signal_number] == 1);
    EXPECT(!sigaction(signal_number, NULL, &was) && was.sa_handler == SIG_DFL);
    EXPECT(signal(signal_number, SIG_IGN) == SIG_DFL);
    send(signal_number);
    EXPECT(signal(signal_number, count) == SIG_IGN);
    EXPECT(came[signal_number] == 1);
    send(signal_number);
    EXPECT(came[signal_number] == 2);
    EXPECT(signal(signal_number, SIG_DFL) == count);
}

static void timer_comes_once(int timer, int signal_number) {
    double spent = 0;
    struct itimerval once = {{0, 0}, {0, 20000}};
    EXPECT(signal(signal_number, count) == SIG_DFL);
    came[signal_number] = 0;
    EXPECT(!setitimer(timer, &once, NULL));
    while (!came[signal_number] && spent < 5) burn_sink += before(5, &spent);
    for (spent = 0; spent < 0.1;) burn_sink += before(5, &spent);
    EXPECT(came[signal_number] == 1);
}

int main(int words, char **word) {
    int signal_number = SIGBUS;
    (void)word;
    allows_nothing_else = words == 1;
    double b = 0, a = 0;
    process = getpid();
    thread = syscall(SYS_gettid);
    signal(SIGUSR1, count);
    EXPECT(sigset(SIGBUS, count) == SIG_DFL && sigset(SIGBUS, SIG_DFL) == count);
    /* Set before, and used under the filter. */
    struct sigaction own = action_that_sends(SA_NODEFER);
    EXPECT(!sigaction(SIGBUS, &own, NULL) && !sigaction(SIGTRAP, &own, NULL));
    printf("started\n");
    fflush(stdout);
    struct sock_filter code[40] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;
    for (size_t i = 0; allows_nothing_else && i < sizeof allowed / sizeof *allowed; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    if (!allows_nothing_else) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog filter = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 2;
    while (b < 0.2) burn_sink += before(5, &b);

    comes(SIGBUS, 1);
    comes(SIGTRAP, 1);
    own = (struct sigaction){.sa_handler = SIG_DFL};
    EXPECT(!sigaction(SIGTRAP, &own, NULL));
    const int numbers[] = {SIGURG, SIGTRAP, SIGPROF, SIGVTALRM, SIGALRM, SIGUSR2};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) is_used(numbers[i]);
    timer_comes_once(ITIMER_PROF, SIGPROF);
    timer_comes_once(ITIMER_VIRTUAL, SIGVTALRM);
    timer_comes_once(ITIMER_REAL, SIGALRM);

    own = (struct sigaction){.sa_handler = count, .sa_flags = SA_RESTART};
    for (signal_number = 1; signal_number < 65; signal_number++) {
        if (signal_number != SIGCHLD) sigaction(signal_number, &own, NULL);
        came[signal_number] = 0;
    }
    while (a < 0.2) burn_sink += after(5, &a);
    for (signal_number = 1; signal_number < 65; signal_number++) EXPECT(came[signal_number] == 0);
    TRUTH(before, b);
    TRUTH(after, a);
    fflush(stdout);
    _exit(failed ? 3 : 0);
}
