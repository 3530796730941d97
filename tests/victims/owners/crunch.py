"""Children by multiprocessing do the work; the parent distributes it. Prints how much, by the children's own clocks."""

import hashlib
import multiprocessing
import time


def crunch():
    total = 0
    for i in range(20_000):
        total += i * i % 7
    return total


def digest():
    return hashlib.sha256(b"x" * 200_000).hexdigest()


def render():
    return ",".join("%d:%s" % (i, i * 3) for i in range(500))


def spend(task):
    work, seconds = task
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        work()
    return work.__name__, time.thread_time() - start


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for name, seconds in pool.map(spend, [(crunch, 0.48), (digest, 0.24), (render, 0.12)], chunksize=1):
            print("truth", name, seconds)
