"""Calls in many ways for so many seconds of CPU time, and says at its end which lines each of its functions has.

A comment `# calls NAME...` names all that a line may call; `# through C NAME...` says that native frames lie between. Whoever
reads a stack of this program knows by them which caller of a function is possible, and at which line.
"""
import asyncio, ctypes, dis, functools, gc, json, re, sys, threading, time, zlib

DEPTH = 30

def leaf(n):
    s = 0
    for i in range(n):
        s += i
    return s

def other(n):
    return leaf(n)  # calls leaf

def key(x):
    return leaf(30) + x  # calls leaf

def by_sort():
    return sorted(range(30), key=key)  # through C key

class Thing:  # through C Thing
    def __init__(self, n):
        self.n = leaf(n)  # calls leaf
    def __lt__(self, o):
        return leaf(10) < o.n + 100000  # calls leaf
    def __del__(self):
        leaf(5)  # calls leaf

def by_class():
    return [Thing(20) for _ in range(20)]  # calls <listcomp> __init__

def by_lt():
    sorted([Thing(5), Thing(6), Thing(7)])  # calls __init__ __lt__

def inner(n):
    for i in range(n):
        yield leaf(20)  # calls leaf

def middle(n):
    yield from inner(n)  # calls inner

def outer(n):
    yield from middle(n)  # calls middle

def by_gen():
    return sum(outer(20))  # through C outer

def recurse(n):
    if n == 0:
        return leaf(50)  # calls leaf
    return recurse(n - 1)  # calls recurse

def by_recursion():
    return recurse(DEPTH)  # calls recurse

def sub(m):
    return str(leaf(10))  # calls leaf

def by_re():
    return re.sub('a', sub, 'abcabcabca')

CB = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

def callback(n):
    leaf(20)  # calls leaf
    return n

KEPT = CB(callback)

def by_ctypes():
    return KEPT(7)  # through C callback

def raiser(n):
    if n == 0:
        raise ValueError(leaf(5))  # calls leaf
    try:
        raiser(n - 1)  # calls raiser
    finally:
        leaf(3)  # calls leaf

def by_raise():
    try:
        raiser(8)  # calls raiser
    except ValueError:
        pass

COUNT = 0

def by_exec():
    global COUNT
    COUNT += 1
    n = COUNT
    space = {'leaf': leaf}
    src = 'def made_%d():\n' % n + '    pass\n' * (n % 7) + '    return leaf(100) + leaf(100)  # calls leaf\ndef calls_%d():\n    return made_%d() + made_%d()\n' % (n, n, n)
    exec(compile(src, '<made %d>' % n, 'exec'), space)
    return space['calls_%d' % n]()

async def co_leaf(n):
    leaf(20)  # calls leaf
    await asyncio.sleep(0)
    return n

async def co_mid(n):
    return await co_leaf(n)  # calls co_leaf

async def co_main():
    await asyncio.gather(*[co_mid(i) for i in range(5)])  # calls <listcomp> co_mid

def by_async():
    asyncio.run(co_main())  # calls co_main

DATA = bytes(range(256)) * 100

def by_zlib():
    return len(zlib.compress(DATA))

def by_gc():
    return gc.collect(0)

def by_reduce():
    return functools.reduce(lambda a, b: a + other(10), range(10))  # calls <lambda> other

ALL = [by_sort, by_class, by_lt, by_gen, by_recursion, by_re, by_ctypes, by_raise, by_exec, by_zlib, by_gc, by_reduce]

def work(end):
    while time.process_time() < end:
        for f in ALL:
            f()  # calls by_sort by_class by_lt by_gen by_recursion by_re by_ctypes by_raise by_exec by_zlib by_gc by_reduce

def main():
    end = time.process_time() + float(sys.argv[1])
    threads = [threading.Thread(target=work, args=(end,)) for _ in range(2)]  # calls <listcomp>
    for t in threads:
        t.start()
    while time.process_time() < end:
        for f in ALL:
            f()  # calls by_sort by_class by_lt by_gen by_recursion by_re by_ctypes by_raise by_exec by_zlib by_gc by_reduce
        by_async()  # calls by_async
    for t in threads:
        t.join()


def lines_of(code, found):
    """First line -> all lines of a code object and of those within it."""
    found.setdefault(code.co_firstlineno, []).extend(line for _, line in dis.findlinestarts(code) if line)  # calls <genexpr>
    for constant in code.co_consts:
        if hasattr(constant, 'co_code'):
            lines_of(constant, found)  # calls lines_of
    return found


main()  # calls main
with open(__file__) as file:
    print(json.dumps({'lines': lines_of(compile(file.read(), __file__, 'exec'), {}), 'made': COUNT}))  # calls lines_of
