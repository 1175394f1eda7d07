import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.tuple.Tuple7;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/**
 * The benchmarks `sql-tumbling` and `sql-sliding` in SQL of Flink. Its sliding windows share the totals of
 * their slices, which those of the DataStream API do not.
 */
final class SqlWindows {
    private SqlWindows() {}

    private static String windows(String name) {
        return switch (name) {
            case "sql-tumbling" -> "TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' SECONDS)";
            case "sql-sliding" ->
                    "HOP(TABLE visits, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '10' SECONDS)";
            default -> throw new IllegalArgumentException(name + " has no windows");
        };
    }

    private static long epochMs(Object time) {
        return ((LocalDateTime) time).toInstant(ZoneOffset.UTC).toEpochMilli();
    }

    private static Tuple7<Long, Long, Long, Long, Double, Double, Long> totals(Row row) {
        return Tuple7.of(
                (Long) row.getField(0),
                epochMs(row.getField(1)),
                epochMs(row.getField(2)),
                (Long) row.getField(3),
                (Double) row.getField(4),
                (Double) row.getField(5),
                (Long) row.getField(6));
    }

    static void build(
            StreamExecutionEnvironment env,
            DataStream<Tuple4<Long, Double, Long, Long>> rows,
            String name,
            Peer.Load load) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().setLocalTimeZone(ZoneId.of("UTC"));
        tables.createTemporaryView(
                "visits",
                rows,
                Schema.newBuilder()
                        .column("f0", DataTypes.BIGINT().notNull())
                        .column("f1", DataTypes.DOUBLE().notNull())
                        .column("f2", DataTypes.BIGINT().notNull())
                        .column("f3", DataTypes.BIGINT().notNull())
                        .columnByMetadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
                        .watermark("ts", "SOURCE_WATERMARK()")
                        .build());
        String query =
                "SELECT f0, window_start, window_end, COUNT(*), SUM(f1), MAX(f1), MAX(f3) FROM TABLE("
                        + windows(name)
                        + ") GROUP BY f0, window_start, window_end";
        Peer.sink(
                tables.toDataStream(tables.sqlQuery(query))
                        .map(SqlWindows::totals, Windows.TOTALS),
                load);
    }
}
