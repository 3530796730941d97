/** Virtual threads that work ("works"), or that work between short waits, deep in calls ("waits"). */
public final class VirtualThreads {
    static volatile long sum;

    static void work(long number) {
        for (long i = 0; i < number; i++) sum += i ^ number;
    }

    static void waits(int depth) throws InterruptedException {
        if (depth > 0) {
            waits(depth - 1);
            return;
        }
        for (int i = 0; i < 100; i++) {
            Thread.sleep(1);
            work(300_000);
        }
    }

    static void begin(boolean waits) {
        try {
            if (waits) waits(20);
            else work(30_000_000);
        } catch (InterruptedException never) {
            throw new IllegalStateException(never);
        }
    }

    public static void main(String[] words) throws InterruptedException {
        Thread[] threads = new Thread[6];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = Thread.ofVirtual().start(() -> begin(words[0].equals("waits")));
        }
        for (Thread thread : threads) thread.join();
        System.out.println("done");
    }
}
