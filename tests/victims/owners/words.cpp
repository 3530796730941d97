// build: c++ -O2 -g
// Templates of the standard library do the work. Prints how much, by its own clock.
#include "owners/spend.h"
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

struct Item {
    std::string name;
    double worth;
};
static std::vector<Item> items;
static size_t seen;

__attribute__((noinline)) static void fill() {
    std::mt19937 random(1);
    items.clear();
    for (int i = 0; i < 5000; i++) {
        items.push_back({std::to_string(random()), double(random())});
    }
}

__attribute__((noinline)) static void count() {
    std::map<std::string, double> sums;
    for (const Item &item : items) {
        sums[item.name] += item.worth;
    }
    seen += sums.size();
}

__attribute__((noinline)) static void order() {
    std::vector<std::string> names;
    for (const Item &item : items) {
        names.push_back(item.name);
    }
    std::sort(names.begin(), names.end());
    seen += names.front().size();
}

int main() {
    spend("fill()", fill, 0.12);
    spend("count()", count, 0.48);
    spend("order()", order, 0.24);
    return seen == 0;
}
