/* build: cc -O2 -ldl
 * waitplug PLUG  sleeps, loads the plug-in (itself, built with -shared -fPIC -DPLUG), and waits in its function
 *                `wait_in_plug`. It runs for so short a time meanwhile that only its waits are met. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
static void rest(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, 0);
}
#ifdef PLUG
int wait_in_plug(void) {
    rest(1500);
    return 1;
}
#else
int main(int argc, char **argv) {
    rest(argc > 1 ? 500 : 0);
    void *plug = dlopen(argv[1], RTLD_NOW);
    int (*wait_in)(void) = plug ? (int (*)(void))dlsym(plug, "wait_in_plug") : 0;
    if (!wait_in) { fprintf(stderr, "%s\n", dlerror()); return 3; }
    int done = wait_in();
    puts(done ? "done" : "");
    return 0;
}
#endif
