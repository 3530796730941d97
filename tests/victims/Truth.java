import java.util.*;
import java.util.zip.*;

public final class Truth {
    interface Work { long run(int n); }
    static long sink;
    static long spin(long n) {
        long x = 1;
        for (long i = 0; i < n; i++) {
            x = x * 6364136223846793005L + i;
        }
        return x;
    }
    static final class F1 implements Work { public long run(int n) { return f1(n); } static long f1(int n) { return spin(n); } }
    static final class F2 implements Work { public long run(int n) { return f2(n); } static long f2(int n) { return spin(2L * n); } }
    static final class F4 implements Work { public long run(int n) { return f4(n); } static long f4(int n) { return spin(4L * n); } }
    static final class F8 implements Work { public long run(int n) { return f8(n); } static long f8(int n) { return spin(8L * n); } }

    static long recurse(int depth, int n) {
        if (depth == 0) {
            return spin(n);
        }
        return recurse(depth - 1, n) + 1;
    }
    static long sorted(int n) {
        Integer[] a = new Integer[64];
        for (int i = 0; i < a.length; i++) a[i] = (i * 7919) % 64;
        Arrays.sort(a, (p, q) -> compare(p, q, n));
        return a[0];
    }
    static int compare(int p, int q, int n) { sink += spin(n); return Integer.compare(p, q); }
    static final byte[] DATA = new byte[1 << 14];
    static long deflated() {
        Deflater d = new Deflater();
        d.setInput(DATA); d.finish();
        byte[] out = new byte[1 << 15];
        long n = d.deflate(out);
        d.end();
        return n;
    }
    static long allocated(int n) {
        List<Object> all = new ArrayList<>();
        Map<String, Integer> m = new HashMap<>();
        for (int i = 0; i < n; i++) { all.add(new int[16]); m.merge("k" + (i & 63), 1, Integer::sum); }
        return all.size() + m.size();
    }
    static long thrown(int depth) {
        try { return thrower(depth); } catch (IllegalStateException e) { return 1; }
    }
    static long thrower(int depth) {
        if (depth == 0) throw new IllegalStateException();
        return thrower(depth - 1) + 1;
    }
    static long round(Work[] all, int n) {
        long s = 0;
        for (Work w : all) s += w.run(n);
        s += recurse(20, n);
        s += sorted(n / 64 + 1);
        s += deflated();
        s += allocated(n / 8 + 10);
        s += thrown(6);
        return s;
    }
    static void loop(long end) {
        Work[] all = { new F1(), new F2(), new F4(), new F8() };
        for (int i = 0; i < DATA.length; i++) DATA[i] = (byte) (i * i >> 3);
        while (System.nanoTime() < end) sink += round(all, 2000);
    }
    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + Long.parseLong(args[0]) * 1000_000L;
        int threads = args.length > 1 ? Integer.parseInt(args[1]) : 1;
        List<Thread> list = new ArrayList<>();
        for (int i = 1; i < threads; i++) { Thread t = new Thread(() -> loop(end)); t.start(); list.add(t); }
        loop(end);
        for (Thread t : list) t.join();
        System.out.println("done");
    }
}
