/* build: cc -O2 -ldl
 * replaced reload SECONDS PLUG...   loads each plug-in (replaced_plug.c) by the same path, one after the other: its file
 *                                   is replaced before. Prints `truth version_K SECONDS`.
 * replaced library SECONDS PLUG     loads it, deletes its file, works.
 * replaced program SECONDS          deletes its own file, works.
 * The last two say `ready` after the file is gone. */
#include "burn.h"
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
BURNER(of_the_program)
typedef uint64_t work_function(double, double *);
static work_function *load(const char *path, void **handle) {
    *handle = dlopen(path, RTLD_NOW);
    work_function *work = *handle ? (work_function *)dlsym(*handle, "work") : NULL;
    if (!work) { fprintf(stderr, "%s\n", dlerror()); exit(3); }
    return work;
}
static double work_for(work_function *work, double seconds) {
    double used = 0;
    while (used < seconds) burn_sink += work(20, &used);
    return used;
}
static void copy(const char *from, const char *to) {
    char octets[65536];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    if (!in || !out) { perror(from); exit(4); }
    for (size_t n; (n = fread(octets, 1, sizeof octets, in)) > 0;) fwrite(octets, 1, n, out);
    if (fclose(in) | fclose(out)) exit(4);
}
static void ready(const char *gone) {
    if (unlink(gone)) { perror(gone); exit(5); }
    puts("ready");
    fflush(stdout);
}
int main(int count, char **words) {
    if (count < 3) return 2;
    double seconds = atof(words[2]);
    void *handle;
    if (!strcmp(words[1], "program")) {
        ready(words[0]);
        work_for(of_the_program, seconds);
    } else if (!strcmp(words[1], "library")) {
        work_function *work = load(words[3], &handle);
        ready(words[3]);
        work_for(work, seconds);
    } else {
        for (int k = 3; k < count; k++) {
            copy(words[k], "live.so.new");
            if (rename("live.so.new", "live.so")) return 6;
            printf("truth version_%d %.6f\n", k - 2, work_for(load("./live.so", &handle), seconds * (k - 2)));
            dlclose(handle);
        }
    }
    return 0;
}
