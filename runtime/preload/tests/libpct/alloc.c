// Allocates in ways whose truth is known. A mode is the first argument; the second one names a file for the truth.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile size_t huge = (size_t)PTRDIFF_MAX;

static void fail(const char *what) {
  fprintf(stderr, "alloc: %s\n", what);
  exit(1);
}

static void expect(int right, const char *what) {
  if (!right) fail(what);
}

// Truth of a site: address of its function, bytes and blocks requested, bytes live at the end.
struct truth { uint64_t at, bytes, blocks, live; };
static struct truth *truths;
static int sites;

static void map_truth(const char *path, int count) {
  size_t bytes = sizeof(struct truth) * count;
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  expect(fd >= 0 && ftruncate(fd, bytes) == 0, "truth file");
  truths = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  expect(truths != MAP_FAILED, "truth mapping");
  sites = count;
}

// A thousand functions that each request memory; the constant keeps the compiler from making one of them.
#define SITE(n) __attribute__((noinline)) static void *site_##n(size_t size) { \
  void *p = malloc(size); __asm__ volatile("# %c1" : "+r"(p) : "i"(n)); return p; }
#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define HUNDRED(m, n) TEN(m, n##0) TEN(m, n##1) TEN(m, n##2) TEN(m, n##3) TEN(m, n##4) TEN(m, n##5) TEN(m, n##6) TEN(m, n##7) TEN(m, n##8) TEN(m, n##9)
#define ALL(m) HUNDRED(m, 1) HUNDRED(m, 2) HUNDRED(m, 3) HUNDRED(m, 4) HUNDRED(m, 5) HUNDRED(m, 6) HUNDRED(m, 7) HUNDRED(m, 8) HUNDRED(m, 9)
ALL(SITE)
#define POINTER(n) site_##n,
static void *(*const functions[])(size_t) = {ALL(POINTER)};
enum { SITES = sizeof functions / sizeof *functions };

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

// Each thread requests at random sites; each site has a size of its own; one block in eight stays.
static void *use_sites(void *argument) {
  uint64_t state = (uintptr_t)argument;
  for (int i = 0; i < 150000; i++) {
    // Few sites request much, many little.
    unsigned k = next_random(&state) % SITES;
    if (next_random(&state) % SITES < k) k = SITES - 1 - k;
    size_t size = 16 + k * 7 % 3000 + (k % 50 == 0 ? 20000 : 0);
    char *block = functions[k](size);
    expect(block != 0, "malloc");
    block[0] = 1;
    __atomic_fetch_add(&truths[k].bytes, size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&truths[k].blocks, 1, __ATOMIC_RELAXED);
    if (i % 8 == 0)
      __atomic_fetch_add(&truths[k].live, size, __ATOMIC_RELAXED);
    else
      free(block);
  }
  return 0;
}

static void in_threads(int count, void *(*work)(void *)) {
  pthread_t threads[64];
  for (int i = 0; i < count; i++) expect(!pthread_create(threads + i, 0, work, (void *)(uintptr_t)(i + 1)), "thread");
  for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
}

// Sites of exactly known requests, one each; blocks are so large that each request is a sample.
#define REQUEST(n, call) __attribute__((noinline)) static void *request_##n(void *old) { \
  void *p = 0; (void)old; call; __asm__ volatile("# %c1" : "+r"(p) : "i"(n)); return p; }
REQUEST(0, p = malloc(100001))
REQUEST(1, p = calloc(1001, 100))
REQUEST(2, p = realloc(old, 100201))
REQUEST(3, p = memalign(64, 100301))
REQUEST(4, p = aligned_alloc(4096, 102400))
REQUEST(5, if (posix_memalign(&p, 128, 100501)) p = 0)
REQUEST(6, p = valloc(100601))
REQUEST(7, p = pvalloc(100701))
REQUEST(8, p = reallocarray(old, 1003, 100))
REQUEST(9, p = realloc(0, 100901))
static void *(*const requests[])(void *) = {request_0, request_1, request_2, request_3, request_4,
  request_5, request_6, request_7, request_8, request_9};
static const int request_bytes[] = {100001, 100100, 100201, 100301, 102400, 100501, 100601, 100701, 100300, 100901};

static void exact(void) {
  int count = sizeof requests / sizeof *requests;
  map_truth(getenv("TRUTH"), count);
  for (int k = 0; k < count; k++) {
    // What realloc and reallocarray move was requested here, in this function.
    void *old = k == 2 || k == 8 ? malloc(50000) : 0;
    char *block = requests[k](old);
    expect(block != 0, "a request failed");
    expect(malloc_usable_size(block) >= (size_t)request_bytes[k], "usable size");
    memset(block, 7, request_bytes[k]);
    truths[k] = (struct truth){(uintptr_t)requests[k], request_bytes[k], 1, k % 2 ? request_bytes[k] : 0};
    if (k % 2 == 0) free(block);
  }
  // What fails is not counted, and leaves the block and errno as they should be.
  errno = 0;
  expect(!malloc(huge) && errno == ENOMEM, "huge malloc");
  expect(!malloc(huge + huge) && !malloc((size_t)1 << 63), "more than half of all");
  errno = 0;
  expect(!calloc(huge, 4) && errno == ENOMEM, "huge calloc");
  char *stays = malloc(60000);
  stays[59999] = 3;
  errno = 0;
  expect(!realloc(stays, huge) && errno == ENOMEM && stays[59999] == 3, "huge realloc");
  free(stays);
  void *none = (void *)5;
  expect(posix_memalign(&none, 3, 100000) == EINVAL && none == (void *)5, "wrong alignment");
  free(0);
  void *gone = realloc(malloc(70000), 0);
  if (gone) free(gone);
}

// Requests in a handler, of a thread that requests nothing itself: so the C library allows it.
static volatile sig_atomic_t handled;
static void request_in_handler(int signal) {
  (void)signal;
  handled++;
  for (int i = 0; i < 20; i++) free(functions[i](2000));
}
static pthread_t victim;
static volatile int over;
static void *disturb(void *argument) {
  while (!over) {
    pthread_kill(victim, SIGUSR1);
    for (int i = 0; i < 100; i++) free(functions[i](3000));
  }
  return argument;
}

static void *churn(void *argument) {
  uint64_t state = (uintptr_t)argument;
  void *ring[256] = {0};
  for (;;) {
    unsigned k = next_random(&state) % 256;
    if (next_random(&state) % 3 == 0) {
      ring[k] = realloc(ring[k], 1 + next_random(&state) % 5000);
    } else {
      free(ring[k]);
      ring[k] = malloc(next_random(&state) % 3000);
    }
  }
  return 0;
}

static void forks(void) {
  void *before = malloc(500000);
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    expect(child >= 0, "fork");
    if (!child) {
      free(before);
      for (int k = 0; k < 2000; k++) free(functions[k % SITES](1000));
      _exit(i);
    }
    int status;
    expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == i, "child");
    pid_t other = vfork();
    if (!other) _exit(3);
    expect(waitpid(other, &status, 0) == other && WEXITSTATUS(status) == 3, "vfork child");
  }
  free(before);
}

static void *short_thread(void *argument) {
  free(malloc(64));
  return argument;
}

int main(int count, char **arguments) {
  const char *mode = count > 1 ? arguments[1] : "";
  if (!strcmp(mode, "where")) {
    Dl_info info;
    expect(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) != 0, "dladdr");
    puts(info.dli_fname);
  } else if (!strcmp(mode, "exact")) {
    exact();
  } else if (!strcmp(mode, "sites")) {
    map_truth(getenv("TRUTH"), SITES);
    for (int k = 0; k < SITES; k++) truths[k].at = (uintptr_t)functions[k];
    in_threads(atoi(arguments[2]), use_sites);
  } else if (!strcmp(mode, "small")) {
    // Many threads that request little: countdowns that begin at 0 would make samples of most of them.
    for (int i = 0; i < 20; i++) in_threads(60, short_thread);
  } else if (!strcmp(mode, "churn")) {
    in_threads(atoi(arguments[2]), churn);
  } else if (!strcmp(mode, "forks")) {
    forks();
  } else if (!strcmp(mode, "signals")) {
    signal(SIGUSR1, request_in_handler);
    victim = pthread_self();
    pthread_t other;
    pthread_create(&other, 0, disturb, 0);
    while (handled < 2000) sched_yield();
    over = 1;
    pthread_join(other, 0);
    expect(handled > 10, "signals came");
  } else if (!strcmp(mode, "limit")) {
    // No more address space: requests fail as they would without us, and what is there goes on.
    struct rlimit limit = {400 << 20, 400 << 20};
    setrlimit(RLIMIT_AS, &limit);
    int failed = 0;
    for (int i = 0; i < 2000; i++) failed += malloc(1 << 20) == 0;
    expect(failed > 1000, "requests fail");
  } else {
    fail("no such mode");
  }
  return 0;
}
