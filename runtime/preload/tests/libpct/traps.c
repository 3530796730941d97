// Threads that compute while the program sets its own action for SIGTRAP, in several ways.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int over, strange, seen;

static void fail(const char *what) {
  printf("failed: %s\n", what);
  exit(1);
}

static void on_trap(int number, siginfo_t *info, void *context) {
  (void)context;
  // TRAP_PERF: the program has no event that sends one.
  if (info->si_code == 6) strange++;
  else seen += number == SIGTRAP;
}

static void on_plain_trap(int number) { seen += number == SIGTRAP; }

static void *spin(void *argument) {
  volatile long turns = 0;
  while (!over) turns++;
  return argument;
}

static void work(long turns) {
  for (volatile long k = 0; k < turns; k++);
}

static int dies_of_a_trap(int by_instruction) {
  pid_t child = fork();
  if (!child) {
    if (by_instruction) __asm__ volatile("int3");
    else raise(SIGTRAP);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP;
}

int main(int count, char **arguments) {
  const char *way = count > 1 ? arguments[1] : "";
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) pthread_create(threads + i, 0, spin, 0);
  work(20000000);
  struct sigaction before, after;
  memset(&after, 0, sizeof after);
  sigaddset(&after.sa_mask, SIGUSR1);
  after.sa_sigaction = on_trap;
  after.sa_flags = SA_SIGINFO | (strcmp(way, "once") ? 0 : SA_RESETHAND);
  if (!strcmp(way, "ignored")) {
    if (signal(SIGTRAP, SIG_IGN) != SIG_DFL) fail("another action before");
    raise(SIGTRAP);
    if (!dies_of_a_trap(1)) fail("an ignored breakpoint kills");
    if (system("kill -TRAP $$; exit 7") != 7 << 8) fail("what is ignored stays ignored over an exec");
  } else if (!strcmp(way, "waited")) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    struct timespec none = {0, 0};
    sigtimedwait(&set, 0, &none);
  } else {
    if (!strcmp(way, "plain")) {
      if (signal(SIGTRAP, on_plain_trap) != SIG_DFL) fail("another action before");
    } else if (sigaction(SIGTRAP, &after, &before) || before.sa_handler != SIG_DFL) {
      fail("another action before");
    }
    raise(SIGTRAP);
    if (strcmp(way, "once")) __asm__ volatile("int3");
    // (A plain handler cannot tell whose a trap is.)
    if (strcmp(way, "plain") ? seen != (strcmp(way, "once") ? 2 : 1) : seen < 2) fail("a trap of the program's own");
    if (sigaction(SIGTRAP, 0, &before)) fail("the action cannot be read");
    if (!strcmp(way, "once")) {
      if (before.sa_handler != SIG_DFL) fail("SA_RESETHAND");
      if (!dies_of_a_trap(0)) fail("the default action kills");
    } else if (!strcmp(way, "plain")) {
      if (before.sa_handler != on_plain_trap || seen != 2) fail("the action reads otherwise, or a strange trap");
    } else if (before.sa_sigaction != on_trap || !sigismember(&before.sa_mask, SIGUSR1)) {
      fail("the action reads otherwise");
    }
  }
  work(5000000);
  if (!strcmp(way, "restored")) {
    signal(SIGTRAP, SIG_DFL);
    if (!dies_of_a_trap(0) || !dies_of_a_trap(1)) fail("the default action kills");
  }
  work(5000000);
  over = 1;
  for (int i = 0; i < 6; i++) pthread_join(threads[i], 0);
  if (strange) fail("traps of pct's events");
  if (!strcmp(way, "plain") && seen != 2) fail("strange traps");
  return 0;
}
