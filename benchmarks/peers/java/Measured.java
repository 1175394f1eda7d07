import java.util.Locale;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** What sinks count while the window is open: rows, and latencies in the buckets of Rheos' histogram. */
final class Measured {
    private static final int SHIFT = 52 - 7;
    private static final int OFFSET = 1023 << 7;
    private static final int BUCKETS = (62 << 7) + 1;
    private static final Queue<Tap> TAPS = new ConcurrentLinkedQueue<>();
    private static volatile boolean open;

    private Measured() {}

    /** One subtask's. */
    static final class Tap {
        private final long[] counts = new long[BUCKETS];
        private long rows;
        private long results;

        Tap() {
            TAPS.add(this);
        }

        /** Of every row; the latency of one in sixteen, as reading the clock is not free. */
        void count(long sinceNs) {
            if (!open) {
                return;
            }
            rows++;
            if ((rows & 15) == 0) {
                record(System.nanoTime() - sinceNs);
            }
        }

        /** Of a row whose latency is not known here. */
        void row() {
            if (open) {
                rows++;
            }
        }

        /** Of what came of rows that were counted elsewhere. */
        void latency(long sinceNs) {
            if (open) {
                record(System.nanoTime() - sinceNs);
            }
        }

        /** The same, of one in sixteen results, as reading the clock is not free. */
        void result(long sinceNs) {
            if (open && (++results & 15) == 0) {
                record(System.nanoTime() - sinceNs);
            }
        }

        private void record(long ns) {
            counts[(int) (Double.doubleToRawLongBits(Math.max(ns, 1)) >>> SHIFT) - OFFSET]++;
        }
    }

    static void open() {
        open = true;
    }

    /** Before the next run of this process. */
    static void forget() {
        TAPS.clear();
    }

    static void close() {
        open = false;
    }

    static long rows() {
        return TAPS.stream().mapToLong(tap -> tap.rows).sum();
    }

    /** In milliseconds, to half a percent; null where nothing was counted. */
    static String quantile(double share) {
        long[] counts = new long[BUCKETS];
        TAPS.forEach(tap -> {
            for (int i = 0; i < BUCKETS; i++) {
                counts[i] += tap.counts[i];
            }
        });
        long total = 0;
        for (long count : counts) {
            total += count;
        }
        long left = (long) Math.ceil(share * total);
        for (int bucket = 0; bucket < BUCKETS && total > 0; bucket++) {
            left -= counts[bucket];
            if (left <= 0) {
                double ns = (1L << (bucket >> 7)) * (1 + ((bucket & 127) + 0.5) / 128);
                return String.format(Locale.ROOT, "%.4f", ns / 1e6);
            }
        }
        return "null";
    }
}
