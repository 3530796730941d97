import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/** `Locks MILLISECONDS`: two threads contend for a monitor, two for a lock, and one waits for work. */
public final class Locks {
    static final Object monitor = new Object();
    static final ReentrantLock lock = new ReentrantLock();
    static final Semaphore none = new Semaphore(0);
    static long end;

    static void rest() throws InterruptedException { Thread.sleep(20); }
    static void monitored() throws InterruptedException { synchronized (monitor) { rest(); } }
    static void locked() throws InterruptedException {
        lock.lock();
        try { rest(); } finally { lock.unlock(); }
    }
    static void idle() throws InterruptedException { none.tryAcquire(50, TimeUnit.MILLISECONDS); }

    interface Work { void once() throws InterruptedException; }
    static Thread begin(Work work) {
        Thread thread = new Thread(() -> {
            try { while (System.nanoTime() < end) work.once(); } catch (InterruptedException never) { }
        });
        thread.start();
        return thread;
    }

    public static void main(String[] words) throws InterruptedException {
        end = System.nanoTime() + Long.parseLong(words[0]) * 1_000_000;
        Thread[] threads = {
            begin(Locks::monitored), begin(Locks::monitored), begin(Locks::locked), begin(Locks::locked), begin(Locks::idle)
        };
        for (Thread thread : threads) thread.join();
        System.out.println("done");
    }
}
