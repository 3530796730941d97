/* build: cc -O2 -rdynamic -ldl */
/* Loads the objects that are named in a file and calls the function chain_entry of each: `odd_run LIST ROUNDS`. With a
   third word it does so again and again until it is ended. Prints how many there are; 1: one could not be loaded. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long word;
typedef word entry(word rounds);

enum { MOST = 4096 };
static entry *entries[MOST];

int main(int argc, char **argv) {
    FILE *list = argc > 2 ? fopen(argv[1], "r") : NULL;
    if (list == NULL) return 2;
    char path[4096];
    int count = 0;
    while (count < MOST && fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = 0;
        void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (object == NULL) {
            printf("%s\n", dlerror());
            return 1;
        }
        entries[count] = (entry *)dlsym(object, "chain_entry");
        if (entries[count++] == NULL) return 1;
    }
    fclose(list);
    printf("%d objects\n", count);
    fflush(stdout);
    word rounds = strtoul(argv[2], NULL, 10), sum = 0;
    do {
        for (int i = 0; i < count; i++) sum += entries[i](rounds);
    } while (argc > 3);
    return sum == 0;
}
