"""Calls in many ways, again and again, with frames of many sizes.

A comment `# calls NAME...` names all that a line's function may call. Whoever stops this program between any two instructions
knows by them which caller of a function is possible.
"""
import os, signal, sys

def leaf(n):
    return n + 1

def wide(a, b, c, d, e, f):
    g = h = i = j = k = l = a
    return leaf(b + g + h + i + j + k + l)  # calls leaf

def narrow(a):
    return leaf(a)  # calls leaf

def tall(a):
    return [leaf(a), (a, a, a, a, a, leaf((a + a + (a + (a + (a + a))))))]  # calls leaf

def deep(n):
    if n:
        return deep(n - 1)  # calls deep
    return narrow(n)  # calls narrow

def shapes(n):
    deep(n % 5)  # calls deep
    wide(1, 2, 3, 4, 5, n)  # calls wide
    tall(n)  # calls tall
    narrow(n)  # calls narrow

def key(x):
    return leaf(-x)  # calls leaf

def by_sort(n):
    return sorted((1, 2, 3), key=key)  # calls key

def by_sort_below(n):
    pad = n
    return by_sort(pad)  # calls by_sort

class Thing:
    __slots__ = ('n',)
    def __init__(self, n):
        self.n = leaf(n)  # calls leaf
    def __lt__(self, other):
        return leaf(self.n) < other.n + 9  # calls leaf
    def __del__(self):
        narrow(5)  # calls narrow
    @property
    def value(self):
        return leaf(self.n)  # calls leaf
    def __getattr__(self, name):
        return leaf(1)  # calls leaf
    def __getitem__(self, at):
        return leaf(at)  # calls leaf

def holds(thing):
    return thing.value + thing.missing + thing[3]  # calls value __getattr__ __getitem__

def by_class(n):
    holds(Thing(n))  # calls holds __init__ __del__
    return Thing(1) < Thing(2)  # calls __init__ __lt__ __del__

def inner(n):
    for i in range(n):
        yield leaf(i)  # calls leaf

def outer(n):
    yield from inner(n)  # calls inner

def by_generator(n):
    total = 0
    for x in outer(3):  # calls outer
        total += narrow(x)  # calls narrow
    return sum(inner(2)) + total  # calls inner

async def awaited(n):
    return leaf(n)  # calls leaf

async def waits(n):
    return await awaited(n)  # calls awaited

def by_coroutine(n):
    try:
        waits(n).send(None)  # calls waits
    except StopIteration:
        pass

def raises(n):
    if n == 0:
        raise ValueError
    try:
        raises(n - 1)  # calls raises
    finally:
        leaf(n)  # calls leaf

def by_raise(n):
    try:
        raises(3)  # calls raises
    except ValueError:
        narrow(n)  # calls narrow

def keywords(*args, **more):
    return leaf(len(args))  # calls leaf

def by_keywords(n):
    keywords(1, 2, 3, a=n)  # calls keywords
    keywords(*(n, n), **{'b': n})  # calls keywords

def by_exec(n):
    space = {'leaf': leaf}
    exec('def made(n):\n    return leaf(n)\nmade(3)\n', space)  # calls <module>
    return space['made'](n)  # calls made

WAYS = [shapes, by_sort, by_sort_below, by_class, by_generator, by_coroutine, by_raise, by_keywords]

def turn(n):
    for way in WAYS:
        way(n)  # calls shapes by_sort by_sort_below by_class by_generator by_coroutine by_raise by_keywords

def main():
    for n in range(300):
        turn(n)  # calls turn
    for n in range(3):
        by_exec(n)  # calls by_exec
    print('ready', flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        turn(n)  # calls turn
        by_exec(n)  # calls by_exec

main()  # calls main
