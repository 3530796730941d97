/* build: cc -O2
 * forktree: parent burns 0.2 s, two children 0.3 s each, a grandchild 0.4 s by vfork+exec of itself, one child by
 * posix_spawn. Every process prints its own truth; exit status 7 when all went well. */
#include "burn.h"
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
BURNER(in_parent)
BURNER(in_child)
BURNER(in_grandchild)
BURNER(in_spawned)
extern char **environ;

int main(int argc, char **argv) {
    double s = 0;
    if (argc > 1 && !strcmp(argv[1], "grandchild")) {
        while (s < 0.4) burn_sink += in_grandchild(10, &s);
        TRUTH(in_grandchild, s);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "spawned")) {
        while (s < 0.4) burn_sink += in_spawned(10, &s);
        TRUTH(in_spawned, s);
        return 0;
    }
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        pid_t p = fork();
        if (p == 0) {
            if (i == 1) {
                pid_t g = vfork();
                if (g == 0) { execl("/proc/self/exe", argv[0], "grandchild", (char *)0); _exit(127); }
                int st;
                waitpid(g, &st, 0);
                if (st) _exit(1);
            }
            while (s < 0.3) burn_sink += in_child(10, &s);
            TRUTH(in_child, s);
            fflush(stdout);
            _exit(0);
        }
    }
    char *args[] = {argv[0], "spawned", 0};
    pid_t sp;
    if (posix_spawn(&sp, "/proc/self/exe", 0, 0, args, environ)) return 1;
    while (s < 0.2) burn_sink += in_parent(10, &s);
    int st, bad = 0;
    while (wait(&st) > 0) bad |= st;
    TRUTH(in_parent, s);
    return bad ? 1 : 7;
}
