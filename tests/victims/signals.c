/* build: cc -O2 -pthread
 * signals: a program that lives on signals: SIGALRM by ITIMER_REAL every 2 ms, SIGUSR1 to itself, and threads that wait in
 * nanosleep, poll, epoll_wait, recv, futex with SA_RESTART handlers absent on purpose: every EINTR is counted.
 * With argument `quiet` no signal of its own is sent, so every EINTR is somebody else's doing. */
#include "burn.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
static volatile sig_atomic_t alarms, users;
static void on_alarm(int s) { (void)s; alarms++; }
static void on_user(int s) { (void)s; users++; }
static int eintr;
static volatile int stop;
static void count(long r) { if (r < 0 && errno == EINTR) __atomic_add_fetch(&eintr, 1, __ATOMIC_RELAXED); }
BURNER(burning)
static void *sleeper(void *a) {
    struct timespec t = {0, 30000000};
    while (!stop) count(nanosleep(&t, 0));
    return a;
}
static void *poller(void *a) { while (!stop) count(poll(0, 0, 30)); return a; }
static void *epoller(void *a) {
    int e = epoll_create1(0);
    struct epoll_event ev;
    while (!stop) count(epoll_wait(e, &ev, 1, 30));
    close(e);
    return a;
}
static void *receiver(void *a) {
    int s[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) return 0;
    struct timeval tv = {0, 30000};
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    char c;
    while (!stop) count(recv(s[0], &c, 1, 0));
    close(s[0]); close(s[1]);
    return a;
}
int main(int argc, char **argv) {
    int quiet = argc > 1 && !strcmp(argv[1], "quiet");
    void *(*jobs[])(void *) = {sleeper, poller, epoller, receiver};
    pthread_t t[4];
    if (!quiet) {
        struct sigaction sa;
        memset(&sa, 0, sizeof sa);
        sa.sa_handler = on_alarm; sa.sa_flags = SA_RESTART;
        sigaction(SIGALRM, &sa, 0);
        signal(SIGUSR1, on_user);
        struct itimerval iv = {{0, 2000}, {0, 2000}};
        setitimer(ITIMER_REAL, &iv, 0);
    } else for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, jobs[i], 0);
    double s = 0;
    int sent = 0;
    while (s < 0.8) {
        burn_sink += burning(5, &s);
        if (!quiet) { kill(getpid(), SIGUSR1); sent++; }
    }
    stop = 1;
    if (quiet) for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    TRUTH(burning, s);
    if (quiet) printf("eintr %d\n", eintr);
    else printf("users %s alarms %s\n", users == sent ? "all" : "LOST", alarms > 50 ? "many" : "FEW");
    return 0;
}
