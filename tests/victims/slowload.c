/* build: cc -O1 -shared -fPIC
 * a library whose relocation takes a second of CPU time: its indirect function's resolver works. What is loaded
 * together with it is mapped meanwhile, and not relocated if it comes later. */
#include <sys/syscall.h>
#include <time.h>

/* No function of another library may be called from a resolver. */
static double cpu(void) {
    struct timespec now;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_clock_gettime), "D"(CLOCK_PROCESS_CPUTIME_ID), "S"(&now)
                     : "rcx", "r11", "memory");
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static int answer(void) { return 42; }

static int (*resolve(void))(void) {
    double end = cpu() + 1;
    while (cpu() < end)
        ;
    return answer;
}

int slow_answer(void) __attribute__((ifunc("resolve")));
int (*slow_answers[])(void) = {slow_answer};
