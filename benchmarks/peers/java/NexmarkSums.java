import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.zip.CRC32;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.RowKind;

/**
 * Adds up each column of the final table: numbers, times in ms, and CRCs of strings. A retraction
 * subtracts its row. The last sum is of CRCs of rows, without their fractions.
 */
final class NexmarkSums implements SinkFunction<RowData> {
    private static long results;
    private static double[] sums = new double[0];
    private final List<LogicalType> types;

    NexmarkSums(List<LogicalType> types) {
        this.types = new ArrayList<>(types);
    }

    static synchronized void forget() {
        results = 0;
        sums = new double[0];
    }

    static synchronized String json() {
        StringBuilder columns = new StringBuilder();
        for (double sum : sums) {
            columns.append(columns.isEmpty() ? "" : ", ").append(String.format(Locale.ROOT, "%.15g", sum));
        }
        return String.format(Locale.ROOT, "{\"results\": %d, \"sums\": [%s]}", results, columns);
    }

    @Override
    public void invoke(RowData row, Context context) {
        boolean added = row.getRowKind() == RowKind.INSERT || row.getRowKind() == RowKind.UPDATE_AFTER;
        int sign = added ? 1 : -1;
        synchronized (NexmarkSums.class) {
            if (sums.length == 0) {
                sums = new double[types.size() + 1];
            }
            results += sign;
            StringBuilder exact = new StringBuilder();
            for (int i = 0; i < types.size(); i++) {
                Object value = RowData.createFieldGetter(types.get(i), i).getFieldOrNull(row);
                sums[i] += sign * number(value);
                if (!(value instanceof Double || value instanceof DecimalData)) {
                    exact.append(text(value)).append('|');
                }
            }
            sums[types.size()] += sign * crc(exact.toString());
        }
    }

    private static double number(Object value) {
        if (value == null) {
            return 0;
        } else if (value instanceof StringData string) {
            return crc(string.toString());
        } else if (value instanceof TimestampData time) {
            return time.getMillisecond();
        } else if (value instanceof DecimalData decimal) {
            return decimal.toBigDecimal().doubleValue();
        }
        return ((Number) value).doubleValue();
    }

    private static String text(Object value) {
        return value instanceof TimestampData time
                ? Long.toString(time.getMillisecond())
                : String.valueOf(value);
    }

    private static long crc(String text) {
        CRC32 crc = new CRC32();
        crc.update(text.getBytes(StandardCharsets.UTF_8));
        return crc.getValue();
    }
}
