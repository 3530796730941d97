/* build: cc -O2
 * Maps an object by itself, like a loader that is slow: first its headers and its code, and works for some time; then
 * the rest, and works in the object's code. Arguments: the object, CPU seconds before, and in it (0 = for ever). */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const unsigned long PAGE = 4095;

static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void works_before(double until) {
    while (used() < until)
        for (volatile int i = 0; i < 10000; i++) {}
}

static void map(int file, char *base, const Elf64_Phdr *p) {
    unsigned long from = p->p_vaddr & ~PAGE, shift = p->p_vaddr & PAGE;
    int rights = p->p_flags & PF_R ? PROT_READ : 0;
    if (p->p_flags & PF_W) rights |= PROT_WRITE;
    if (p->p_flags & PF_X) rights |= PROT_EXEC;
    off_t at = (off_t)(p->p_offset - shift);
    if (mmap(base + from, p->p_filesz + shift, rights, MAP_PRIVATE | MAP_FIXED, file, at) == MAP_FAILED) exit(3);
}

int main(int count, char **arguments) {
    Elf64_Ehdr head;
    Elf64_Phdr parts[16];
    unsigned long end = 0;
    int file = count == 4 ? open(arguments[1], O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0 || pread(file, &head, sizeof head, 0) != sizeof head || head.e_phnum > 16) return 2;
    ssize_t bytes = head.e_phnum * (ssize_t)sizeof *parts;
    if (pread(file, parts, (size_t)bytes, (off_t)head.e_phoff) != bytes) return 2;
    for (int i = 0; i < head.e_phnum; i++)
        if (parts[i].p_type == PT_LOAD) end = parts[i].p_vaddr + parts[i].p_memsz;
    char *base = mmap(0, end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return 3;
    for (int early = 1; early >= 0; early--) {
        for (int i = 0; i < head.e_phnum; i++) {
            int is_early = parts[i].p_offset == 0 || parts[i].p_flags & PF_X;
            if (parts[i].p_type == PT_LOAD && is_early == early) map(file, base, &parts[i]);
        }
        if (early) {
            puts("half");
            fflush(stdout);
            works_before(used() + atof(arguments[2]));
        }
    }
    double until = used() + atof(arguments[3]);
    do ((void (*)(long))(base + head.e_entry))(1000000);
    while (atof(arguments[3]) == 0 || used() < until);
    puts("whole");
    return 0;
}
