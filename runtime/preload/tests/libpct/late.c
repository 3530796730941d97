// Makes no system call of its own until it loads a library that does: `late LIBRARY`, which exports `set_actions`.
#include <dlfcn.h>
#include <stdio.h>

#include "spin.h"

int main(int argc, char **argv) {
    spin(0.3);
    if (argc < 2) {
        puts("done");
        return 0;
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*set_actions)(const char *, int) = library ? (int (*)(const char *, int))dlsym(library, "set_actions") : NULL;
    if (!set_actions) return 1;
    // So long that it is looked at.
    spin(0.8);
    if (set_actions("default", 0)) return 2;
    spin(0.3);
    puts("done");
    return 0;
}
