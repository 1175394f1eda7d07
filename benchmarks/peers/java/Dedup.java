import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** The benchmark `dedup`: the first row of each key within 10 s. A timer clears the state of the key. */
final class Dedup {
    private static final long WITHIN_MS = 10_000;

    private Dedup() {}

    static final class First
            extends KeyedProcessFunction<
                    Long, Tuple4<Long, Double, Long, Long>, Tuple4<Long, Double, Long, Long>> {
        private transient ValueState<Long> until;

        @Override
        public void open(OpenContext ctx) {
            until = getRuntimeContext().getState(new ValueStateDescriptor<>("until", Types.LONG));
        }

        @Override
        public void processElement(
                Tuple4<Long, Double, Long, Long> row,
                Context ctx,
                Collector<Tuple4<Long, Double, Long, Long>> out)
                throws Exception {
            Long before = until.value();
            if (before == null || row.f2 >= before) {
                until.update(row.f2 + WITHIN_MS);
                ctx.timerService().registerEventTimeTimer(row.f2 + WITHIN_MS);
                out.collect(row);
            }
        }

        /** A row may have renewed the time before the watermark has passed it. */
        @Override
        public void onTimer(
                long at, OnTimerContext ctx, Collector<Tuple4<Long, Double, Long, Long>> out)
                throws Exception {
            Long before = until.value();
            if (before != null && before <= at) {
                until.clear();
            }
        }
    }

    static void build(DataStream<Tuple4<Long, Double, Long, Long>> rows, Peer.Load load) {
        Peer.sink(rows.keyBy(row -> row.f0, Types.LONG).process(new First()).returns(Timed.ROW), load);
    }
}
