/* build: cc -O2
 * rooted: as root, goes under another root directory, and forks there: the child can come to no folder of the world outside. */
#include "burn.h"
#include <sys/wait.h>
#include <unistd.h>
BURNER(before)
BURNER(in_the_child)
int main(void) {
    double s = 0, c = 0;
    while (s < 0.1) burn_sink += before(5, &s);
    if (chroot("/var/empty") && chroot("/usr/share")) return 77;
    if (chdir("/")) return 3;
    pid_t child = fork();
    if (!child) {
        while (c < 0.3) burn_sink += in_the_child(5, &c);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) return 4;
    printf("child %d\n", (int)child);
    return 0;
}
