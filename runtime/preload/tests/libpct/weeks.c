// `weeks SECONDS [fork|files=N@OFFSET]`: three threads use CPU time, and the main thread says what the process has, ten
// times a second: descriptors, mappings, KiB of address space. At the end: the CPU seconds of the process.
// With `files=` it goes on until the recording's N-th file was begun: how long a rotation takes is the machine's.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

static volatile int enough;

static void *worker(void *seconds) {
    spin(*(double *)seconds);
    while (!enough) spin(0.001);
    return NULL;
}

// How many files were begun: the largest number in the headers of those in the folder that `PCT=out=FOLDER,...` names.
// `offset`: where a header has that number.
static long files_begun(long offset) {
    char name[600], folder[512];
    long last = 0, number;
    const char *options = getenv("PCT");
    if (!options || sscanf(options, "out=%511[^,]", folder) != 1) exit(2);
    DIR *files = opendir(folder);
    for (struct dirent *entry; files && (entry = readdir(files));) {
        snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        int file = open(name, O_RDONLY);
        if (file < 0) continue;
        if (pread(file, &number, sizeof number, offset) == sizeof number && number > last) last = number;
        close(file);
    }
    if (files) closedir(files);
    return last + 1;
}

static void tell(void) {
    int descriptors = 0, mappings = 0;
    long kib = 0;
    char line[512];
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder)) descriptors++;
    if (folder) closedir(folder);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) mappings++;
    if (maps) fclose(maps);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmSize: %ld", &kib);
    if (status) fclose(status);
    printf("%d %d %ld\n", descriptors, mappings, kib);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    int forks = argc > 2 && !strcmp(argv[2], "fork");
    long files = 0, offset = 0;
    if (argc > 2 && !forks && sscanf(argv[2], "files=%ld@%ld", &files, &offset) != 2) return 2;
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&t[i], NULL, worker, &seconds)) return 1;
    // A test that waits for files in vain shall end: each turn takes 20 ms of CPU time.
    while (cpu() < seconds / 4 || (files > 0 && cpu() < 10 && files_begun(offset) < files)) {
        tell();
        spin(0.02);
        usleep(80000);
        if (forks) {
            pid_t child = fork();
            if (child == 0) {
                spin(0.2);
                _exit(0);
            }
            if (child > 0) waitpid(child, NULL, 0);
        }
    }
    enough = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    tell();
    struct timespec all;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    printf("used %.3f\n", all.tv_sec + all.tv_nsec * 1e-9);
    return 0;
}
