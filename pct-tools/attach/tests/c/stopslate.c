/* The main thread is the parent of a vfork, whose child waits for the file "go"; a second thread waits for a lock. Then it makes the
 * file "went-on" and ends.
 * cc -O2 -pthread */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>
static sem_t never;
static void *wait_for_ever(void *p) {
    sem_wait(&never);
    return p;
}
int main(void) {
    sem_init(&never, 0, 0);
    pthread_t t;
    if (pthread_create(&t, 0, wait_for_ever, 0)) return 2;
    pid_t child = vfork();
    if (child == 0) {
        while (access("go", F_OK)) poll(0, 0, 1);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status) return 1;
    close(open("went-on", O_CREAT | O_WRONLY, 0600));
    return 0;
}
