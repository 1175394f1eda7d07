import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.tuple.Tuple6;
import org.apache.flink.api.java.tuple.Tuple7;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * The benchmarks `tumbling`, `sliding`, `session` and `top-n`: incremental aggregation, and a window
 * function that adds key and window to its result.
 */
final class Windows {
    private static final Duration TEN_S = Duration.ofSeconds(10);
    private static final int BEST = 3;

    /** Key, start, end, count, sum, max, and the latest time since which a latency counts. */
    static final TypeInformation<Tuple7<Long, Long, Long, Long, Double, Double, Long>> TOTALS =
            Types.TUPLE(
                    Types.LONG,
                    Types.LONG,
                    Types.LONG,
                    Types.LONG,
                    Types.DOUBLE,
                    Types.DOUBLE,
                    Types.LONG);

    /** Key, start, rank, value, time, and the latest time since which a latency counts. */
    private static final TypeInformation<Tuple6<Long, Long, Long, Double, Long, Long>> RANKED =
            Types.TUPLE(
                    Types.LONG, Types.LONG, Types.LONG, Types.DOUBLE, Types.LONG, Types.LONG);

    private Windows() {}

    public static final class Total {
        public long count;
        public double sum;
        public double max = Double.NEGATIVE_INFINITY;
        public long sinceNs = Long.MIN_VALUE;
    }

    static final class Totals implements AggregateFunction<Tuple4<Long, Double, Long, Long>, Total, Total> {
        @Override
        public Total createAccumulator() {
            return new Total();
        }

        @Override
        public Total add(Tuple4<Long, Double, Long, Long> row, Total total) {
            total.count++;
            total.sum += row.f1;
            total.max = Math.max(total.max, row.f1);
            total.sinceNs = Math.max(total.sinceNs, row.f3);
            return total;
        }

        @Override
        public Total getResult(Total total) {
            return total;
        }

        @Override
        public Total merge(Total one, Total other) {
            one.count += other.count;
            one.sum += other.sum;
            one.max = Math.max(one.max, other.max);
            one.sinceNs = Math.max(one.sinceNs, other.sinceNs);
            return one;
        }
    }

    static final class WithWindow
            extends ProcessWindowFunction<
                    Total, Tuple7<Long, Long, Long, Long, Double, Double, Long>, Long, TimeWindow> {
        @Override
        public void process(
                Long key,
                Context ctx,
                Iterable<Total> totals,
                Collector<Tuple7<Long, Long, Long, Long, Double, Double, Long>> out) {
            Total of = totals.iterator().next();
            TimeWindow window = ctx.window();
            out.collect(
                    Tuple7.of(
                            key,
                            window.getStart(),
                            window.getEnd(),
                            of.count,
                            of.sum,
                            of.max,
                            of.sinceNs));
        }
    }

    /** The largest values, largest first, with their times. */
    public static final class Best {
        public int rows;
        public double[] values = new double[BEST];
        public long[] times = new long[BEST];
        public long sinceNs = Long.MIN_VALUE;

        void add(double value, long at) {
            if (rows == BEST && value <= values[BEST - 1]) {
                return;
            }
            int place = Math.min(rows, BEST - 1);
            for (; place > 0 && values[place - 1] < value; place--) {
                values[place] = values[place - 1];
                times[place] = times[place - 1];
            }
            values[place] = value;
            times[place] = at;
            rows = Math.min(rows + 1, BEST);
        }
    }

    static final class Largest implements AggregateFunction<Tuple4<Long, Double, Long, Long>, Best, Best> {
        @Override
        public Best createAccumulator() {
            return new Best();
        }

        @Override
        public Best add(Tuple4<Long, Double, Long, Long> row, Best best) {
            best.add(row.f1, row.f2);
            best.sinceNs = Math.max(best.sinceNs, row.f3);
            return best;
        }

        @Override
        public Best getResult(Best best) {
            return best;
        }

        @Override
        public Best merge(Best one, Best other) {
            for (int i = 0; i < other.rows; i++) {
                one.add(other.values[i], other.times[i]);
            }
            one.sinceNs = Math.max(one.sinceNs, other.sinceNs);
            return one;
        }
    }

    static final class Ranked
            extends ProcessWindowFunction<
                    Best, Tuple6<Long, Long, Long, Double, Long, Long>, Long, TimeWindow> {
        @Override
        public void process(
                Long key,
                Context ctx,
                Iterable<Best> found,
                Collector<Tuple6<Long, Long, Long, Double, Long, Long>> out) {
            Best best = found.iterator().next();
            for (int i = 0; i < best.rows; i++) {
                out.collect(
                        Tuple6.of(
                                key,
                                ctx.window().getStart(),
                                i + 1L,
                                best.values[i],
                                best.times[i],
                                best.sinceNs));
            }
        }
    }

    static WindowAssigner<Object, TimeWindow> assigner(String name) {
        return switch (name) {
            case "tumbling", "top-n" -> TumblingEventTimeWindows.of(TEN_S);
            case "sliding" -> SlidingEventTimeWindows.of(TEN_S, Duration.ofSeconds(1));
            case "session" -> EventTimeSessionWindows.withGap(TEN_S);
            default -> throw new IllegalArgumentException(name + " has no windows");
        };
    }

    static void build(DataStream<Tuple4<Long, Double, Long, Long>> rows, String name, Peer.Load load) {
        var windows = rows.keyBy(row -> row.f0, Types.LONG).window(assigner(name));
        if (name.equals("top-n")) {
            var types = Types.POJO(Best.class);
            Peer.sink(windows.aggregate(new Largest(), new Ranked(), types, types, RANKED), load);
        } else {
            var types = Types.POJO(Total.class);
            Peer.sink(windows.aggregate(new Totals(), new WithWindow(), types, types, TOTALS), load);
        }
    }
}
