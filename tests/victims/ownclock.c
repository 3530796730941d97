/* build: cc -O2 -pthread -ldl */
/*
 * The process's own CPU clock, and threads that are made where a preloaded library does not see it.
 *
 *   ownclock alone|threads|many|child|exec|attached
 *                                        counts how often CLOCK_PROCESS_CPUTIME_ID changes in 200,000 looks at it
 *   ownclock clone|syscall|deepbind PLUGIN
 *                                        a thread that comes so works for 1.5 s in `unseen`; all others sleep
 *
 * With PLUGIN defined: the library that `deepbind` loads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int done;
static volatile uint64_t sum;

static int64_t now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

/* Needs no thread-local storage: a thread that `clone` made has none of its own. */
static inline __attribute__((always_inline)) void work_for(int64_t ns) {
    int64_t end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 100000; i++) sum += i * sum;
}

__attribute__((noinline)) void unseen(void) {
    work_for(1500000000LL);
    done = 1;
}

static void *in_thread(void *argument) {
    unseen();
    return argument;
}

#ifdef PLUGIN
void start(void) {
    pthread_t thread;
    pthread_create(&thread, 0, in_thread, 0);
    pthread_join(thread, 0);
}
#else
static void *burn(void *argument) {
    while (!done)
        for (int i = 0; i < 1000; i++) sum += i * sum;
    return argument;
}

static void *briefly(void *argument) {
    for (int i = 0; i < 100000; i++) sum += i * sum;
    return argument;
}

/* No other clock is read meanwhile: that of a thread brings the process's up to date, even where it goes in steps. */
static void count(void) {
    int64_t last = 0;
    long changes = 0;
    for (int i = 0; i < 200000; i++) {
        int64_t at = now(CLOCK_PROCESS_CPUTIME_ID);
        changes += at != last;
        last = at;
    }
    printf("changes %ld\n", changes);
    fflush(stdout);
}

static int task(void *argument) {
    (void)argument;
    unseen();
    syscall(SYS_exit, 0);
    return 0;
}

static void first_of_syscall(void) { task(0); }

static void sleep_until_done(void) {
    while (!done) usleep(100000);
}

int main(int count_of_words, char **words) {
    const char *what = count_of_words > 1 ? words[1] : "alone";
    const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    const size_t bytes = 1 << 20;
    if (!strcmp(what, "alone")) {
        /* Twice: a sampler may need some ticks to set itself up. */
        count();
        count();
    } else if (!strcmp(what, "threads")) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, burn, 0);
        count();
        count();
        done = 1;
        for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    } else if (!strcmp(what, "many")) {
        /* A sampler that looks for new threads meets some in their first moment. */
        for (int i = 0; i < 1000; i++) {
            pthread_t threads[8];
            for (int k = 0; k < 8; k++) if (pthread_create(&threads[k], 0, briefly, 0)) return 1;
            for (int k = 0; k < 8; k++) pthread_join(threads[k], 0);
        }
        /* Until it has looked again, a sampler may believe that the last ones were made unseen. */
        work_for(600000000LL);
        count();
        count();
    } else if (!strcmp(what, "child")) {
        if (!fork()) {
            count();
            count();
            return 0;
        }
        wait(0);
    } else if (!strcmp(what, "exec")) {
        execl("/proc/self/exe", words[0], "alone", (char *)0);
        return 1;
    } else if (!strcmp(what, "attached")) {
        puts("ready");
        fflush(stdout);
        getchar();
        count();
        count();
        puts("done");
        fflush(stdout);
        getchar();
    } else if (!strcmp(what, "clone") || !strcmp(what, "syscall")) {
        char *stack = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED) return 1;
        if (!strcmp(what, "clone")) {
            if (clone(task, stack + bytes, flags, 0) < 0) return 1;
        } else {
            /* libc's function returns in the new thread, too: to the address at the top of its stack. */
            void **top = (void **)(stack + bytes - 64);
            *top = (void *)first_of_syscall;
            if (syscall(SYS_clone, flags, top, 0, 0, 0) < 0) return 1;
        }
        sleep_until_done();
    } else if (!strcmp(what, "deepbind")) {
        void *plugin = dlopen(words[2], RTLD_NOW | RTLD_DEEPBIND);
        void (*start)(void) = plugin ? (void (*)(void))dlsym(plugin, "start") : 0;
        if (!start) return 1;
        start();
    } else {
        return 2;
    }
    return 0;
}
#endif
