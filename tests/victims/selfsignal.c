/* build: cc -O2 -pthread
 * selfsignal PAGE THREADS: each thread sends itself the sampling signal as the kernel's clock would, without end, and counts
 * in the shared file PAGE (64-bit words: pid, then tid and count for each thread) how often the handler has returned. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint64_t *page;

static void once(void) {
    char info[128];
    memset(info, 0, sizeof info);
    int signal = SIGVTALRM, code = SI_KERNEL;
    memcpy(info, &signal, 4);
    memcpy(info + 8, &code, 4);
    /* the handler runs before the call returns */
    syscall(SYS_rt_tgsigqueueinfo, getpid(), (int)syscall(SYS_gettid), signal, info);
}

static void *work(void *arg) {
    long i = (long)arg;
    atomic_store(&page[1 + 2 * i], (uint64_t)syscall(SYS_gettid));
    for (;;) {
        once();
        atomic_fetch_add(&page[2 + 2 * i], 1);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int fd = open(argv[1], O_RDWR), threads = atoi(argv[2]);
    if (fd < 0 || threads < 1 || threads > 64) return 3;
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return 4;
    close(fd);
    /* the first sample makes the file: those of other threads meanwhile would go into their next */
    once();
    atomic_store(&page[2], 1);
    for (long i = 1; i < threads; i++) {
        pthread_t t;
        if (pthread_create(&t, 0, work, (void *)i)) return 5;
    }
    atomic_store(&page[0], (uint64_t)getpid());
    work(0);
}
