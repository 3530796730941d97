"""Calls itself in many ways; at each point prints what the interpreter says of the frames, and stops until it is continued.

A line is a list of [file, name, line, first line], innermost first; the reader of this process's memory must see the same.
"""
import functools, json, signal, sys, threading

QUALIFIED = sys.version_info >= (3, 11)


def frames(frame):
    found = []
    while frame:
        code = frame.f_code
        found.append([code.co_filename, code.co_qualname if QUALIFIED else code.co_name, frame.f_lineno, code.co_firstlineno])
        frame = frame.f_back
    return found


def stop(what):
    print(json.dumps({"what": what, "thread": threading.get_native_id(), "frames": frames(sys._getframe())}), flush=True); signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class Thing:
    def method(self, what):
        stop(what)

    @property
    def shown(self):
        self.method("property")
        return 1

    def __lt__(self, other):
        self.method("__lt__ in sort")
        return False

    def __del__(self):
        stop("__del__")


class Meta(type):
    def __call__(cls, *args):
        stop("metaclass")
        return super().__call__(*args)


class Made(metaclass=Meta):
    def __init__(self):
        stop("__init__")


def generate(depth):
    if depth == 0:
        stop("generator")
        yield 1
    else:
        yield from generate(depth - 1)


def recurse(depth):
    return recurse(depth - 1) if depth else stop("recursion")


async def coroutine(depth):
    if depth:
        return await coroutine(depth - 1)
    stop("coroutine")


def key(value):
    if value == 2:
        stop("sorted key")
    return -value


def größe():
    stop("Latin-1")


def 计算():
    stop("UCS-2")


things = [Thing(), Thing()]
things[0].shown
things.sort()
Made()
list(generate(3))
recurse(300)
try:
    coroutine(4).send(None)
except StopIteration:
    pass
sorted([3, 2, 1], key=key)
functools.reduce(lambda a, b: stop("reduce") or a, [1, 2])
[stop("comprehension") for _ in range(1)]
größe()
计算()
exec(compile("def made():\n\n  stop('exec')\nmade()", "<made>", "exec"))
long = "x = 0\n" * 4000
exec(compile("def far():\n" + "".join("  " + part + "\n" for part in long.splitlines()) + "  stop('far down')\nfar()", "<far>", "exec"))
things.clear()
thread = threading.Thread(target=lambda: recurse(5))
thread.start()
thread.join()
print("done", flush=True)
