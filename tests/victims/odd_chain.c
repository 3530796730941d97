/* build: cc -O2 -fPIC -fno-stack-protector -fasynchronous-unwind-tables -c */
/* A chain of calls for objects of odd layouts: chain_entry, c0000_outer, c0000_inner, c0000_spin. Two of the
   functions are in one section and two in another, so that they can be in two segments; each keeps something on its
   stack, and none ends in a jump. The names are replaced in the linked file. */
typedef unsigned long word;

static const word table[4] = {3, 5, 7, 11};
static volatile word data[4] = {1, 2, 3, 4};
/* So large that it has pages that are not in the file. */
static volatile word bss[5000];

#define HOT __attribute__((section(".text.hot"), noinline, noclone))
#define COLD __attribute__((section(".text.cold"), noinline, noclone))

HOT static word c0000_spin(word rounds) {
    word sum = rounds;
    for (word i = 0; i < rounds; i++) {
        sum ^= sum << 13;
        sum ^= sum >> 7;
        sum ^= sum << 17;
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}

COLD static word c0000_inner(word rounds) {
    volatile word kept[9];
    kept[rounds & 7] = table[rounds & 3];
    word got = c0000_spin(rounds);
    bss[got % 5000] = got;
    return got + kept[rounds & 7];
}

HOT static word c0000_outer(word rounds) {
    volatile word kept[33];
    kept[rounds & 31] = data[rounds & 3];
    return c0000_inner(rounds) + kept[rounds & 31];
}

COLD word chain_entry(word rounds) {
    word got = c0000_outer(rounds);
    data[0] = got;
    return got + 1;
}
