/* build: cc -O1
 * vforkwait SECONDS: its only thread waits in vfork for a child that sleeps so long. Exit status 5. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int seconds = argc > 1 ? atoi(argv[1]) : 1;
    printf("started\n");
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep(seconds);
        _exit(0);
    }
    waitpid(child, 0, 0);
    return 5;
}
