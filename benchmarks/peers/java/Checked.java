import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;

/** A check of a program: rows of a file in, and the number and the sums of its results out. */
final class Checked {
    private static double[] sums = new double[0];
    private static long results;

    private Checked() {}

    /** The rows of a file: key, value and time, separated by commas. */
    static final class Lines implements SourceFunction<Tuple4<Long, Double, Long, Long>> {
        private final String file;

        Lines(String file) {
            this.file = file;
        }

        @Override
        public void run(SourceContext<Tuple4<Long, Double, Long, Long>> ctx) throws IOException {
            for (String line : Files.readAllLines(Path.of(file))) {
                String[] cells = line.split(",");
                ctx.collect(
                        Tuple4.of(
                                Long.parseLong(cells[0]),
                                Double.parseDouble(cells[1]),
                                Long.parseLong(cells[2]),
                                0L));
            }
        }

        @Override
        public void cancel() {}
    }

    /** Adds up each column, except the last one: the time since which a latency counts. */
    static final class Sums<T extends Tuple> implements SinkFunction<T> {
        @Override
        public void invoke(T result, Context context) {
            synchronized (Checked.class) {
                if (sums.length == 0) {
                    sums = new double[result.getArity() - 1];
                }
                for (int i = 0; i < sums.length; i++) {
                    sums[i] += ((Number) result.getField(i)).doubleValue();
                }
                results++;
            }
        }
    }

    /** Returns the number of results and the sums of their columns, as JSON. */
    static synchronized String json() {
        StringBuilder columns = new StringBuilder();
        for (double sum : sums) {
            columns.append(columns.isEmpty() ? "" : ", ").append(String.format(Locale.ROOT, "%.9g", sum));
        }
        return String.format(Locale.ROOT, "{\"results\": %d, \"sums\": [%s]}", results, columns);
    }
}
