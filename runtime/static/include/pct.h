/* pct.h: switch the sampler of pct on and off, and mark instants, from inside a program.
 *
 * Link with libpct.a (cargo build -p pct-static --profile preload gives libpct_static.a), or run under `pct run`, whose
 * preloaded library has the same functions. The options are those of the environment variable PCT:
 * "hz=997,out=/tmp/prof,on=manual"; docs: pct run --help.
 *
 * A reference to any of the functions pulls the sampler out of the archive. Then a program that is started with PCT in
 * its environment samples itself from the start (unless on=manual), without a call.
 *
 * With PCT_WEAK defined the references are weak: they pull nothing out of an archive and are null where there is no
 * sampler, so a program can be built without it and still be switched by a preloaded library:
 *
 *     #define PCT_WEAK
 *     #include <pct.h>
 *     if (pct_mark) pct_mark("loaded");
 */
#ifndef PCT_H
#define PCT_H

#include <stddef.h>

#ifdef PCT_WEAK
#define PCT_REFERENCE __attribute__((weak))
#else
#define PCT_REFERENCE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Starts sampling. options: as in PCT; NULL = those of the environment. 0 = sampling; -1 = not, stderr says why. */
extern int pct_on(const char *options) PCT_REFERENCE;

/* Stops sampling; the file is complete. 0 = it was on, 1 = it was not. */
extern int pct_off(void) PCT_REFERENCE;

/* 1 = sampling is on, 0 = it is not. */
extern int pct_stat(void) PCT_REFERENCE;

/* Writes a named mark at this instant into the log (at most 200 bytes of the name). 0 = written, -1 = not. */
extern int pct_mark(const char *name) PCT_REFERENCE;

/* Memory: for pools, arenas and allocators of a program's own, of which `pct run --alloc` (or PCT=alloc=512K,... with
 * libpct.a) sees nothing or only the large pieces. Samples are taken as of malloc, with the caller's stack; a call without a
 * sample costs a few instructions. Blocks of malloc itself must not be told: they would count twice. A pool's own requests of
 * malloc are counted too.
 *
 * pct_alloc: the program was given a block of so many bytes, at an address that no other live block has.
 * pct_free: it is about to be given back; call it before another thread can get the address. Unknown addresses do no harm.
 * A block that is resized is a pct_free and a pct_alloc. */
extern void pct_alloc(const void *address, size_t size) PCT_REFERENCE;
extern void pct_free(const void *address) PCT_REFERENCE;

/* Writes a named mark with what is live at this instant (at most 200 bytes of the name). 0 = written, -1 = allocations are not
 * sampled. */
extern int pct_heap_mark(const char *name) PCT_REFERENCE;

#ifdef __cplusplus
}
#endif

#endif
