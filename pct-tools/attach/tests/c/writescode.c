/* Code of no file, below everything else, that has what a first call needs: as what a compiler writes at run time.
 * cc -O2 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    static const unsigned char code[] = {0x0f, 0x05, 0xc3, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    void *at = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED) return 1;
    memcpy(at, code, sizeof code);
    if (mprotect(at, 4096, PROT_READ | PROT_EXEC)) return 1;
    puts("ready");
    fflush(stdout);
    pause();
}
