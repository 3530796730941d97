/* build: cc -O2
 * contexts ROUNDS: two coroutines of makecontext, with arguments and without, take turns. */
#include "burn.h"
#include <ucontext.h>
BURNER(in_coroutine)
static ucontext_t starter, one, two;
static char stacks[2][65536];
static int rounds;
static double spent;
__attribute__((noinline)) static void with_arguments(int a, int b) {
    while (rounds-- > a + b) {
        burn_sink += in_coroutine(10, &spent);
        swapcontext(&one, &two);
    }
}
__attribute__((noinline)) static void without_arguments(void) {
    for (;;) {
        burn_sink += in_coroutine(10, &spent);
        swapcontext(&two, &one);
    }
}
static void make(ucontext_t *context, char *stack, ucontext_t *next) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = sizeof stacks[0];
    context->uc_link = next;
}
int main(int argc, char **argv) {
    rounds = argc > 1 ? atoi(argv[1]) : 300;
    make(&one, stacks[0], &starter);
    makecontext(&one, (void (*)(void))with_arguments, 2, 0, 0);
    make(&two, stacks[1], NULL);
    makecontext(&two, without_arguments, 0);
    swapcontext(&starter, &one);
    TRUTH(in_coroutine, spent);
    return 0;
}
