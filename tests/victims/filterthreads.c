/* build: cc -O2 -pthread
 * filterthreads kills|fails [signal]: has one thread when it sets a filter on system calls, makes another under it, and
 * works in both and in its first one. The filter kills who opens a file. Or it fails what a sampler can do
 * without, and kills for a call that nobody makes and for arguments that nobody passes. With a second
 * word it works in none of them, but handles a signal, and a child of vfork sets the same signal's action. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

BURNER(early)
BURNER(late)
BURNER(mainly)

static pthread_barrier_t step;
static double spent[3];

static void *begun_before(void *unused) {
    (void)unused;
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    while (spent[0] < 0.3) burn_sink += early(5, &spent[0]);
    return NULL;
}

static void *begun_under_it(void *unused) {
    (void)unused;
    while (spent[1] < 0.3) burn_sink += late(5, &spent[1]);
    return NULL;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, else_skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, else_skip)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

static int filter(int kills) {
    struct sock_filter killing[] = {
        LOAD(nr), IF(SYS_openat, 1), RETURN(SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_filter failing[] = {
        LOAD(nr),
        IF(SYS_personality, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),
        IF(SYS_openat, 1), RETURN(SECCOMP_RET_ERRNO | EACCES),
        IF(SYS_mount, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
        IF(SYS_setpriority, 3), LOAD(args[0]), IF(7, 1), RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = kills ? (struct sock_fprog){sizeof killing / sizeof *killing, killing}
                                      : (struct sock_fprog){sizeof failing / sizeof *failing, failing};
    /* So libseccomp asks whether there is such a call: it is refused. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) != -1) return 1;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static volatile sig_atomic_t came;
static void count_one(int signal) {
    (void)signal;
    came++;
}

/* A child of vfork has its parent's memory, but actions of its own. */
static int keeps_its_handler_when_a_child_sets_one(void) {
    struct sigaction own = {.sa_handler = count_one}, other = {.sa_handler = SIG_DFL};
    if (sigaction(SIGURG, &own, NULL)) return 0;
    pid_t child = vfork();
    if (!child) {
        sigaction(SIGURG, &other, NULL);
        raise(SIGURG);
        _exit(0);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && !status && !raise(SIGURG) && came == 1;
}

int main(int count, char **words) {
    pthread_t first, second;
    if (count < 2) return 2;
    pthread_barrier_init(&step, NULL, 2);
    if (pthread_create(&first, NULL, begun_before, NULL)) return 2;
    pthread_barrier_wait(&step);
    if (filter(!strcmp(words[1], "kills"))) return 2;
    if (count > 2) return keeps_its_handler_when_a_child_sets_one() ? 0 : 3;
    pthread_barrier_wait(&step);
    if (pthread_create(&second, NULL, begun_under_it, NULL)) return 2;
    while (spent[2] < 0.3) burn_sink += mainly(5, &spent[2]);
    if (pthread_join(first, NULL) || pthread_join(second, NULL)) return 2;
    TRUTH(early, spent[0]);
    TRUTH(late, spent[1]);
    TRUTH(mainly, spent[2]);
    return 0;
}
