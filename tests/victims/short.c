/* build: cc -O2
 * short COUNT MILLISECONDS: COUNT processes by fork+exec of itself, one after the other, each burns MILLISECONDS of CPU. */
#include "burn.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
BURNER(short_lived)
int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "one")) {
        double s = 0, want = atof(argv[2]) * 1e-3;
        while (s < want) burn_sink += short_lived(1, &s);
        return 0;
    }
    int n = argc > 1 ? atoi(argv[1]) : 500, bad = 0;
    for (int i = 0; i < n; i++) {
        pid_t p = fork();
        if (p == 0) { execl("/proc/self/exe", argv[0], "one", argc > 2 ? argv[2] : "2", (char *)0); _exit(127); }
        int st;
        waitpid(p, &st, 0);
        bad += st != 0;
    }
    printf("bad %d\n", bad);
    return bad != 0;
}
