/* build: cc -O1 -rdynamic */
/* A program that publishes what V8 does, but of a V8 with compressed pointers: small integers are in another place.
   oddv8 MILLISECONDS */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int v8dbg_class_JSFunction__shared__SharedFunctionInfo = 12;
int v8dbg_SmiShiftSize = 0;
int _ZN2v88internal7Version6major_E = 12;
int _ZN2v88internal7Version6minor_E = 4;

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    volatile unsigned long sum = 0;
    while (clock() < atol(argv[1]) * (CLOCKS_PER_SEC / 1000))
        for (int i = 0; i < 100000; i++) sum += i;
    puts("done");
    return 0;
}
