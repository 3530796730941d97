// build: c++ -O2 -g
// Exceptions and streams. Prints how much, by its own clock.
#include "owners/spend.h"
#include <sstream>
#include <stdexcept>
#include <string>

static long total;

__attribute__((noinline)) static void attempt() {
    for (int i = 0; i < 200; i++) {
        try {
            throw std::runtime_error("number " + std::to_string(i));
        } catch (const std::exception &e) {
            total += e.what()[0];
        }
    }
}

__attribute__((noinline)) static void render() {
    std::ostringstream out;
    for (int i = 0; i < 1000; i++) {
        out << i << ": " << 1.5 * i << '\n';
    }
    total += long(out.str().size());
}

__attribute__((noinline)) static void add() {
    for (int i = 0; i < 100000; i++) {
        total += total % 7 + i;
    }
}

int main() {
    spend("add()", add, 0.12);
    spend("render()", render, 0.24);
    spend("attempt()", attempt, 0.48);
    return total == 0;
}
