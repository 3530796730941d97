"""The interpreter's own functions do the work: it sorts, looks things up and joins. Prints how much, by its own clock."""

import random
import time

rows = [random.Random(1).random() for _ in range(2_000)]
rows = [(at * 7919) % 2003 / row for at, row in enumerate(rows, 1)]
known = {row: at for at, row in enumerate(rows)}


def order():
    return sorted(rows)


def find():
    return [known[row] for row in rows if row in known]


def join():
    return " ".join(map(str, rows))


def spend(work, seconds):
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        work()
    print("truth", work.__name__, time.thread_time() - start)


spend(order, 0.48)
spend(find, 0.12)
spend(join, 0.24)
