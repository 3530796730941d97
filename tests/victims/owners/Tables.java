/** The class library does the work. Prints how much, by its own clock. */
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;

public class Tables {
    static long used;

    static double seconds() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() / 1e9;
    }

    static void build() {
        Map<String, Integer> counts = new HashMap<>();
        for (int i = 0; i < 20000; i++) {
            counts.merge("k" + i % 1000, 1, (a, b) -> a + b);
        }
        used += counts.size();
    }

    static void render() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 20000; i++) {
            text.append(i).append(", ");
        }
        used += text.length();
    }

    static void add() {
        for (int i = 0; i < 200000; i++) {
            used += used % 7 + i;
        }
    }

    static void spend(String name, Runnable work, double most) {
        double start = seconds();
        while (seconds() - start < most) {
            work.run();
        }
        System.out.println("truth Tables." + name + " " + (seconds() - start));
    }

    public static void main(String[] arguments) {
        spend("build", Tables::build, 1.2);
        spend("render", Tables::render, 0.6);
        spend("add", Tables::add, 0.3);
    }
}
