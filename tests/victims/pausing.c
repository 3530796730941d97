/* build: cc -O2
 * pausing forks|vforks|rooted|late: gives up new privileges, does something, and only then sets a filter on system calls,
 * under which it works. The filter kills who opens a file. What it does meanwhile: it forks a child that sets that filter
 * and works; or a child of vfork sets it; or (as root, before all) it goes under another root directory. Or nothing: the
 * child is forked, and works, under the filter. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

BURNER(before)
BURNER(in_the_child)
BURNER(under_it)

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, else_skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, else_skip)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

static int filter(void) {
    struct sock_filter steps[] = {
        LOAD(nr), IF(SYS_openat, 1), RETURN(SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static int ended_well(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && !status;
}

/* The child writes for itself: its parent knows none of its times. */
static int work_in_a_child(int filters) {
    pid_t child = fork();
    if (child) return ended_well(child);
    double spent = 0;
    if (filters && filter()) _exit(3);
    while (spent < 0.3) burn_sink += in_the_child(5, &spent);
    TRUTH(in_the_child, spent);
    fflush(stdout);
    _exit(0);
}

static int filter_in_a_child_of_vfork(void) {
    pid_t child = vfork();
    if (child) return ended_well(child);
    _exit(filter() ? 3 : 0);
}

int main(int count, char **words) {
    double spent = 0;
    if (count < 2) return 2;
    if (!strcmp(words[1], "rooted")) {
        while (spent < 0.1) burn_sink += before(5, &spent);
        if (chroot("/var/empty") && chroot("/usr/share")) return 77;
        if (chdir("/")) return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
    if (!strcmp(words[1], "forks") && !work_in_a_child(1)) return 3;
    if (!strcmp(words[1], "vforks") && !filter_in_a_child_of_vfork()) return 3;
    spent = 0;
    while (spent < 0.1) burn_sink += before(5, &spent);
    if (filter()) return 2;
    spent = 0;
    while (spent < 0.3) burn_sink += under_it(5, &spent);
    TRUTH(under_it, spent);
    if (!strcmp(words[1], "late") && (fflush(stdout) || !work_in_a_child(0))) return 3;
    return 0;
}
