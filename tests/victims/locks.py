# Three threads wait for one lock, in one function.
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
