/* build: cc -O2
 * mappedover SECONDS TIMES: works for SECONDS, and TIMES times in between maps memory of its own over each mapping of a
 * recording that is there. Says whether somebody has stored something in that memory. */
#include "burn.h"
#include <string.h>
#include <sys/mman.h>

static struct { char *start; size_t bytes; } own[64];
static int own_count;

BURNER(in_between)

static void work(double until, double *seconds) {
    while (*seconds < until) burn_sink += in_between(20, seconds);
}

/* Maps over what is there now and is not the program's own. */
static int map_over(void) {
    char line[4096], *starts[64];
    size_t bytes[64];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) exit(3);
    while (count < 64 && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        size_t end = strcspn(line, "\n");
        if (end > 4 && !memcmp(line + end - 4, ".pct", 4) && sscanf(line, "%lx-%lx", &from, &to) == 2)
            starts[count] = (char *)from, bytes[count++] = to - from;
    }
    fclose(maps);
    for (int i = 0; i < count && own_count < 64; i++) {
        void *at = mmap(starts[i], bytes[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (at != starts[i]) exit(4);
        own[own_count].start = at, own[own_count++].bytes = bytes[i];
    }
    return count;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    double all = atof(argv[1]), seconds = 0;
    int times = atoi(argv[2]), mapped = 0;
    for (int i = 1; i <= times; i++) {
        work(all * i / (times + 1), &seconds);
        mapped += map_over();
    }
    work(all, &seconds);
    long stored = 0;
    for (int i = 0; i < own_count; i++)
        for (size_t at = 0; at < own[i].bytes; at += 8) stored += *(uint64_t *)(own[i].start + at) != 0;
    printf("count mapped %d\ncount stored %ld\n", mapped, stored);
    TRUTH(in_between, seconds);
    return 5;
}
