/* build: cc -O1 -g
 * a program with CPython inside, which it loads late: pyhost LIBRARY HOME SCRIPT [ROUNDS]
 *
 * It works natively first, so that the recording has begun; then it loads LIBRARY, which brings libpython, and runs
 * SCRIPT, ROUNDS times, each in an interpreter that is initialised and finalised. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static volatile unsigned long sink;

static void native_work(double seconds) {
    double end = cpu() + seconds;
    while (cpu() < end)
        for (int i = 0; i < 100000; i++)
            sink += i;
}

int main(int argc, char **argv) {
    static char text[1 << 16];
    if (argc < 4)
        return 2;
    native_work(0.2);
    setenv("PYTHONHOME", argv[2], 1);
    FILE *script = fopen(argv[3], "r");
    if (!script)
        return 3;
    text[fread(text, 1, sizeof text - 1, script)] = 0;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 4;
    }
    void (*initialise)(int) = (void (*)(int))dlsym(library, "Py_InitializeEx");
    int (*run)(const char *) = (int (*)(const char *))dlsym(library, "PyRun_SimpleString");
    int (*finalise)(void) = (int (*)(void))dlsym(library, "Py_FinalizeEx");
    if (!initialise || !run || !finalise)
        return 5;
    for (int rounds = argc > 4 ? atoi(argv[4]) : 1; rounds > 0; rounds--) {
        initialise(0);
        if (run(text) != 0)
            return 6;
        finalise();
    }
    return 0;
}
