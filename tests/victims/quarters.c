/* build: cc -O2
 * quarters COUNT UNITS: COUNT processes by fork+exec of itself, one after the other. Each does the same work four times, in four
 * functions. */
#include "burn.h"
#include <sys/wait.h>
#include <unistd.h>
BURNER(first_quarter)
BURNER(second_quarter)
BURNER(third_quarter)
BURNER(fourth_quarter)
int main(int argc, char **argv) {
    if (argc < 3) {
        double units = atof(argv[1]), used;
        burn_sink += first_quarter(units, &used);
        burn_sink += second_quarter(units, &used);
        burn_sink += third_quarter(units, &used);
        burn_sink += fourth_quarter(units, &used);
        return 0;
    }
    int bad = 0;
    for (int i = atoi(argv[1]); i > 0; i--) {
        pid_t p = fork();
        if (p == 0) { execl("/proc/self/exe", argv[0], argv[2], (char *)0); _exit(127); }
        int st;
        bad += waitpid(p, &st, 0) != p || st != 0;
    }
    return bad != 0;
}
