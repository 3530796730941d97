// Two threads compute checksums that are known; prints one line a second and whether all were right at SIGTERM.
import java.util.concurrent.atomic.AtomicLong;

public class Busy {
    static long checksum(int seed) {
        long x = seed;
        for (int i = 0; i < 200_000; i++) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
        }
        return x;
    }

    public static void main(String[] args) throws Exception {
        AtomicLong rounds = new AtomicLong(), bad = new AtomicLong();
        long truth = checksum(7);
        for (int t = 0; t < 2; t++) {
            Thread thread = new Thread(() -> {
                while (true) {
                    byte[] garbage = new byte[10_000];
                    if (checksum(7) != truth || garbage[5] != 0) bad.incrementAndGet();
                    rounds.incrementAndGet();
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("rounds " + rounds + " bad " + bad)));
        System.out.println("started");
        while (true) Thread.sleep(100);
    }
}
