"""Names that users of other systems type, with the way to write them here.

The systems are PySpark, pandas, Polars, Flink (Java and Python), Kafka Streams, Bytewax and Beam. Each
section is for one kind of object. A line has names that mean the same, then ":" and the advice. Case
and underscores are ignored. A name that differs from ours only in these needs no line.
"""

from __future__ import annotations

from functools import cache

_WINDOW = '.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())'
_COLLECTED = '.collect("rows"), then env.execute().collected["rows"], which is a pyarrow.Table'
_SINK = '.sink_to(rh.files.sink("out/", format="parquet"))'
_STATE = "declare it in the class of the function: seen = rh.ValueState(int, default=0)"

SECTIONS = {
    "stream": f"""
match match_recognize pattern cep find_pattern detect_pattern: .key_by("user").detect(pattern), or MATCH_RECOGNIZE in env.sql("SELECT ...")
group_by group_by_key key_on partition group_by_columns: .key_by("user"), then .running(n=rh.agg.count()) or .window(...)
agg aggregate: {_WINDOW}; of all rows: .window_all(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
count sum min max mean avg min_by max_by count_final combine_globally combine_per_key: .key_by("item").running(total=rh.agg.sum("price"))
show head take limit tail first fetch inspect: .print(), or {_COLLECTED}
to_pandas to_polars to_arrow to_list to_dicts to_numpy execute_and_collect collect_async collect_as_list: {_COLLECTED}
distinct drop_duplicates unique deduplicate drop_duplicates_within_watermark: .key_by("id").dedup()
with_column assign add_column add_columns mutate insert: .with_columns(total=col("price") * col("n"))
rename with_column_renamed with_columns_renamed: .select("user", total=col("price"))
drop drop_columns exclude: select the columns that stay: .select("user", "price")
where query: .filter(col("price") > 10)
write write_stream write_parquet write_csv write_json write_text write_as_text write_to save to sink sink_parquet sink_csv to_parquet to_csv to_json add_sink output execute_insert insert_into: {_SINK}
union_all union_by_name concat merge flatten: .union(other)
with_watermark assign_timestamps_and_watermarks: .with_event_time(rh.Watermark.bounded_out_of_orderness("5s", on="at"))
order_by sort sort_values sort_by: a stream has no end to sort at; .key_by("shop").top_n(10, by="price") keeps the largest rows
nlargest nsmallest top: .key_by("shop").top_n(10, by="price")
foreach foreach_batch for_each peek do: a sink writes rows: {_SINK}; a function changes them: .map(fn)
apply map_elements map_values flat_map_values: .map(fn, returns=Word)
transform pipe through: call the function with the stream: fn(stream)
map_partitions map_in_pandas map_in_arrow apply_in_pandas flat_map_batch: .map_batches(fn, form="pandas", returns=Scored)
transform_with_state transform_with_state_in_pandas apply_in_pandas_with_state stateful_map stateful_flat_map map_with_state flat_map_with_state map_groups_with_state flat_map_groups_with_state process_values transform_values: .key_by("user").process(fn), where fn is an rh.KeyedProcessFunction with rh.ValueState
time_window count_window windowed_by window_by window_into group_by_dynamic rolling resample tumble collect_window fold_window count_window_by: {_WINDOW}
time_window_all count_window_all: .window_all(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
left_join outer_join inner_join join_asof join_where cross_join co_group_by_key: .key_by("id").join(other.key_by("id"), ttl="7d")
dtypes columns print_schema describe info collect_schema: .schema
get_side_output: .side_output("late")
unordered_wait ordered_wait async_map async_wait: .map_async(ask)
repartition coalesce shuffle partition_custom repartition_by_range reshuffle redistribute: .rebalance(), or .partition_by(lambda subtasks: col("shard") % subtasks)
set_max_parallelism: rh.Environment(max_parallelism=128)
cache persist unpersist checkpoint local_checkpoint: checkpoints are settings: rh.Environment(checkpoint_dir="checkpoints")
sql create_or_replace_temp_view create_temp_view create_temporary_view register_temp_table to_table: env.register("events", stream), then env.sql("SELECT ...")
select_expr: .select("price * 2 AS doubled")
start await_termination execute run compute explain: of the environment: env.execute("my job"), env.explain()
fillna fill_null na fill_nan: .with_columns(price=col("price").fill_null(0))
dropna drop_nulls: .filter(col("price").is_not_null())
branch split partition_rows: .filter(...) once for each part; or side outputs of .process(fn)
cast astype: .with_columns(price=col("price").cast(pl.Float64))
value_counts nunique n_unique: .key_by("user").running(n=rh.agg.count()); distinct values: rh.agg.count_distinct("item")
returns: the call takes the type: .map(fn, returns=Word)
to_pandas_on_spark to_spark to_df: .to_dataframe()
iter_rows itertuples iterrows rows: a function is called for each row: .map(fn)
shift diff lag lead cumsum over: .key_by("user").process(fn), where fn keeps the last row in rh.ValueState; or OVER in env.sql("SELECT ...")
explode_outer unnest: .explode("items")
sample: .filter(col("id") % 10 == 0)
pivot melt unpivot: one aggregate for each column: rh.agg.sum("price")
""",
    "keyed": """
match match_recognize pattern cep find_pattern detect_pattern select_pattern: .detect(pattern), where pattern = rh.pattern.begin("first").where(...).followed_by("second")
agg aggregate having: .window(rh.Tumbling("1m")).aggregate(n=rh.agg.count()), or .running(n=rh.agg.count()) for each row
count sum min max mean avg min_by max_by count_final reduce_final cumsum combine_per_key: .running(total=rh.agg.sum("price"))
top limit head take first nlargest: .top_n(3, by="price")
fold fold_final: .reduce(fn), or .process(fn) for a result of another type
session_window window_session: .window(rh.Session("10m"))
time_window count_window windowed_by window_by rolling resample group_by_dynamic collect_window fold_window count_window_by: .window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
distinct drop_duplicates unique deduplicate: .dedup()
left_join outer_join inner_join co_group_by_key: .join(other.key_by("id"), how="left", ttl="7d")
apply_in_pandas apply map_groups transform transform_values process_values stateful_map transform_with_state flat_map_with_state: .process(fn), where fn is an rh.KeyedProcessFunction
lag lead shift diff: .process(fn), where fn keeps the last row in rh.ValueState
""",
    "windowed": """
agg sum count min max mean avg min_by max_by combine_per_key: .aggregate(total=rh.agg.sum("price"))
apply fold map_groups apply_in_pandas collect_window: .process(fn), where fn is an rh.WindowFunction
side_output_late_data: rows that are late are in a side output of the results: .aggregate(n=rh.agg.count()).side_output("late")
grace with_allowed_lateness: .allowed_lateness("30s")
suppress emit_strategy until triggering: .trigger(rh.triggers.count(100))
""",
    "connected": """
co_map: .map(of_first, of_second)
where equal_to: key each side first: a.key_by("id").connect(b.key_by("id"))
apply co_process: .process(fn), where fn is an rh.CoProcessFunction
""",
    "environment": """
read read_stream load read_csv read_parquet read_json read_text_file read_file scan_csv scan_parquet scan_ndjson add_source input source stream create_input from_data_source: .from_source(rh.files.source("in/*.jsonl", schema=Event))
from_collection from_elements from_pandas from_polars from_arrow from_dicts from_records from_rows create_data_frame parallelize create from_list: .from_source(rh.collection(rows, schema=Event))
read_kafka from_kafka: .from_source(rh.kafka.source("topic", brokers="host:9092", schema=Event))
run start submit await_termination submit_job launch execute_job: .execute("my job")
set_parallelism: rh.Environment(parallelism=4)
set_max_parallelism: rh.Environment(max_parallelism=128)
enable_checkpointing get_checkpoint_config set_checkpoint_storage set_default_savepoint_directory checkpoint_location: rh.Environment(checkpoint_dir="checkpoints", checkpoint_interval="10s")
set_state_backend: rh.Environment(state="rocksdb")
set_restart_strategy: rh.Environment(restart=rh.restart.fixed_delay(3))
set_buffer_timeout: rh.Environment(buffer_timeout="10ms")
set_runtime_mode: rh.Environment(runtime="batch")
set_stream_time_characteristic assign_timestamps: .from_source(source, watermark=rh.Watermark.monotonic(on="at"))
get_execution_environment create_local_environment builder get_or_create create get_active_session from_options: rh.Environment(parallelism=2)
execute_sql sql_query query: .sql("SELECT ...")
create_temporary_view create_or_replace_temp_view register_table register_data_stream from_data_stream: .register("events", stream)
create_temporary_function create_temporary_system_function register_java_function udf: .register_function("name", fn)
get_config config conf options configure: settings are arguments: rh.Environment(parallelism=2)
add_jars add_python_file add_cached_file: rh.Environment(files={"model": "model.bin"})
spark_context streams catalog: a Spark session is an argument: rh.Environment(spark=spark)
stop close: of the handle: .execute_async("my job") returns one with .stop() and .cancel()
""",
    "rheos": f"""
TumblingEventTimeWindows TumblingProcessingTimeWindows TumblingWindow TumblingWindows Tumble TumblingWindower FixedWindows TimeWindows TumbleWindow: rh.Tumbling("1m"); by processing time: rh.Tumbling("1m", time="processing_time")
SlidingEventTimeWindows SlidingProcessingTimeWindows SlidingWindow SlidingWindows SlidingWindower HoppingWindow Hop Slide: rh.Sliding("1h", every="10m")
EventTimeSessionWindows ProcessingTimeSessionWindows SessionWindow SessionWindows SessionWindower Sessions: rh.Session("10m")
GlobalWindow: rh.GlobalWindows()
CountWindow CountWindows: rh.CountTumbling(100)
WatermarkStrategy TimestampAssigner BoundedOutOfOrdernessTimestampExtractor WatermarkGenerators EventClock SystemClock TimestampExtractor: rh.Watermark.bounded_out_of_orderness("5s", on="at")
StreamExecutionEnvironment ExecutionEnvironment SparkSession SparkContext StreamsBuilder KafkaStreams Dataflow Pipeline StreamingContext: rh.Environment(parallelism=2)
StreamTableEnvironment TableEnvironment SQLContext: env.sql("SELECT ...") of an rh.Environment
KafkaSource FlinkKafkaConsumer KafkaConsumer ReadFromKafka: rh.kafka.source("topic", brokers="host:9092", schema=Event)
KafkaSink FlinkKafkaProducer KafkaProducer WriteToKafka: rh.kafka.sink("topic", brokers="host:9092")
FileSource ReadFromText ReadFromParquet read_csv read_parquet read_json scan_csv scan_parquet read_stream read: env.from_source(rh.files.source("in/*.jsonl", schema=Event))
FileSink StreamingFileSink WriteToText WriteToParquet write: {_SINK}
JdbcSink JDBCSink: rh.postgres.sink("table", url=url)
ValueStateDescriptor ReadModifyWriteStateSpec: {_STATE}
ListStateDescriptor BagStateSpec: seen = rh.ListState(int), as an attribute of the function's class
MapStateDescriptor: seen = rh.MapState(str, int), as an attribute of the function's class
ReducingStateDescriptor: rh.ReducingState, as an attribute of the function's class
AggregatingStateDescriptor CombiningValueStateSpec: rh.AggregatingState, as an attribute of the function's class
StateTtlConfig: rh.TimeToLive("1h")
MapFunction FlatMapFunction FilterFunction ReduceFunction KeySelector SinkFunction MapPartitionFunction: a plain function: .map(fn), .flat_map(fn), .filter(fn)
DoFn ParDo PTransform Processor Transformer StatefulProcessor: rh.KeyedProcessFunction, for .key_by("user").process(fn)
ProcessWindowFunction ProcessAllWindowFunction: rh.WindowFunction, for .window(...).process(fn)
ProcessJoinFunction: .key_by("id").interval_join(other.key_by("id"), between=("-5m", "10m"))
OutputTag TaggedOutput: declare side_outputs in the class of the function; read one with .side_output("late")
Time Seconds Minutes TimeUnit timedelta: durations are strings, such as "5s", "10m" and "1h"; rh.duration("5s") is in ms
Types TypeInformation StructType StructField Schema DataTypes BasicTypeInfo: a dataclass is a schema: rh.files.source("in/*.jsonl", schema=Event)
Row: a dataclass is a record: .map(fn, returns=Word)
sum min max avg mean count first last countDistinct approx_count_distinct max_by collect_list Aggregations: rh.agg has the aggregates, such as rh.agg.sum("price")
window: .key_by("user").window(rh.Tumbling("1m"))
column expr F functions struct: rh.col("price") and rh.agg.sum("price"); conditions may be SQL text: .filter("price > 10")
when coalesce concat_str: expressions are those of Polars: pl.when(col("n") > 1).then(1).otherwise(0)
udf pandas_udf udtf ScalarFunction: .map(fn), or .map_batches(fn, form="pandas", returns=Scored); in SQL: env.register_function("name", fn)
RuntimeExecutionMode: rh.Environment(runtime="batch")
CheckpointingMode CheckpointConfig: rh.Environment(checkpoint_dir="checkpoints"), or rh.Checkpoints
RestartStrategies RestartStrategyOptions: rh.Environment(restart=rh.restart.fixed_delay(3))
EmbeddedRocksDBStateBackend RocksDBStateBackend HashMapStateBackend: rh.Environment(state="rocksdb")
AsyncDataStream: .map_async(ask)
CEP PatternStream: rh.pattern.begin("low"), for .key_by("item").detect(pattern)
Configuration SparkConf PipelineOptions ParameterTool: settings are arguments: rh.Environment(parallelism=2); parameters: env.parameters
DataFrame LazyFrame Table KTable KStream PCollection Stream: rh.DataStream
GroupByKey GroupBy CombinePerKey Count Distinct Map Filter FlatMap: methods of streams: .key_by("user").running(n=rh.agg.count())
desc asc: .key_by("shop").top_n(10, by="price"), with smallest=True for the other order
TestingSource run_main cli_main TestPipeline: env.execute("my job"); tests: rh.testing
""",
    "agg": """
avg average: rh.agg.mean("price")
nunique n_unique distinct_count unique_count: rh.agg.count_distinct("user")
approx_distinct approx_n_unique hll: rh.agg.approx_count_distinct("user")
collect_list collect_set array_agg list_agg to_list list string_agg tolist: rh.agg.collect("item")
percentile median percentile_approx percentile_cont: rh.agg.quantile("ms", 0.5)
approx_percentile: rh.agg.approx_quantile("ms", 0.5)
std stddev_samp stddev_pop: rh.agg.stddev("price")
var var_samp var_pop: rh.agg.variance("price")
len size length n: rh.agg.count()
max_by min_by arg_max arg_min argmax argmin top: rh.agg.top_k("price", 1, of=["item"])
first_value any_value: rh.agg.first("price")
last_value latest_by_offset: rh.agg.last("price")
expr apply: a Polars expression is an aggregate, too: .aggregate(p95=rh.col("ms").quantile(0.95))
any all some every: a Polars expression is an aggregate, too: .aggregate(failed=rh.col("failed").any())
""",
    "triggers": """
repeatedly after_count element_count: rh.triggers.count(100)
after_watermark on_event_time default: rh.triggers.event_time()
after_processing_time: rh.triggers.continuous_processing_time("10s")
""",
    "formats": """
parquet: rh.files.sink("out/", format="parquet")
jsonlines jsonl ndjson json_lines: rh.formats.json()
""",
    "expression": """
like rlike matches regexp: .str.contains("^a.*")
substr substring left: .str.slice(0, 3)
upper to_upper: .str.to_uppercase()
lower to_lower: .str.to_lowercase()
trim strip: .str.strip_chars()
length: .str.len_chars()
desc asc: .key_by("shop").top_n(10, by="price")
when otherwise: pl.when(col("n") > 1).then(1).otherwise(0)
get_item: .list.get(0)
get_field: .struct.field("name")
date_format strftime: .dt.to_string("%Y-%m-%d")
date_trunc: .dt.truncate("1h")
as as_ name_as: .alias("total")
fillna na: .fill_null(0)
isna is_na: .is_null()
notna: .is_not_null()
astype to: .cast(pl.Int64)
apply map_elements map: of the stream: .map(fn)
equals is_equal: col("a") == col("b")
eq_null_safe: .eq_missing(rh.lit(1))
avg: .mean()
""",
    "result": """
show to_pandas collect fetch_all get_rows output to_arrow rows print: .collected["rows"], after .collect("rows") of the stream
get_accumulator_result get_accumulator: .accumulator("operator", "name")
get_net_runtime get_job_id job_id: .status
wait await_termination result: .execute(...) has waited; .execute_async(...) returns a handle with .wait()
""",
    "handle": """
await_termination result join wait_until_finish wait_until_ready block get_job_execution_result process_all_available get: .wait()
stop_with_savepoint: .stop()
kill terminate abort close: .cancel(), or .stop() after a savepoint
trigger_savepoint create_savepoint: .savepoint()
last_progress recent_progress get_metrics: .metrics()
is_active is_alive exception get_job_status state get_job_id done running: .status()
""",
    "status": """
is_active is_running: .state
""",
    "window": """
of with_size with_length of_size_with_no_grace of_size_and_grace: Rheos has no factory: rh.Tumbling("1m"), rh.Sliding("1h", every="10m")
with_gap with_gap_duration with_dynamic_gap of_inactivity_gap_with_no_grace: rh.Session("10m")
advance_by: rh.Sliding("1h", every="10m")
""",
    "watermark": """
for_bounded_out_of_orderness bounded: rh.Watermark.bounded_out_of_orderness("5s", on="at")
for_monotonous_timestamps ascending_timestamps monotonous: rh.Watermark.monotonic(on="at")
no_watermarks none: leave watermark= out of env.from_source(source)
with_timestamp_assigner: the column is an argument: rh.Watermark.monotonic(on="at")
with_idleness: an argument: rh.Watermark.monotonic(on="at", idle_after="1m")
with_watermark_alignment: an argument: rh.Watermark.monotonic(on="at", max_drift="1m")
for_generator: rh.Watermark.generator(MyGenerator())
""",
    "state": """
get_value get read: self.seen.value of an rh.ValueState
update set set_value put write: self.seen.value = 1 of an rh.ValueState; self.seen["a"] = 1 of an rh.MapState; .replace(...) of an rh.ListState
add: .append(...) of an rh.ListState
add_all update_all: .extend(...) of an rh.ListState
contains has_key contains_key: "a" in self.seen, of an rh.MapState
entries: .items() of an rh.MapState
is_empty exists: len(self.seen) == 0
""",
    "context": """
timer_service register_event_time_timer register_timer set_timer register_event_time: ctx.timers.register(timestamp_ms)
register_processing_time_timer: ctx.timers.register_processing(timestamp_ms)
current_key get_current_key get_key: ctx.key
current_watermark get_current_watermark: ctx.watermark
current_processing_time: ctx.processing_time
element_timestamp get_timestamp: ctx.timestamp
collect emit forward out: yield the record; to a side output: ctx.output("late", record)
get_state get_list_state get_map_state get_broadcast_state get_state_store: declare it in the class of the function: seen = rh.ValueState(int, default=0)
get_runtime_context runtime_context: def open(self, ctx: rh.RuntimeContext)
get_index_of_this_subtask: ctx.subtask of open(self, ctx)
""",
    "arguments": """
partition_cols partitioning hive_partitioning partition_columns: partition_by=["day"]
length duration window_size period: size="1m"
slide slide_by hop advance_by advance slide_interval: every="10m"
align_to start_time: offset="1h"
time_column field ts timestamp timestamp_column event_time on_column: on="at"
bootstrap_servers broker servers kafka_bootstrap_servers: brokers="host:9092"
group_id consumer_group: group="my-group"
topic subscribe: topics="my-topic"
starting_offsets start_offset auto_offset_reset offsets: start="earliest"
value_deserializer value_serializer deserializer: format="json", schema=Event
returns_type return_type output_type result_type return_dtype output_schema: returns=Word
filename file folder directory filepath base_path: path="out/"
overwrite append: mode="append"
checkpoint_location: rh.Environment(checkpoint_dir="checkpoints")
header sep delimiter: format=rh.formats.csv(delimiter=";")
ttl_ms retention: ttl="1h"
initial initial_value default_value: default=0
table_name dbtable: table="items"
host dsn connection_string jdbc_url: url="..."
n_rows num_rows k: n=10
by_column order_by sort_by: by="price"
descending ascending reverse: smallest=True
subset: .key_by("id") names the columns of the key
timeout_ms: timeout="5s"
num_partitions: parallelism=2
""",
    "Tumbling()": """
every slide slide_by hop hop_size advance advance_by slide_interval step period: rh.Sliding("1m", every="10s")
gap gap_duration timeout inactivity: rh.Session("10m")
count rows n: rh.CountTumbling(100)
""",
    "Sliding()": """
gap gap_duration timeout inactivity: rh.Session("10m")
""",
    "Session()": """
every slide slide_by hop advance: rh.Sliding("1m", every="10s")
""",
    "sink_to()": """
format path mode partition_by partition_cols compression header output_mode query_name: .sink_to(rh.files.sink("out", format="parquet"))
topic topics brokers bootstrap_servers: .sink_to(rh.kafka.sink("topic", brokers="host:9092"))
table dbtable url jdbc_url: .sink_to(rh.postgres.sink("table", url=url))
checkpoint_location: rh.Environment(checkpoint_dir="checkpoints")
""",
    "from_source()": """
format path schema header: .from_source(rh.files.source("in/*.jsonl", schema=Event))
topic topics brokers bootstrap_servers group_id: .from_source(rh.kafka.source("topic", brokers="host:9092", schema=Event))
on time_column timestamp_column event_time: .from_source(source, watermark=rh.Watermark.monotonic(on="at"))
""",
    "map()": """
form batch_size: .map_batches(fn, form="pandas", returns=Scored)
""",
    "window()": """
size every slide length duration: .window(rh.Tumbling("1m")), .window(rh.Sliding("1m", every="10s"))
gap: .window(rh.Session("10m"))
""",
}


def folded(name: str) -> str:
    """Return a name without case and underscores, so that `groupBy` and `group_by` are one."""
    return name.replace("_", "").lower()


@cache
def words(section: str) -> dict[str, str]:
    """Return the advice of a section, by folded name."""
    lines = [line.partition(": ") for line in SECTIONS.get(section, "").strip().splitlines()]
    return {folded(name): advice for names, _, advice in lines for name in names.split()}
