import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.ZoneId;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * A query of Nexmark in Flink's SQL, over a number of events. The settings are those of the published
 * runs: mini-batches, and split distinct aggregates. State is on the heap, and objects are reused.
 */
final class Nexmark {
    private static final Queue<Count> COUNTS = new ConcurrentLinkedQueue<>();
    private static long beganNs;
    private static long usedBeforeNs;

    private Nexmark() {}

    /** The rows of one subtask of the sink. */
    static final class Count {
        long rows;

        Count() {
            COUNTS.add(this);
        }
    }

    /** The function of query 14. */
    public static final class CountChar extends ScalarFunction {
        public long eval(String text, String letter) {
            long count = 0;
            for (int i = 0; text != null && i < text.length(); i++) {
                if (text.charAt(i) == letter.charAt(0)) {
                    count++;
                }
            }
            return count;
        }
    }

    /** Starts the clock when the first subtask has emitted the events of the warm-up. */
    static synchronized void begin() {
        if (beganNs == 0) {
            beganNs = System.nanoTime();
            usedBeforeNs = Peer.processorNs();
        }
    }

    static void run(Map<String, String> given) throws Exception {
        COUNTS.clear();
        NexmarkSums.forget();
        beganNs = 0;
        boolean checked = given.containsKey("--check");
        long events = Long.parseLong(given.get("--events"));
        long warmUp = Long.parseLong(given.getOrDefault("--warm-up", "0"));
        StreamTableEnvironment tables =
                environment(Integer.parseInt(given.getOrDefault("--parallelism", "2")), checked);
        for (String statement : Files.readString(Path.of(given.get("--folder"), "tables.sql")).split(";\n")) {
            tables.executeSql(
                    statement
                            .replace("$COLUMNS", NexmarkEvents.COLUMNS)
                            .replace("$POOLS", given.get("--folder"))
                            .replace("$EVENTS", given.get("--events"))
                            .replace("$WARM_UP", Long.toString(warmUp))
                            .replace("$PER_SECOND", given.get("--per-second")));
        }
        tables.createTemporarySystemFunction("COUNT_CHAR", CountChar.class);
        String query = Files.readString(Path.of(given.get("--folder"), given.get("--query") + ".sql"));
        StatementSet statements = tables.createStatementSet();
        statements.add(
                tables.sqlQuery(query)
                        .insertInto(
                                TableDescriptor.forConnector("nexmark-sink")
                                        .option("sums", Boolean.toString(checked))
                                        .build()));
        statements.execute().await();
        double took = System.nanoTime() - beganNs;
        double used = Peer.processorNs() - usedBeforeNs;
        if (checked) {
            System.out.println(NexmarkSums.json());
        } else {
            System.out.printf(
                    Locale.ROOT,
                    "{\"records_per_s\": %.0f, \"cores\": %.4f, \"processor_us_per_record\": %.4f, "
                            + "\"seconds\": %.3f, \"results\": %d}%n",
                    (events - warmUp) * 1e9 / took,
                    used / took,
                    used / 1000 / (events - warmUp),
                    took / 1e9,
                    COUNTS.stream().mapToLong(count -> count.rows).sum());
        }
        System.out.flush();
    }

    private static StreamTableEnvironment environment(int parallelism, boolean checked) {
        Configuration configuration = new Configuration();
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(256));
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(256));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        env.getConfig().enableObjectReuse();
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        var config = tables.getConfig();
        config.setLocalTimeZone(ZoneId.of("UTC"));
        config.set("table.exec.mini-batch.enabled", "true");
        config.set("table.exec.mini-batch.allow-latency", "2 s");
        config.set("table.exec.mini-batch.size", "50000");
        config.set("table.optimizer.distinct-agg.split.enabled", "true");
        return tables;
    }
}
