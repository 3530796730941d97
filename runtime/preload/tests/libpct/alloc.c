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
#include <sys/stat.h>
#include <sys/syscall.h>
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

// One site requests and frees without end, another one requests a block in 100 of that and keeps it.
static void leak_beside_a_busy_site(void) {
  enum { BUSY, LEAK, BYTES = 64 };
  for (int i = 0; i < 4000000; i++) {
    int k = i % 100 == 0 ? LEAK : BUSY;
    char *block = functions[k](BYTES);
    expect(block != 0, "malloc");
    block[0] = 1;
    truths[k].bytes += BYTES;
    truths[k].blocks++;
    if (k == LEAK)
      truths[k].live += BYTES;
    else
      free(block);
  }
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

// What reaches pct from a program's own code, in a process whose recording was cut while SIGBUS is blocked.
static void *sampled_before, *moved_before;
static int (*mark)(const char *), (*heap_mark)(const char *), (*on)(const char *), (*off)(void);
static void allocates(void) { for (int i = 0; i < 20; i++) free(functions[i](2000)); }
static void frees(void) { free(sampled_before); }
static void moves(void) { moved_before = realloc(moved_before, 200000); }
static void marks(void) { mark("cut"); }
static void marks_the_heap(void) { heap_mark("cut"); }
static void switches_off(void) { off(); }
static void switches_off_and_on(void) { off(), on(0), mark("on again"); }
static void exits(void) { exit(0); }
static void exits_at_once(void) { _exit(0); }
static void executes(void) { execl("/bin/true", "true", (char *)0); }
static void loads(void) { dlclose(dlopen("libm.so.6", RTLD_NOW)); }
static void changes_user(void) { expect(!seteuid(geteuid()), "seteuid"); }
static void makes_a_thread(void) {
  pthread_t thread;
  expect(!pthread_create(&thread, 0, short_thread, 0), "thread");
  pthread_join(thread, 0);
}
static void has_a_child(void) {
  int status;
  pid_t child = fork();
  if (!child) _exit(0);
  expect(waitpid(child, &status, 0) == child && !status, "child");
}
static const struct { const char *name; void (*act)(void); } acts[] = {
  {"malloc", allocates}, {"free", frees}, {"realloc", moves}, {"pct_mark", marks}, {"pct_heap_mark", marks_the_heap},
  {"pct_off", switches_off}, {"pct_off and pct_on", switches_off_and_on}, {"exit", exits}, {"_exit", exits_at_once},
  {"exec", executes}, {"dlopen", loads}, {"seteuid", changes_user}, {"pthread_create", makes_a_thread}, {"fork", has_a_child}};
static int chosen;
static void act(int signal) { (void)signal, acts[chosen].act(); }

static const char *const blocked_by[] = {"a system call", "pthread_sigmask", "its own handler", "a handler's mask"};
static void act_while_blocked(int way) {
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  struct sigaction action = {.sa_handler = act};
  sigaction(SIGBUS, &action, 0);
  if (way == 3) sigfillset(&action.sa_mask);
  sigaction(SIGUSR1, &action, 0);
  if (way == 0) syscall(SYS_rt_sigprocmask, SIG_BLOCK, &bus, 0, 8);
  if (way == 1) pthread_sigmask(SIG_BLOCK, &bus, 0);
  if (way >= 2) raise(way == 2 ? SIGBUS : SIGUSR1);
  else act(0);
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, 0, &now);
  // (What a thread believed to block is forgotten when sampling ends, and learnt anew when it begins.)
  int switches = acts[chosen].act == switches_off || acts[chosen].act == switches_off_and_on;
  expect(switches || sigismember(&now, SIGBUS) == (way < 2), "the mask is another one");
}

// The recording is mapped, and no sample of a clock comes between: the first store to the cut file is what `act` does.
static void cut_recording(off_t bytes) {
  char line[4200], *name;
  expect(mark("made") == 0, "no recording");
  sampled_before = malloc(100000), moved_before = malloc(100000);
  FILE *maps = fopen("/proc/self/maps", "r");
  expect(maps != 0, "maps");
  int cut = 0;
  while (!cut && fgets(line, sizeof line, maps)) {
    if (!(name = strchr(line, '/')) || !strstr(name, ".pct\n")) continue;
    name[strcspn(name, "\n")] = 0;
    expect(!chmod(name, 0600) && !truncate(name, bytes), "cut");
    cut = 1;
  }
  expect(cut, "no recording is mapped");
}

static void cut_and_blocked(void) {
  mark = dlsym(RTLD_DEFAULT, "pct_mark"), heap_mark = dlsym(RTLD_DEFAULT, "pct_heap_mark");
  on = dlsym(RTLD_DEFAULT, "pct_on"), off = dlsym(RTLD_DEFAULT, "pct_off");
  expect(mark && heap_mark && on && off, "pct's functions");
  int killed = 0;
  for (int i = 0; i < (int)(sizeof acts / sizeof *acts) * 8; i++) {
    int way = i % 4, bytes = i / 4 % 2 ? 16384 : 0;
    chosen = i / 8;
    pid_t child = fork();
    if (!child) {
      cut_recording(bytes);
      act_while_blocked(way);
      _exit(0);
    }
    int status;
    expect(waitpid(child, &status, 0) == child, "wait");
    if (!status) continue;
    fprintf(stderr, "%s, SIGBUS blocked by %s, file cut at %d: status %x\n", acts[chosen].name, blocked_by[way], bytes, status);
    killed = 1;
  }
  if (killed) exit(1);
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
  } else if (!strcmp(mode, "leak")) {
    map_truth(getenv("TRUTH"), 2);
    for (int k = 0; k < 2; k++) truths[k].at = (uintptr_t)functions[k];
    leak_beside_a_busy_site();
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
  } else if (!strcmp(mode, "cut")) {
    cut_and_blocked();
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
