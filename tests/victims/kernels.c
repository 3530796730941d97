/* build: cc -O2 -fomit-frame-pointer -no-pie
 *
 * Functions of assembly without unwind data, each called by a function of its own for SECONDS:
 *
 *   kernels SECONDS [ROOM]
 *
 * ROOM: signals are handled on a stack with that many bytes beside the kernel's frame, and an unreadable page below it.
 *
 * They give the stack and the registers back in the ways that libraries of assembly do: OpenBLAS, x264, dav1d, OpenSSL.
 * The names say what calls what: `call_NAME` calls `k_NAME`, and nothing else does. But `k_across` runs `across_there` on
 * another stack, which has `home_there` run by `k_home` on the first stack again, which calls `k_across` once more.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>

#define NAMES(X) X(leaf) X(pushes) X(aligned) X(saved) X(top) X(inner) X(tail) X(middle) X(red) X(table) X(framed) X(across)

/* rdi: rounds. No cfi directives: the assembler writes no unwind data for them. */
asm(".text\n.p2align 4\n"
    ".globl k_leaf, k_pushes, k_aligned, k_saved, k_top, k_inner, k_local, k_tail, k_end, k_middle, k_red, k_table, k_framed\n"
    ".globl k_across, k_home, k_deep\n"
    ".macro work\n 7: imul %rdi, %rax\n xor $0x55, %rax\n dec %rdi\n jnz 7b\n.endm\n"
    ".macro function name\n.p2align 4\n.type \\name, @function\n\\name:\n.endm\n"
    ".macro size name\n.size \\name, . - \\name\n.endm\n"
    /* The stack is not touched. */
    "function k_leaf\n work\n ret\n size k_leaf\n"
    /* rbp is a number like any other. */
    "function k_pushes\n push %rbx\n push %rbp\n push %r12\n sub $24, %rsp\n mov $3, %ebp\n mov %rdi, %r12\n"
    " work\n add %rbp, %rax\n add $24, %rsp\n pop %r12\n pop %rbp\n pop %rbx\n ret\n size k_pushes\n"
    /* The frame is in rbx, as in OpenBLAS. */
    "function k_aligned\n sub $0x60, %rsp\n mov %rbx, (%rsp)\n mov %rbp, 8(%rsp)\n mov %r12, 16(%rsp)\n mov %rsp, %rbx\n"
    " sub $0x1080, %rsp\n and $-4096, %rsp\n mov %rdi, 24(%rsp)\n lea (%rdi,%rdi), %rbp\n work\n emms\n"
    " mov %rbx, %rsp\n mov (%rsp), %rbx\n mov 8(%rsp), %rbp\n mov 16(%rsp), %r12\n add $0x60, %rsp\n ret\n size k_aligned\n"
    /* The stack pointer is on the stack, as in x264. */
    "function k_saved\n push %rbx\n mov %rsp, %rax\n sub $264, %rsp\n and $-64, %rsp\n mov %rax, 256(%rsp)\n mov %rdi, %rbx\n"
    " work\n mov 256(%rsp), %rsp\n pop %rbx\n ret\n size k_saved\n"
    /* A loop that is left at its top, and no way out behind it. */
    "function k_top\n push %rbx\n xor %ebx, %ebx\n 1: test %rdi, %rdi\n je 2f\n add %rdi, %rbx\n imul %rbx, %rax\n dec %rdi\n"
    " jmp 1b\n ud2\n 2: mov %rbx, %rax\n pop %rbx\n ret\n size k_top\n"
    /* What it calls keeps a register that functions of C need not keep. */
    "function k_inner\n mov %rsp, %rcx\n and $-32, %rsp\n sub $0x60, %rsp\n call k_local\n mov %rax, 8(%rsp)\n mov $9, %edi\n"
    " call k_local\n add 8(%rsp), %rax\n mov %rcx, %rsp\n ret\n size k_inner\n"
    "function k_local\n work\n ret\n size k_local\n"
    /* It ends with a jump to another one. */
    "function k_tail\n push %rbp\n mov %rdi, %rbp\n work\n lea 1(%rbp), %rdi\n pop %rbp\n jmp k_end\n size k_tail\n"
    "function k_end\n push %rbx\n mov %rdi, %rbx\n work\n pop %rbx\n ret\n size k_end\n"
    /* A return in the middle, another at the end. */
    "function k_middle\n sub $40, %rsp\n test $1, %edi\n jne 3f\n work\n add $40, %rsp\n ret\n"
    " 3: push %rbx\n push %rbp\n mov %rdi, %rbp\n work\n pop %rbp\n pop %rbx\n add $40, %rsp\n repz ret\n size k_middle\n"
    /* A register is saved below the stack pointer. */
    "function k_red\n mov %rbx, -8(%rsp)\n mov %rbp, -16(%rsp)\n mov %rdi, %rbp\n mov %rdi, %rbx\n work\n mov -16(%rsp), %rbp\n"
    " mov -8(%rsp), %rbx\n ret\n size k_red\n"
    /* A jump by a table, which is data among the code. */
    "function k_table\n push %rbx\n mov %edi, %ebx\n and $1, %ebx\n jmp *4f(,%rbx,8)\n .p2align 3\n 4: .quad 5f, 6f\n"
    " 5: work\n pop %rbx\n ret\n 6: inc %rdi\n work\n pop %rbx\n ret\n size k_table\n"
    /* A frame pointer. */
    "function k_framed\n push %rbp\n mov %rsp, %rbp\n push %rbx\n sub $72, %rsp\n mov %rdi, %rbx\n work\n mov -8(%rbp), %rbx\n"
    " leave\n ret\n size k_framed\n"
    /* To another stack and back, by what lies in memory, as Go's runtime does it where C is called. */
    "function k_across\n mov way(%rip), %rax\n mov (%rax), %rdx\n mov %rsp, (%rax)\n mov 8(%rax), %rsp\n push %rdx\n push %rdx\n"
    " call across_there\n pop %rdx\n pop %rdx\n mov way(%rip), %rcx\n mov %rsp, 8(%rcx)\n mov (%rcx), %rsp\n mov %rdx, (%rcx)\n ret\n"
    " size k_across\n"
    /* And back again, as where C calls Go: by a word of the thread's own. */
    "function k_home\n mov %fs:way_of_thread@tpoff, %rax\n mov (%rax), %rcx\n push %rcx\n mov %rsp, 8(%rax)\n lea -256(%rcx), %rsp\n"
    " and $-16, %rsp\n call home_there\n mov %fs:way_of_thread@tpoff, %rax\n mov 8(%rax), %rsp\n pop %rcx\n mov %rcx, (%rax)\n ret\n"
    " size k_home\n"
    "function k_deep\n work\n ret\n size k_deep\n");

/* Where each of the two stacks goes on. */
struct way {
    char *first, *other;
} *way;
__thread struct way *way_of_thread;

static volatile uint64_t sum;

#define DECLARE(name)                                                \
    uint64_t k_##name(uint64_t);                                     \
    __attribute__((noinline, noclone)) void call_##name(uint64_t n) { \
        sum += k_##name(n);                                          \
        sum++;                                                       \
    }
NAMES(DECLARE)

uint64_t k_home(uint64_t), k_deep(uint64_t);
#define AGAIN 64

__attribute__((noinline, noclone)) void home_there(uint64_t n) {
    sum += k_deep(n);
    k_across(n);
    sum++;
}
__attribute__((noinline, noclone)) void across_there(uint64_t n) {
    sum += k_deep(n & ~AGAIN);
    if (n & AGAIN) k_home(n & ~AGAIN);
    sum++;
}
static int make_way(void) {
    size_t size = 64 << 10;
    char *low = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    way_of_thread = way = malloc(sizeof *way);
    if (low == MAP_FAILED || !way) return -1;
    *way = (struct way){0, low + size};
    return 0;
}

#define ENTRY(name) call_##name,
static void (*const calls[])(uint64_t) = {NAMES(ENTRY)};

static int small_altstack(size_t room) {
    size_t frame = getauxval(51 /* AT_MINSIGSTKSZ */), least = 2048 /* the kernel takes none below */;
    size_t size = (frame > least ? frame : least) + room;
    size_t pages = (size + 4095) / 4096 + 1;
    char *low = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED || mprotect(low, 4096, PROT_NONE)) return -1;
    stack_t stack = {.ss_sp = low + 4096, .ss_size = size};
    return sigaltstack(&stack, 0);
}

int main(int argc, char **words) {
    if (argc > 2 && small_altstack(atoi(words[2]))) return 1;
    if (make_way()) return 1;
    double seconds = argc > 1 ? atof(words[1]) : 1;
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        for (int i = 0; i < 200; i++)
            for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) calls[k]((40 + i % 2) | (calls[k] == call_across ? AGAIN : 0));
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - from.tv_sec + (now.tv_nsec - from.tv_nsec) * 1e-9 < seconds);
    puts("done");
    return 0;
}
