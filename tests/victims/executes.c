/* build: cc -O2
 * executes PROGRAM: executes PROGRAM in each way that there is, by a path, by a descriptor, from a child of vfork, with
 * the C library's posix_spawn, from a child of fork at once, after 700 calls, and after work; and at last in its own place.
 * `executes PROGRAM once` leaves out the ways in which it is executed late or by the process itself. Ends with 3 if
 * something failed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

extern char **environ;
BURNER(works)

static void become(char *program, const char *way) {
    char *words[] = {program, (char *)way, "", NULL};
    execve(program, words, environ);
    _exit(3);
}

static int ended_well(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {}
    return child > 0 && status == 0;
}

int main(int count, char **words) {
    char *program = words[1], *spawned[] = {program, "spawn", NULL}, *opened[] = {program, "descriptor", NULL};
    double s = 0;
    while (s < 0.1) burn_sink += works(5, &s);
    pid_t child = fork();
    if (!child) become(program, "fork");
    if (!ended_well(child)) return 3;
    child = vfork();
    if (!child) become(program, "vfork");
    if (!ended_well(child)) return 3;
    if (posix_spawn(&child, program, NULL, NULL, spawned, environ) || !ended_well(child)) return 3;
    child = fork();
    if (!child) {
        int file = open(program, O_PATH);
        syscall(SYS_execveat, file, "", opened, environ, AT_EMPTY_PATH);
        _exit(3);
    }
    if (!ended_well(child)) return 3;
    if (count > 2) return 0;
    child = fork();
    if (!child) {
        for (int i = 0; i < 700; i++) syscall(SYS_getppid);
        s = 0;
        while (s < 0.1) burn_sink += works(5, &s);
        become(program, "late");
    }
    if (!ended_well(child)) return 3;
    become(program, "itself");
}
