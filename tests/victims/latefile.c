/* build: cc -O2 -pthread
 * latefile: may have no descriptor at first (RLIMIT_NOFILE 0) while a thread works 0.2 CPU seconds in `before_file`.
 * Then the limit is as before, the main thread works 0.1 CPU seconds in `with_file`, and the other thread ends without
 * working any more. Prints the truth. */
#include "burn.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
BURNER(before_file)
BURNER(with_file)
static sem_t worked, may_end;
static double seconds[2];

static void *work(void *arg) {
    while (seconds[0] < 0.2) burn_sink += before_file(10, &seconds[0]);
    sem_post(&worked);
    sem_wait(&may_end);
    return arg;
}

int main(void) {
    struct rlimit usual, none;
    getrlimit(RLIMIT_NOFILE, &usual);
    none = usual;
    none.rlim_cur = 0;
    sem_init(&worked, 0, 0);
    sem_init(&may_end, 0, 0);
    if (setrlimit(RLIMIT_NOFILE, &none)) return 2;
    pthread_t other;
    if (pthread_create(&other, 0, work, 0)) return 3;
    sem_wait(&worked);
    if (setrlimit(RLIMIT_NOFILE, &usual)) return 4;
    while (seconds[1] < 0.1) burn_sink += with_file(10, &seconds[1]);
    sem_post(&may_end);
    pthread_join(other, 0);
    TRUTH(before_file, seconds[0]);
    TRUTH(with_file, seconds[1]);
    return 0;
}
