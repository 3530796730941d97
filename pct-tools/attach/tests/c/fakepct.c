/* A stand-in for the sampler with the same note: what it is told can be read from the outside.
 * cc -O2 -shared -fPIC, or -nostdlib too: it needs nothing. */
static int begins(const char *a, const char *b) {
    while (*b && *a == *b) a++, b++;
    return !*b;
}
__attribute__((visibility("hidden"))) int on_hidden(const char *options);
__attribute__((visibility("hidden"))) int off_hidden(void);
__attribute__((visibility("hidden"))) int stat_hidden(void);
static volatile char told[256];
static volatile int state;
volatile char *volatile told_at = told; /* a pointer in data: wants a relocation */
int on_hidden(const char *options) {
    if (begins(options, "refuse")) return -16;
    for (unsigned i = 0; i < sizeof told - 1 && options[i]; i++) told[i] = options[i];
    if (told_at != told) return -14;
    state = 1;
    return 0;
}
int off_hidden(void) { state = 0; return 0; }
int stat_hidden(void) { return state; }
__asm__(".pushsection .note.PCT,\"a\",@note\n"
        ".balign 4\n .long 4, 32, 1\n .asciz \"PCT\"\n"
        ".quad 1\n .quad on_hidden - .\n .quad off_hidden - .\n .quad stat_hidden - .\n"
        ".popsection\n");
