// build: c++ -O2 -fomit-frame-pointer
// exceptions N [SECONDS]: throws and catches N times through four frames, then burns for so long, 0.3 s. Prints the sum that says nothing was lost.
#include "burn.h"
#include <stdexcept>
#include <string>
BURNER(after_throwing)
__attribute__((noinline)) static int d4(int n) { if (n % 3) throw std::runtime_error("round " + std::to_string(n)); return 1; }
__attribute__((noinline)) static int d3(int n) { std::string keep(40, 'x'); return d4(n) + (int)keep.size() - 40; }
__attribute__((noinline)) static int d2(int n) { try { return d3(n); } catch (const std::logic_error &) { return 100; } }
__attribute__((noinline)) static int d1(int n) { return d2(n); }
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100000, caught = 0, through = 0;
    for (int i = 0; i < n; i++) try { through += d1(i); } catch (const std::exception &) { caught++; }
    double s = 0, seconds = argc > 2 ? atof(argv[2]) : 0.3;
    while (s < seconds) burn_sink += after_throwing(10, &s);
    printf("caught %d through %d\n", caught, through);
    TRUTH(after_throwing, s);
    return 0;
}
