/* build: c++ -O2 -g
 * words N: a std::map of strings with N entries, filled and half emptied three times. Prints how many are left. */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

int main(int argc, char **argv) {
    long n = argc > 1 ? std::atol(argv[1]) : 100000;
    std::map<std::string, std::string> words;
    unsigned long state = 1;
    for (int round = 0; round < 3; round++) {
        for (long i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            words[std::to_string(state >> 40)] = std::string(20 + state % 60, 'x');
        }
        for (auto at = words.begin(); at != words.end();) at = (at->second.size() & 1) ? words.erase(at) : ++at;
    }
    std::printf("%zu\n", words.size());
    return 0;
}
