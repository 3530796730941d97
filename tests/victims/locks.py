# Three threads wait for one lock, in one function; then two for the interpreter.
import threading
import time

lock = threading.Lock()


def hold():
    with lock:
        time.sleep(0.02)


def work():
    for _ in range(10):
        hold()


threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()


def spin():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        for _ in range(1000):
            pass


threads = [threading.Thread(target=spin) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
