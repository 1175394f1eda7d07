import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.types.Row;

/** What the program of PyFlink takes from Java: the source of the state machine, and its sink. */
public final class PythonPeer {
    private PythonPeer() {}

    /** Events as rows. They are counted as they leave, because those that break no rule give none. */
    static final class Events extends Peer.Counted<Row> {
        private final int users;
        private transient Peer.Events events;

        Events(int users, double rate, long lookEveryNs) {
            super(rate, lookEveryNs);
            this.users = users;
        }

        @Override
        public void open(OpenContext ctx) {
            super.open(ctx);
            events = new Peer.Events(users, 0, 0);
            events.random = random;
            events.subtask = subtask;
            events.subtasks = subtasks;
        }

        @Override
        Row counted(long number, long sinceNs) {
            var event = events.row(number, sinceNs);
            return Row.of(event.f0, event.f1, event.f2);
        }
    }

    static final class Sink extends RichSinkFunction<Row> {
        private transient Measured.Tap tap;

        @Override
        public void open(OpenContext ctx) {
            tap = new Measured.Tap();
        }

        @Override
        public void invoke(Row alert, Context context) {
            tap.latency((Long) alert.getField(2));
        }
    }

    public static DataStream<Row> events(
            StreamExecutionEnvironment env, int users, double rate, long lookEveryNs) {
        return env.addSource(new Events(users, rate, lookEveryNs))
                .returns(Types.ROW(Types.LONG, Types.STRING, Types.LONG));
    }

    public static void drain(DataStream<Row> alerts) {
        alerts.addSink(new Sink());
    }

    public static void open() {
        Measured.open();
    }

    public static void close() {
        Measured.close();
    }

    public static long rows() {
        return Measured.rows();
    }

    /** In milliseconds, or "null". */
    public static String quantile(double share) {
        return Measured.quantile(share);
    }
}
