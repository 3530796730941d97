/* build: cc -O2 -g -pthread
 *
 * The system call futex through libc's `syscall`, in ways that hardly anybody uses: prints what each call returns. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint32_t word, other, wide;
static volatile pid_t sleeper;

static void say(const char *what, long result)
{
    int error = errno;
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(error) : "");
    errno = 0;
}

/* Waits until that thread sleeps in the kernel because of this futex. */
static void until_asleep(volatile pid_t *tid, uint32_t *futex)
{
    char path[64], text[128];
    struct timespec t = {0, 200000};
    for (;; nanosleep(&t, NULL)) {
        long number = 0;
        unsigned long long address = 0;
        sprintf(path, "/proc/self/task/%d/syscall", (int)*tid);
        FILE *f = *tid ? fopen(path, "r") : NULL;
        int known = f && fgets(text, sizeof text, f) && sscanf(text, "%ld %llx", &number, &address) == 2;
        if (f)
            fclose(f);
        if (known && number == SYS_futex && address == (uintptr_t)futex)
            return;
    }
}

static void *waits_for_bit(void *bits)
{
    sleeper = gettid();
    say("woken by its bit", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uint32_t)(uintptr_t)bits));
    return NULL;
}

static void *waits_and_moves(void *unused)
{
    sleeper = gettid();
    say("woken elsewhere", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    return unused;
}

static void *is_cancelled(void *unused)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    sleeper = gettid();
    say("never", syscall(SYS_futex, &wide, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    return unused;
}

static void *is_interrupted(void *unused)
{
    sleeper = gettid();
    say("interrupted", syscall(SYS_futex, &wide, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    return unused;
}

static void *waits_for_owner(void *unused)
{
    sleeper = gettid();
    say("inherits", syscall(SYS_futex, &other, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    say("gives back", syscall(SYS_futex, &other, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    return unused;
}

static void nothing(int signal)
{
    (void)signal;
}

int main(void)
{
    struct timespec soon = {0, 1000000}, odd = {0, 2000000000};
    pthread_t thread;
    setvbuf(stdout, NULL, _IONBF, 0);
    say("another value", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0));
    say("a timeout", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0));
    say("no bits", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &soon, NULL, 0));
    say("an odd timeout", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &odd, NULL, 0));
    say("a bad address", syscall(SYS_futex, 8L, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    say("an odd address", syscall(SYS_futex, (char *)&word + 1, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    say("no operation", syscall(SYS_futex, &word, 99, 0, NULL, NULL, 0));
    say("nobody waits", syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    say("another call", syscall(SYS_getpid) == getpid());
    say("no call", syscall(100000));

    /* The last argument is on the stack. */
    sleeper = 0;
    pthread_create(&thread, NULL, waits_for_bit, (void *)2);
    until_asleep(&sleeper, &word);
    say("another bit", syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 1));
    long woken = syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 2);
    pthread_join(thread, NULL);
    say("its bit", woken);

    /* The wake-up below that wakes nobody comes from a thread that has waited for the same futex. */
    say("a timeout again", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0));
    sleeper = 0;
    pthread_create(&thread, NULL, waits_and_moves, NULL);
    until_asleep(&sleeper, &word);
    say("the word is another", syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 1L, &other, 5));
    say("moved", syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 1L, &other, 0));
    say("nobody there", syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    woken = syscall(SYS_futex, &other, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_join(thread, NULL);
    say("woken there", woken);

    say("owns", syscall(SYS_futex, &other, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    say("owns already", syscall(SYS_futex, &other, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    sleeper = 0;
    pthread_create(&thread, NULL, waits_for_owner, NULL);
    until_asleep(&sleeper, &other);
    woken = syscall(SYS_futex, &other, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0);
    pthread_join(thread, NULL);
    say("gives", woken);
    say("not its own", syscall(SYS_futex, &other, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));

    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGUSR1, &action, NULL);
    sleeper = 0;
    pthread_create(&thread, NULL, is_interrupted, NULL);
    until_asleep(&sleeper, &wide);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);

    for (int i = 0; i < 3; i++) {
        void *result = NULL;
        sleeper = 0;
        pthread_create(&thread, NULL, is_cancelled, NULL);
        until_asleep(&sleeper, &wide);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        say("cancelled", result == PTHREAD_CANCELED);
    }

    pid_t child = fork();
    if (!child) {
        say("in the child", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0));
        _exit(3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    say("the child", WEXITSTATUS(status));
    return 0;
}
