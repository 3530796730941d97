# Objects of Python whose sizes the program knows. `objects.py sites`: makes them, prints the bytes of each function's, and is
# killed while all live. `objects.py manners`: threads, children, interpreters beside the main one; what it prints is fixed.
import json, os, signal, sys, threading

class Node:
    __slots__ = ("left", "right")

def nodes(count):
    kept = []
    for _ in range(count):
        kept.append(Node())
    return kept, [kept] + kept

def floats(count):
    kept = []
    for i in range(count):
        kept.append(i * 1.5)
    return kept, [kept] + kept

def growing(count):
    kept = []
    for _ in range(count):
        row = []
        for at in range(20):
            row.append(None)
        kept.append(row)
    return kept, [kept] + kept

# One function for each size: pymalloc serves 512 bytes and less, malloc more.
def bytes_500(count):
    kept = []
    for _ in range(count):
        kept.append(b"x" * (500 - EMPTY))
    return kept, [kept] + kept

def bytes_512(count):
    kept = []
    for _ in range(count):
        kept.append(b"x" * (512 - EMPTY))
    return kept, [kept] + kept

def bytes_513(count):
    kept = []
    for _ in range(count):
        kept.append(b"x" * (513 - EMPTY))
    return kept, [kept] + kept

def bytes_5000(count):
    kept = []
    for _ in range(count):
        kept.append(b"x" * (5000 - EMPTY))
    return kept, [kept] + kept

# Large blocks that shrink to less than pymalloc's limit stay malloc's.
def shrunk(count):
    kept = []
    for _ in range(count):
        block = bytearray(3000)
        del block[100:]
        kept.append(block)
    return kept, [kept] + kept

EMPTY = sys.getsizeof(b"")
COUNTS = {nodes: 200000, floats: 300000, growing: 40000, bytes_500: 20000, bytes_512: 20000, bytes_513: 20000,
          bytes_5000: 2000, shrunk: 40000}

def sites():
    truth, keep = {}, []
    for make, count in COUNTS.items():
        kept, objects = make(count)
        keep.append(kept)
        truth[make.__name__] = sum(map(sys.getsizeof, objects))
    print(json.dumps(truth), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def work(seed):
    table = {}
    for i in range(20000):
        table[i % 100] = [str(seed + i), (i, seed), {"k": i * 1.5}]
    return len(table) + len(table[7][0])

def manners():
    results = [None] * 4
    def run(at):
        results[at] = work(at)
    threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("threads", results)
    for at in range(3):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os._exit(work(at) % 7)
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if hasattr(os, "waitstatus_to_exitcode")
              else os.waitpid(child, 0)[1] >> 8)
    interpreters()
    print("held", work(1))
    sys.exit(5)

def interpreters():
    text = "x = [(i, str(i)) for i in range(30000)]"
    try:
        import _interpreters as of                     # 3.13
    except ImportError:
        try:
            import _xxsubinterpreters as of            # 3.8 to 3.12
        except ImportError:
            return
    # Each in a thread of its own; from 3.12 on they have locks of their own.
    def run():
        interpreter = of.create()
        of.run_string(interpreter, text)
        of.destroy(interpreter)
    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("interpreters", 3)

sites() if sys.argv[1] == "sites" else manners()
