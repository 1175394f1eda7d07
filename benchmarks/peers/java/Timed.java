import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Rows with event time: a key, a value, the time in ms, and the time in ns when the row was due or made.
 * They are those of `MeasurementsWithTime` and `Visits` of Rheos' benchmarks.
 */
final class Timed {
    static final TypeInformation<Tuple4<Long, Double, Long, Long>> ROW =
            Types.TUPLE(Types.LONG, Types.DOUBLE, Types.LONG, Types.LONG);
    static final int ROWS_PER_MS = 50;
    private static final int ACTIVE_MS = 15_000;

    private Timed() {}

    /** Rows whose keys are drawn from all keys, or from the third of them that is active. */
    static final class Rows extends Peer.Counted<Tuple4<Long, Double, Long, Long>> {
        private final int keys;
        private final boolean pauses;

        Rows(int keys, boolean pauses, double rate, long lookEveryNs) {
            super(rate, lookEveryNs);
            this.keys = keys;
            this.pauses = pauses;
        }

        @Override
        Tuple4<Long, Double, Long, Long> counted(long number, long sinceNs) {
            long at = number / ROWS_PER_MS;
            return Tuple4.of(key(at), random.nextDouble(), at, sinceNs);
        }

        private long key(long at) {
            if (!pauses) {
                return random.nextInt(keys);
            }
            int active = Math.max(keys / 3, 1);
            return (at / ACTIVE_MS % 3 * active + random.nextInt(active)) % keys;
        }
    }

    /** Returns the stream of a source, with watermarks. In a check, it returns the rows of its file. */
    static DataStream<Tuple4<Long, Double, Long, Long>> rows(
            StreamExecutionEnvironment env, Peer.Load load, String name, boolean pauses) {
        var source =
                load.inputs() == null
                        ? env.addSource(new Rows(load.keys(), pauses, load.rate(), load.lookEveryNs()))
                        : env.addSource(new Checked.Lines(load.inputs() + "/" + name + ".csv"));
        return source.returns(ROW)
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Tuple4<Long, Double, Long, Long>>forMonotonousTimestamps()
                                .withTimestampAssigner((row, before) -> row.f2));
    }
}
