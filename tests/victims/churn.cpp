// build: c++ -O2 -pthread -ldl
// churn PLUGIN SECONDS: three threads throw, dlopen, dlclose and dl_iterate_phdr without end. Ends by itself, or hangs.
#include "burn.h"
#include <atomic>
#include <dlfcn.h>
#include <link.h>
#include <stdexcept>
#include <thread>
static std::atomic<bool> stop{false};
static std::atomic<long> thrown{0}, loaded{0}, walked{0};
static int see(dl_phdr_info *, size_t, void *) { return 0; }
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *plugin = argv[1];
    std::thread a([] { while (!stop) { try { throw std::runtime_error("x"); } catch (...) { thrown++; } } });
    std::thread b([plugin] { while (!stop) { void *h = dlopen(plugin, RTLD_NOW); if (h) { dlclose(h); loaded++; } } });
    std::thread c([] { while (!stop) { dl_iterate_phdr(see, nullptr); walked++; } });
    struct timespec t = {(time_t)atol(argv[2]), 0};
    while (nanosleep(&t, &t)) {}
    stop = true;
    a.join(); b.join(); c.join();
    printf("thrown %s loaded %s walked %s\n", thrown > 0 ? "some" : "NONE", loaded > 0 ? "some" : "NONE", walked > 0 ? "some" : "NONE");
    return 0;
}
