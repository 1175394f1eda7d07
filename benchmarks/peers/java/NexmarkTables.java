import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.legacy.RichSinkFunction;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.LookupFunction;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.RowKind;

/** The tables of Nexmark: events, a sink that drops or adds up its rows, and the side input. */
public final class NexmarkTables {
    private static final ConfigOption<String> POOLS =
            ConfigOptions.key("pools").stringType().noDefaultValue();
    private static final ConfigOption<Long> EVENTS =
            ConfigOptions.key("events").longType().noDefaultValue();
    private static final ConfigOption<Long> WARM_UP =
            ConfigOptions.key("warm-up").longType().noDefaultValue();
    private static final ConfigOption<Double> PER_SECOND =
            ConfigOptions.key("per-second").doubleType().noDefaultValue();
    private static final ConfigOption<Boolean> SUMS =
            ConfigOptions.key("sums").booleanType().defaultValue(false);
    private static final ConfigOption<Integer> SIZE =
            ConfigOptions.key("size").intType().noDefaultValue();

    private NexmarkTables() {}

    /** Creates the table of events. */
    public static final class EventsFactory implements DynamicTableSourceFactory {
        @Override
        public String factoryIdentifier() {
            return "nexmark-events";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of(POOLS, EVENTS, WARM_UP, PER_SECOND);
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of();
        }

        @Override
        public DynamicTableSource createDynamicTableSource(Context context) {
            var helper = FactoryUtil.createTableFactoryHelper(this, context);
            helper.validate();
            ReadableConfig options = helper.getOptions();
            return new Events(
                    options.get(POOLS),
                    options.get(EVENTS),
                    options.get(WARM_UP),
                    options.get(PER_SECOND),
                    context.getPhysicalRowDataType());
        }
    }

    private record Events(
            String pools, long events, long warmUp, double perSecond, DataType type)
            implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            var rows = context.<RowData>createTypeInformation(type);
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(
                        ProviderContext provider, StreamExecutionEnvironment env) {
                    var source = new NexmarkEvents(pools, events, warmUp, perSecond);
                    return env.addSource(source, "events", rows);
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "events";
        }
    }

    /** Creates the side input of query 13: keys from 0, each with a string. */
    public static final class SideFactory implements DynamicTableSourceFactory {
        @Override
        public String factoryIdentifier() {
            return "nexmark-side";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of(SIZE);
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of();
        }

        @Override
        public DynamicTableSource createDynamicTableSource(Context context) {
            var helper = FactoryUtil.createTableFactoryHelper(this, context);
            helper.validate();
            return new Side(helper.getOptions().get(SIZE));
        }
    }

    private record Side(int size) implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return LookupFunctionProvider.of(new LookUp(size));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "side";
        }
    }

    /** Looks keys up in memory. */
    public static final class LookUp extends LookupFunction {
        private final int size;
        private transient Map<Long, List<RowData>> rows;

        LookUp(int size) {
            this.size = size;
        }

        @Override
        public void open(FunctionContext context) {
            rows = new HashMap<>();
            for (long key = 0; key < size; key++) {
                StringData value = StringData.fromBytes(("value " + key).getBytes());
                rows.put(key, List.of(GenericRowData.of(key, value)));
            }
        }

        @Override
        public List<RowData> lookup(RowData key) {
            return rows.getOrDefault(key.getLong(0), List.of());
        }
    }

    /** Creates the sink. */
    public static final class SinkFactory implements DynamicTableSinkFactory {
        @Override
        public String factoryIdentifier() {
            return "nexmark-sink";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of();
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of(SUMS);
        }

        @Override
        public DynamicTableSink createDynamicTableSink(Context context) {
            var helper = FactoryUtil.createTableFactoryHelper(this, context);
            helper.validate();
            return new Sink(
                    helper.getOptions().get(SUMS),
                    context.getPhysicalRowDataType().getLogicalType().getChildren());
        }
    }

    private record Sink(boolean sums, List<LogicalType> types) implements DynamicTableSink {
        /** In a check all changes, so that the sums are those of the final table. */
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            if (sums) {
                return ChangelogMode.all();
            }
            var mode = ChangelogMode.newBuilder();
            for (RowKind kind : requested.getContainedKinds()) {
                if (kind != RowKind.UPDATE_BEFORE) {
                    mode.addContainedKind(kind);
                }
            }
            return mode.build();
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return new DataStreamSinkProvider() {
                @Override
                public DataStreamSink<?> consumeDataStream(
                        ProviderContext provider, DataStream<RowData> rows) {
                    return rows.addSink(sums ? new NexmarkSums(types) : new Dropping());
                }
            };
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "sink";
        }
    }

    /** Counts its rows, and drops them. */
    static final class Dropping extends RichSinkFunction<RowData> {
        private transient Nexmark.Count count;

        @Override
        public void open(OpenContext ctx) {
            count = new Nexmark.Count();
        }

        @Override
        public void invoke(RowData row, Context context) {
            count.rows++;
        }
    }
}
