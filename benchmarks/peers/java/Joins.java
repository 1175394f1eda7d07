import java.time.Duration;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.tuple.Tuple6;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.util.Collector;

/** The benchmarks `interval-join` and `window-join`: a row has about one partner. */
final class Joins {
    /** Key, value and time of the left row, value and time of the right one, and when the left one was
     * due or made. */
    private static final TypeInformation<Tuple6<Long, Double, Long, Double, Long, Long>> PAIR =
            Types.TUPLE(
                    Types.LONG, Types.DOUBLE, Types.LONG, Types.DOUBLE, Types.LONG, Types.LONG);

    private Joins() {}

    static final class Pairs
            extends ProcessJoinFunction<
                    Tuple4<Long, Double, Long, Long>,
                    Tuple4<Long, Double, Long, Long>,
                    Tuple6<Long, Double, Long, Double, Long, Long>> {
        @Override
        public void processElement(
                Tuple4<Long, Double, Long, Long> left,
                Tuple4<Long, Double, Long, Long> right,
                Context ctx,
                Collector<Tuple6<Long, Double, Long, Double, Long, Long>> out) {
            out.collect(pair(left, right));
        }
    }

    private static Tuple6<Long, Double, Long, Double, Long, Long> pair(
            Tuple4<Long, Double, Long, Long> left, Tuple4<Long, Double, Long, Long> right) {
        return Tuple6.of(left.f0, left.f1, left.f2, right.f1, right.f2, left.f3);
    }

    static void build(
            DataStream<Tuple4<Long, Double, Long, Long>> left,
            DataStream<Tuple4<Long, Double, Long, Long>> right,
            String name,
            Peer.Load load) {
        long apartMs = Math.max(load.keys() / (2 * Timed.ROWS_PER_MS * load.parallelism()), 1);
        if (name.equals("interval-join")) {
            Duration apart = Duration.ofMillis(apartMs);
            Peer.sink(
                    left.keyBy(row -> row.f0, Types.LONG)
                            .intervalJoin(right.keyBy(row -> row.f0, Types.LONG))
                            .between(apart.negated(), apart)
                            .process(new Pairs(), PAIR),
                    load);
        } else {
            Peer.sink(
                    left.join(right)
                            .where(row -> row.f0, Types.LONG)
                            .equalTo(row -> row.f0, Types.LONG)
                            .window(TumblingEventTimeWindows.of(Duration.ofMillis(2 * apartMs)))
                            .apply(Joins::pair, PAIR),
                    load);
        }
    }
}
