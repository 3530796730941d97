"""libseccomp.py [waits]: sets a filter that libseccomp makes (it forbids some calls, by their arguments too), and works
after that: in two threads that begin then, in its first one, and in a child that it forks. With a word it says "started"
and waits for a line before. Ends with 5 if there is no such library."""
import ctypes
import os
import sys
import threading
import time

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050001
EQUAL, MASKED_EQUAL = 4, 7


class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def set_filter(library):
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))

    def add(action, call, *comparisons):
        number = library.seccomp_syscall_resolve_name(call.encode())
        listed = (Comparison * len(comparisons))(*comparisons)
        assert not library.seccomp_rule_add_array(
            context, ctypes.c_uint32(action), number, len(comparisons), listed
        ), call

    for call in "mount umount2 ptrace reboot swapon kexec_load init_module bpf keyctl".split():
        add(KILL, call)
    for call in "perf_event_open personality unshare setns".split():
        add(ERRNO, call)
    add(KILL, "socket", Comparison(0, EQUAL, 10, 0))
    add(ERRNO, "clone", Comparison(0, MASKED_EQUAL, 0x10000000, 0x10000000))
    assert library.seccomp_load(context) == 0


def work(seconds):
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        sum(i * i for i in range(1000))


try:
    libseccomp = ctypes.CDLL("libseccomp.so.2")
except OSError:
    sys.exit(5)
if len(sys.argv) > 1:
    print("started", flush=True)
    sys.stdin.readline()
set_filter(libseccomp)
threads = [threading.Thread(target=work, args=(0.2,)) for _ in range(2)]
for thread in threads:
    thread.start()
work(0.2)
for thread in threads:
    thread.join()
child = os.fork()
if child == 0:
    work(0.2)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
