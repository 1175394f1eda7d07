import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;

/**
 * The benchmark `pattern` of Rheos by Flink CEP: events by key, of a hundred kinds, and three of them
 * that follow each other. An event is its key, its kind, its time in ms, and when it was due or made.
 */
final class Kinds {
    private static final int KINDS = 100;
    private static final int ROWS_PER_MS = 50;
    private static final TypeInformation<Tuple4<Long, Long, Long, Long>> EVENT =
            Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG);

    private Kinds() {}

    static final class Events extends Peer.Counted<Tuple4<Long, Long, Long, Long>> {
        private final int keys;

        Events(int keys, double rate, long lookEveryNs) {
            super(rate, lookEveryNs);
            this.keys = keys;
        }

        @Override
        Tuple4<Long, Long, Long, Long> counted(long number, long sinceNs) {
            return Tuple4.of(
                    (long) random.nextInt(keys),
                    (long) random.nextInt(KINDS),
                    number / ROWS_PER_MS,
                    sinceNs);
        }
    }

    static final class Is extends SimpleCondition<Tuple4<Long, Long, Long, Long>> {
        private final long kind;

        Is(long kind) {
            this.kind = kind;
        }

        @Override
        public boolean filter(Tuple4<Long, Long, Long, Long> event) {
            return event.f1 == kind;
        }
    }

    static final class Sink extends RichSinkFunction<Long> {
        private transient Measured.Tap tap;

        @Override
        public void open(OpenContext ctx) {
            tap = new Measured.Tap();
        }

        @Override
        public void invoke(Long sinceNs, Context context) {
            tap.latency(sinceNs);
        }
    }

    static void build(StreamExecutionEnvironment env, int keys, double rate, long lookEveryNs) {
        var events =
                env.addSource(new Events(keys, rate, lookEveryNs))
                        .returns(EVENT)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Tuple4<Long, Long, Long, Long>>forMonotonousTimestamps()
                                        .withTimestampAssigner((event, before) -> event.f2));
        var pattern =
                Pattern.<Tuple4<Long, Long, Long, Long>>begin(
                                "first", AfterMatchSkipStrategy.skipPastLastEvent())
                        .where(new Is(0))
                        .followedBy("second")
                        .where(new Is(1))
                        .followedBy("third")
                        .where(new Is(2))
                        .within(Duration.ofMinutes(10));
        CEP.pattern(events.keyBy(event -> event.f0, Types.LONG), pattern)
                .select(match -> match.get("third").get(0).f3, Types.LONG)
                .addSink(new Sink());
    }
}
