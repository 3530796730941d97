// `weeks SECONDS [fork]`: three threads use CPU time, and the main thread says what the process has, ten times a second:
// descriptors, mappings, KiB of address space. At the end: the CPU seconds of the process.
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

static void *worker(void *seconds) {
    spin(*(double *)seconds);
    return NULL;
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
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&t[i], NULL, worker, &seconds)) return 1;
    while (cpu() < seconds / 4) {
        tell();
        spin(0.02);
        usleep(80000);
        if (argc > 2) {
            pid_t child = fork();
            if (child == 0) {
                spin(0.2);
                _exit(0);
            }
            if (child > 0) waitpid(child, NULL, 0);
        }
    }
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    tell();
    struct timespec all;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    printf("used %.3f\n", all.tv_sec + all.tv_nsec * 1e-9);
    return 0;
}
