"""Two functions called in turn by two others: no stack has a pair crossed. Does so many rounds, and prints the seconds
of CPU and of wall clock that they took."""
import sys
import time


def leaf_a():
    return sum(range(5))


def leaf_b():
    return sum(range(5))


def hot_a():
    return leaf_a()


def hot_b():
    return leaf_b()


def work(rounds):
    for _ in range(rounds):
        for _ in range(200):
            hot_a()
            hot_b()


wall, cpu = time.perf_counter(), time.process_time()
work(int(sys.argv[1]))
print(time.process_time() - cpu, time.perf_counter() - wall)
