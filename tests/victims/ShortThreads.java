/** As many threads as its word says, one after another, each with some milliseconds of work. */
public final class ShortThreads {
    static volatile long sum;

    static void work(int number) {
        for (int i = 0; i < 3_000_000; i++) sum += (long) i * number;
    }

    public static void main(String[] words) throws InterruptedException {
        for (int i = 0; i < Integer.parseInt(words[0]); i++) {
            int number = i;
            Thread thread = new Thread(() -> work(number));
            thread.start();
            thread.join();
        }
        System.out.println("done");
    }
}
