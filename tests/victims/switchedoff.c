/* build: cc -O2 -ldl
 * switchedoff HOW SECONDS: works, calls pct_off if there is one, and works again. HOW it goes on:
 * exit, _exit, exec: it ends so (exec: it becomes `true`).
 * cut: it blocks SIGBUS, cuts the recording, calls pct_on and works again.
 * over: the same, but it maps memory of its own over the recording. */
#include "burn.h"
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

BURNER(while_on)
BURNER(while_off)
BURNER(on_again)

/* The mapping of the recording: its path and its place. */
static int recording(char *path, unsigned long *from, unsigned long *to) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        size_t end = strcspn(line, "\n");
        char *slash = strchr(line, '/');
        if (!slash || end < 4 || memcmp(line + end - 4, ".pct", 4)) continue;
        line[end] = 0;
        strcpy(path, slash);
        found = sscanf(line, "%lx-%lx", from, to) == 2;
    }
    if (maps) fclose(maps);
    return found;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *how = argv[1];
    double each = atof(argv[2]), on = 0, off = 0, again = 0;
    int (*pct_off)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "pct_off");
    int (*pct_on)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "pct_on");
    setvbuf(stdout, 0, _IONBF, 0);
    while (on < each) burn_sink += while_on(20, &on);
    if (pct_off && pct_off()) return 3;
    while (off < each) burn_sink += while_off(20, &off);
    TRUTH(while_on, on);
    TRUTH(while_off, off);
    if (!strcmp(how, "exit")) exit(5);
    if (!strcmp(how, "_exit")) _exit(5);
    if (!strcmp(how, "exec")) return execl("/bin/true", "true", (char *)0);
    char path[4096];
    unsigned long from = 0, to = 0;
    if (pct_off && !recording(path, &from, &to)) return 4;
    if (pct_off && !strcmp(how, "over"))
        mmap((void *)from, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (pct_off && !strcmp(how, "cut")) {
        /* By a call of its own, which no wrapper sees. */
        unsigned long bus = 1ul << (SIGBUS - 1);
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &bus, 0, 8);
        chmod(path, 0600);
        if (truncate(path, 0)) return 4;
    }
    if (pct_on && pct_on(0)) return 6;
    while (again < each) burn_sink += on_again(20, &again);
    TRUTH(on_again, again);
    return 5;
}
