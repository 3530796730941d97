/* build: cc -O2 -g -pthread
 * classes KIND: one kind of program each, until SIGTERM: spin, sleep, read, epoll, futex, wait, malloc, vforks, prefork.
 * Each checks what it does. Prints how often something was wrong, how often a call ended in EINTR, and that it got on;
 * exit status 5. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop;
static unsigned long bad, eintr, rounds;
static int pipes[2];
static int word;
static void on_term(int s) { (void)s; stop = 1; }
static void count(int result) {
    if (result < 0 && errno == EINTR) { if (!stop) eintr++; }
    else if (result < 0) bad++;
    else rounds++;
}
/* another thread ends the waits now and then */
static void *waker(void *a) {
    (void)a;
    while (!stop) {
        struct timespec t = {0, 20000000};
        nanosleep(&t, 0);
        if (pipes[1] && write(pipes[1], "x", 1) != 1) bad++;
        __atomic_add_fetch(&word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    }
    if (write(pipes[1], "x", 1) != 1) bad++;
    return 0;
}
static void spin(void) {
    while (!stop) {
        double x = 0;
        for (int i = 0; i < 100000; i++) x += i & 7;
        if (x != 350000.0) bad++;
        rounds++;
    }
}
static void sleeps(void) {
    while (!stop) {
        struct timespec t = {0, 3000000};
        count(nanosleep(&t, 0));
    }
}
static void reads(void) {
    char c;
    while (!stop) count(read(pipes[0], &c, 1) == 1 ? 0 : -1);
}
static void epolls(int e) {
    struct epoll_event ev = {.events = EPOLLIN};
    if (epoll_ctl(e, EPOLL_CTL_ADD, pipes[0], &ev)) bad++;
    char c;
    while (!stop) {
        int n = epoll_wait(e, &ev, 1, -1);
        count(n);
        if (n > 0 && read(pipes[0], &c, 1) != 1) bad++;
    }
    close(e);
}
static void futexes(void) {
    while (!stop) {
        int now = __atomic_load_n(&word, __ATOMIC_SEQ_CST);
        int r = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, now, 0, 0, 0);
        count(r < 0 && errno == EAGAIN ? 0 : r);
        if (now == word && r == 0 && !stop) rounds--;
        char c;
        if (!stop && now != word && read(pipes[0], &c, 1) != 1) bad++;
    }
}
static int child_of(pid_t p, int want) {
    int status;
    if (p < 0) return 0;
    while (waitpid(p, &status, 0) < 0) {
        if (errno != EINTR) return 0;
        if (!stop) eintr++;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == want;
}
static void waits(void) {
    while (!stop) {
        pid_t p = fork();
        if (!p) {
            struct timespec t = {0, 20000000};
            nanosleep(&t, 0);
            _exit(7);
        }
        if (!child_of(p, 7)) bad++;
        rounds++;
    }
}
static void vforks(char *self) {
    while (!stop) {
        pid_t p = vfork();
        if (!p) {
            execl(self, self, "child", (char *)0);
            _exit(1);
        }
        if (!child_of(p, 9)) bad++;
        rounds++;
    }
}
static void *mallocs(void *a) {
    unsigned x = (unsigned)(long)a * 2654435761u + 1;
    unsigned char *kept[64] = {0};
    while (!stop) {
        x ^= x << 13; x ^= x >> 17; x ^= x << 5;
        unsigned i = x & 63, size = (x >> 8) % 5000 + 1;
        if (kept[i] && kept[i][0] != (unsigned char)i) __atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
        free(kept[i]);
        kept[i] = malloc(size);
        memset(kept[i], (int)i, size);
        __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
    }
    return 0;
}
/* three workers that square what they are sent */
static void prefork(void) {
    int to[3][2], from[3][2];
    pid_t workers[3];
    signal(SIGTERM, SIG_IGN);
    for (int w = 0; w < 3; w++) {
        if (pipe(to[w]) || pipe(from[w])) bad++;
        workers[w] = fork();
        if (!workers[w]) {
            for (int k = 0; k <= w; k++) close(to[k][1]);
            long n;
            while (read(to[w][0], &n, sizeof n) == sizeof n) {
                n *= n;
                if (write(from[w][1], &n, sizeof n) != sizeof n) _exit(2);
            }
            _exit(8);
        }
    }
    signal(SIGTERM, on_term);
    /* each has closed what is not its own when it answers */
    for (int w = 0; w < 3; w++) {
        long n = 1;
        if (write(to[w][1], &n, sizeof n) != sizeof n || read(from[w][0], &n, sizeof n) != sizeof n) bad++;
    }
    printf("workers %d %d %d\n", workers[0], workers[1], workers[2]);
    fflush(stdout);
    for (long k = 0; !stop; k++) {
        long n = k % 1000;
        for (int w = 0; w < 3; w++) if (write(to[w][1], &n, sizeof n) != sizeof n) bad++;
        for (int w = 0; w < 3; w++) {
            long answer;
            ssize_t r;
            while ((r = read(from[w][0], &answer, sizeof answer)) < 0 && errno == EINTR) if (!stop) eintr++;
            if (r != sizeof answer || answer != n * n) bad++;
        }
        rounds++;
        struct timespec t = {0, 500000};
        nanosleep(&t, 0);
    }
    for (int w = 0; w < 3; w++) close(to[w][1]);
    for (int w = 0; w < 3; w++) if (!child_of(workers[w], 8)) bad++;
}
int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "spin";
    if (!strcmp(kind, "child")) return 9;
    struct sigaction a = {.sa_handler = on_term};
    sigaction(SIGTERM, &a, 0);
    pthread_t t[4];
    int wakes = !strcmp(kind, "read") || !strcmp(kind, "epoll") || !strcmp(kind, "futex");
    int queue = epoll_create1(0);
    if (pipe(pipes) || queue < 0) return 1;
    if (wakes) {
        sigset_t term;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &term, 0);
        pthread_create(&t[0], 0, waker, 0);
        pthread_sigmask(SIG_UNBLOCK, &term, 0);
    }
    if (strcmp(kind, "malloc")) {
        printf("started\n");
        fflush(stdout);
    }
    if (!strcmp(kind, "spin")) spin();
    else if (!strcmp(kind, "sleep")) sleeps();
    else if (!strcmp(kind, "read")) reads();
    else if (!strcmp(kind, "epoll")) epolls(queue);
    else if (!strcmp(kind, "futex")) futexes();
    else if (!strcmp(kind, "wait")) waits();
    else if (!strcmp(kind, "vforks")) vforks(argv[0]);
    else if (!strcmp(kind, "prefork")) prefork();
    else if (!strcmp(kind, "malloc")) {
        for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, mallocs, (void *)i);
        printf("started\n");
        fflush(stdout);
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    } else return 2;
    if (wakes) pthread_join(t[0], 0);
    printf("bad %lu eintr %lu %s\n", bad, eintr, rounds ? "went on" : "did nothing");
    return 5;
}
