import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.RichParallelSourceFunction;
import org.apache.flink.util.Collector;

/**
 * Benchmarks of Rheos as programs of Flink, in one process.
 *
 * <p>Arguments: the benchmark's name, then `--name value` as `rheos bench` takes them. Without them, each
 * line of the input has those of a run, which is answered before the next one. The last line
 * printed is a JSON object with the metrics, by the names of `rheos bench --json`. With `--inputs FOLDER`
 * a program with event time reads its rows from files there, and the line has the number of its results
 * and the sums of their columns.
 */
public final class Peer {
    private static final String[] TOUR = {
        "sign_in", "add", "add", "pay", "ship", "add", "remove", "sign_out"
    };
    private static final int WRONG_IN = 200;
    private static final String INITIAL = "outside";
    private static final Map<String, Map<String, String>> RULES =
            Map.of(
                    "outside", Map.of("sign_in", "browsing"),
                    "browsing", Map.of("add", "shopping", "sign_out", "outside"),
                    "shopping", Map.of("add", "shopping", "remove", "browsing", "pay", "paid"),
                    "paid", Map.of("ship", "browsing"));

    private Peer() {}

    /** The parameters of a run. `inputs` is the folder of a check, or null. */
    record Load(
            int parallelism, int keys, double rate, long lookEveryNs, String inputs) {}

    /** Gives rows as fast as they are taken, or each when it is due. */
    abstract static class Paced<T> extends RichParallelSourceFunction<T> {
        private static final int STAMPED_AT_ONCE = 16;
        private final double ratePerSubtask;
        private final long lookEveryNs;
        private volatile boolean running = true;
        transient SplittableRandom random;
        transient int subtask;
        transient int subtasks;

        /** A rate of 0 is none. Rows that are due are looked for so often, at least. */
        Paced(double ratePerSubtask, long lookEveryNs) {
            this.ratePerSubtask = ratePerSubtask;
            this.lookEveryNs = lookEveryNs;
        }

        abstract T row(long number, long sinceNs);

        @Override
        public void open(OpenContext ctx) {
            subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            random = new SplittableRandom(subtask);
        }

        @Override
        public void run(SourceContext<T> ctx) {
            long began = System.nanoTime();
            long number = 0;
            while (running) {
                long now = System.nanoTime();
                if (ratePerSubtask == 0) {
                    for (int i = 0; i < STAMPED_AT_ONCE; i++) {
                        ctx.collect(row(number++, now));
                    }
                    continue;
                }
                long due = began + (long) (number * 1e9 / ratePerSubtask);
                if (due <= now) {
                    ctx.collect(row(number++, due));
                } else {
                    LockSupport.parkNanos(Math.max(due - now, lookEveryNs));
                }
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    /** Counts its rows as they leave, for programs whose results are fewer or more than the rows. */
    abstract static class Counted<T> extends Paced<T> {
        private transient Measured.Tap tap;

        Counted(double ratePerSubtask, long lookEveryNs) {
            super(ratePerSubtask, lookEveryNs);
        }

        abstract T counted(long number, long sinceNs);

        @Override
        public void open(OpenContext ctx) {
            super.open(ctx);
            tap = new Measured.Tap();
        }

        @Override
        final T row(long number, long sinceNs) {
            tap.row();
            return counted(number, sinceNs);
        }
    }

    static final class Measurements extends Paced<Tuple3<Long, Double, Long>> {
        private final int keys;

        Measurements(int keys, double rate, long lookEveryNs) {
            super(rate, lookEveryNs);
            this.keys = keys;
        }

        @Override
        Tuple3<Long, Double, Long> row(long number, long sinceNs) {
            return Tuple3.of((long) random.nextInt(keys), random.nextDouble(), sinceNs);
        }
    }

    /** A user's events are all of one subtask; its users come in rounds. */
    static final class Events extends Paced<Tuple3<Long, String, Long>> {
        private final int users;

        Events(int users, double rate, long lookEveryNs) {
            super(rate, lookEveryNs);
            this.users = users;
        }

        @Override
        Tuple3<Long, String, Long> row(long number, long sinceNs) {
            long ours = (users - subtask + subtasks - 1) / subtasks;
            boolean wrong = random.nextInt(WRONG_IN) == 0;
            int step = wrong ? random.nextInt(TOUR.length) : (int) (number / ours % TOUR.length);
            return Tuple3.of(number % ours * subtasks + subtask, TOUR[step], sinceNs);
        }
    }

    static final class Totals
            extends KeyedProcessFunction<Long, Tuple3<Long, Double, Long>, Tuple3<Long, Double, Long>> {
        private transient ValueState<Tuple2<Long, Double>> totals;

        @Override
        public void open(OpenContext ctx) {
            totals =
                    getRuntimeContext()
                            .getState(
                                    new ValueStateDescriptor<>(
                                            "totals", Types.TUPLE(Types.LONG, Types.DOUBLE)));
        }

        @Override
        public void processElement(
                Tuple3<Long, Double, Long> row, Context ctx, Collector<Tuple3<Long, Double, Long>> out)
                throws Exception {
            Tuple2<Long, Double> now = totals.value();
            now = now == null ? Tuple2.of(1L, row.f1) : Tuple2.of(now.f0 + 1, now.f1 + row.f1);
            totals.update(now);
            out.collect(Tuple3.of(now.f0, now.f1, row.f2));
        }
    }

    /** Every event is counted, as those that break no rule give none. */
    static final class Validate
            extends KeyedProcessFunction<Long, Tuple3<Long, String, Long>, Tuple3<Long, String, Long>> {
        private transient ValueState<String> state;
        private transient Measured.Tap tap;

        @Override
        public void open(OpenContext ctx) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("state", Types.STRING));
            tap = new Measured.Tap();
        }

        @Override
        public void processElement(
                Tuple3<Long, String, Long> event, Context ctx, Collector<Tuple3<Long, String, Long>> out)
                throws Exception {
            String before = state.value();
            String following = RULES.get(before == null ? INITIAL : before).get(event.f1);
            if (following == null) {
                out.collect(Tuple3.of(event.f0, event.f1, event.f2));
                state.clear();
            } else {
                state.update(following);
            }
            tap.count(event.f2);
        }
    }

    static final class Sink extends RichSinkFunction<Tuple3<Long, Double, Long>> {
        private transient Measured.Tap tap;

        @Override
        public void open(OpenContext ctx) {
            tap = new Measured.Tap();
        }

        @Override
        public void invoke(Tuple3<Long, Double, Long> row, Context context) {
            tap.count(row.f2);
        }
    }

    /** Measures results whose last column is the time since which a latency counts. */
    static final class Results<T extends Tuple> extends RichSinkFunction<T> {
        private transient Measured.Tap tap;

        @Override
        public void open(OpenContext ctx) {
            tap = new Measured.Tap();
        }

        @Override
        public void invoke(T result, Context context) {
            tap.result(result.getField(result.getArity() - 1));
        }
    }

    /** Measures the results, or adds them up in a check. */
    static <T extends Tuple> void sink(DataStream<T> results, Load load) {
        results.addSink(load.inputs() == null ? new Results<>() : new Checked.Sums<>());
    }

    static final class Nothing extends RichSinkFunction<Tuple3<Long, String, Long>> {
        @Override
        public void invoke(Tuple3<Long, String, Long> alert, Context context) {}
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            run(args);
            System.exit(0);
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Measured.forget();
            run(line.trim().split(" +"));
        }
        System.exit(0);
    }

    private static void run(String[] args) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int i = 1; i + 1 < args.length; i += 2) {
            given.put(args[i], args[i + 1]);
        }
        if (args[0].equals("nexmark")) {
            Nexmark.run(given);
            return;
        }
        int parallelism = Integer.parseInt(given.getOrDefault("--parallelism", "2"));
        int keys = Integer.parseInt(given.getOrDefault("--keys", defaultKeys(args[0])));
        double rate = Double.parseDouble(given.getOrDefault("--rate", "0"));
        long timeoutMs = Long.parseLong(given.getOrDefault("--buffer-timeout", "10").replace("ms", ""));
        double seconds = Double.parseDouble(given.getOrDefault("--seconds", "10"));
        double warmup = Double.parseDouble(given.getOrDefault("--warmup", "10"));
        long lookEveryNs = timeoutMs * 1_000_000 / 10;

        Configuration configuration = new Configuration();
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(512));
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(512));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        env.getConfig().enableObjectReuse();
        env.setBufferTimeout(timeoutMs);
        env.getConfig().setAutoWatermarkInterval(Math.max(timeoutMs, 1));
        Load load = new Load(parallelism, keys, rate, lookEveryNs, given.get("--inputs"));
        switch (args[0]) {
            case "grouping" ->
                    env.addSource(new Measurements(keys, rate, lookEveryNs))
                            .returns(Types.TUPLE(Types.LONG, Types.DOUBLE, Types.LONG))
                            .keyBy(row -> row.f0, Types.LONG)
                            .process(new Totals())
                            .returns(Types.TUPLE(Types.LONG, Types.DOUBLE, Types.LONG))
                            .addSink(new Sink());
            case "state-machine" ->
                    env.addSource(new Events(keys, rate, lookEveryNs))
                            .returns(Types.TUPLE(Types.LONG, Types.STRING, Types.LONG))
                            .keyBy(event -> event.f0, Types.LONG)
                            .process(new Validate())
                            .returns(Types.TUPLE(Types.LONG, Types.STRING, Types.LONG))
                            .addSink(new Nothing());
            case "pattern" -> Kinds.build(env, keys, rate, lookEveryNs);
            case "tumbling", "sliding" ->
                    Windows.build(Timed.rows(env, load, "visits", false), args[0], load);
            case "top-n" ->
                    Windows.build(Timed.rows(env, load, "measurements", false), args[0], load);
            case "session" -> Windows.build(Timed.rows(env, load, "visits", true), args[0], load);
            case "sql-tumbling", "sql-sliding" ->
                    SqlWindows.build(env, Timed.rows(env, load, "visits", false), args[0], load);
            case "dedup" -> Dedup.build(Timed.rows(env, load, "measurements", false), load);
            case "interval-join", "window-join" ->
                    Joins.build(
                            Timed.rows(env, load, "left", false),
                            Timed.rows(env, load, "right", false),
                            args[0],
                            load);
            default -> throw new IllegalArgumentException("there is no peer of " + args[0]);
        }
        if (load.inputs() != null) {
            env.execute(args[0]);
            System.out.println(Checked.json());
            return;
        }
        JobClient job = env.executeAsync(args[0]);
        Thread.sleep((long) (warmup * 1000));
        long began = System.nanoTime();
        long before = processorNs();
        Measured.open();
        Thread.sleep((long) (seconds * 1000));
        Measured.close();
        double took = System.nanoTime() - began;
        double used = processorNs() - before;
        long rows = Measured.rows();
        System.out.printf(
                Locale.ROOT,
                "{\"records_per_s\": %.0f, \"cores\": %.4f, \"processor_us_per_record\": %s, "
                        + "\"latency_ms\": {\"p50\": %s, \"p90\": %s, \"p99\": %s}}%n",
                rows * 1e9 / took,
                used / took,
                rows == 0 ? "null" : String.format(Locale.ROOT, "%.4f", used / 1000 / rows),
                Measured.quantile(0.5),
                Measured.quantile(0.9),
                Measured.quantile(0.99));
        System.out.flush();
        job.cancel().get();
    }

    private static String defaultKeys(String name) {
        return switch (name) {
            case "grouping", "state-machine", "pattern" -> "10000";
            default -> "100000";
        };
    }

    /** Of this process, up to now. */
    static long processorNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }
}
