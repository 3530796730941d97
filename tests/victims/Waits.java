import java.util.concurrent.locks.LockSupport;

/** A thread for each way to wait: `Waits MILLISECONDS`. Each waits all the time, in the method that its name says. */
public final class Waits {
    static final Object held = new Object();
    static long end;

    static long rest() { return Math.max(1, (end - System.nanoTime()) / 1_000_000); }

    static void sleeps() throws Exception { Thread.sleep(rest()); }
    static void parks() { while (System.nanoTime() < end) LockSupport.parkNanos(end - System.nanoTime()); }
    static void locks() { synchronized (held) { held.notifyAll(); } }
    static void waits() throws Exception { Object own = new Object(); synchronized (own) { own.wait(rest()); } }
    static void joins(Thread other) throws Exception { other.join(); }
    static void reads() throws Exception {
        Process sleep = new ProcessBuilder("sleep", String.valueOf(rest() / 1000.0)).start();
        sleep.getInputStream().read();
    }

    interface Way { void go() throws Exception; }
    static Thread begin(String name, Way way) {
        Thread thread = new Thread(() -> {
            try { way.go(); } catch (Exception why) { throw new IllegalStateException(why); }
        }, name);
        thread.start();
        return thread;
    }

    public static void main(String[] words) throws Exception {
        end = System.nanoTime() + Long.parseLong(words[0]) * 1_000_000;
        synchronized (held) {
            Thread sleeper = begin("sleeps", Waits::sleeps);
            begin("parks", Waits::parks);
            begin("locks", Waits::locks);
            begin("waits", Waits::waits);
            begin("joins", () -> joins(sleeper));
            begin("reads", Waits::reads);
            Thread.sleep(rest());
        }
        System.out.println("done");
    }
}
