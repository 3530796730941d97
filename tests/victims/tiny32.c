/* build: cc -m32 -nostdlib -static -no-pie -fno-pie -O2
 * tiny32: a 32-bit program that needs no 32-bit C library. Spins gently: pauses for ever. */
void _start(void) {
    for (;;) __asm__ volatile("int $0x80" : : "a"(29)); /* pause */
}
