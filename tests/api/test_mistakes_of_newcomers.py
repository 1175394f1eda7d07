"""Lines that newcomers write from memory of another system, chosen without the table of names."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import rheos as rh
from rheos.core.error_hints import hint_for_error
from rheos.core.errors import RheosError
from tests.api.programs import environment, events

SIGNS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
MISTAKES = [
    ("stream.groupby('user').agg('count')", "key_by"),
    ("stream.where(col('n') > 1)", "filter"),
    ("stream.withColumn('x', col('n') * 2)", "with_columns"),
    ("stream.flatmap(str.split)", "flat_map"),
    ("stream.to_pandas()", "collect"),
    ("stream.writeStream.format('parquet').start('out')", "sink_to"),
    ("stream.dropDuplicates(['user'])", "dedup"),
    ("stream.sort('n')", "top_n"),
    ("stream.limit(10)", "print"),
    ("stream.show()", "print"),
    ("stream.union_all(stream)", "union"),
    ("stream.add_sink(rh.print_sink())", "sink_to"),
    ("stream.assign_timestamps_and_watermarks(None)", "with_event_time"),
    ("stream.keyBy('user').timeWindow('1m')", "key_by"),
    ("stream.map(str, output_type=str)", "returns="),
    ("stream.fliter(col('n') > 1)", "filter"),
    ("stream.window(rh.Tumbling('1m'))", "key_by"),
    ("stream.foreachBatch(print)", "sink_to"),
    ("keyed.agg(n=rh.agg.count())", "running"),
    ("keyed.window(rh.TumblingEventTimeWindows.of('1m'))", "Tumbling"),
    ("keyed.count_window(10)", "window"),
    ("keyed.map(str)", "key_by"),
    ("keyed.limit(3)", "top_n"),
    ("keyed.process_fn(print)", "process"),
    ("windowed.sum('n')", "aggregate"),
    ("windowed.agg(n=rh.agg.count())", "aggregate"),
    ("windowed.map(str)", "aggregate"),
    ("windowed.allowedLateness('1m')", "allowed_lateness"),
    ("env.fromCollection([1])", "collection"),
    ("env.readStream.format('kafka')", "from_source"),
    ("env.enableCheckpointing(1000)", "checkpoint_interval"),
    ("env.exceute('job')", "execute"),
    ("env.sql_query('SELECT 1')", "sql"),
    ("env.set_parallelism(4)", "parallelism"),
    ("rh.Tumbling(length='1m')", "size"),
    ("rh.Sliding('1h', slide='10m')", "every"),
    ("rh.Tumblin('1m')", "Tumbling"),
    ("rh.Watermark.for_bounded_out_of_orderness('5s')", "bounded_out_of_orderness"),
    ("rh.files.sink('out', partitionBy=['day'])", "partition_by"),
    ("rh.files.sink('out', partition_cols=['day'])", "partition_by"),
    ("rh.files.source('in', shema=int)", "schema"),
    ("rh.files.read_csv('in')", "source"),
    ("rh.kafka.source('topic', bootstrap_servers='a:1')", "brokers"),
    ("rh.kafka.source('topic', brokers='a:1', group_id='g', schema=int)", "group"),
    ("rh.kafka.Source('topic')", "source"),
    ("rh.postgres.sink(table_name='t')", "table"),
    ("rh.agg.nunique('user')", "count_distinct"),
    ("rh.agg.average('n')", "mean"),
    ("rh.agg.sum()", "column"),
    ("rh.ValueStateDescriptor('seen', int)", "ValueState"),
    ("rh.ValueState('seen', int, default=0, ttl=1, foo=2)", "default"),
    ("rh.SparkSession.builder.getOrCreate()", "Environment"),
    ("rh.read_csv('in.csv')", "files.source"),
    ("rh.restart.fixed_delay(restart_attempts=3)", "attempts"),
    ("rh.formats.parquet()", "format="),
    ("rh.formats.jsno()", "json"),
    ("stream.select(col('user').isNull())", "is_null"),
    ("stream.select(col('user').startswith('a'))", "starts_with"),
    ("stream.select(col('user').rlike('a'))", "contains"),
    ("stream.connect(stream).union(stream)", "connect"),
    ("rh.Tumbling('1m', slide='10s')", "rh.Sliding"),
    ("rh.Tumbling('1m', gap='10s')", "rh.Session"),
    ("stream.sink_to('out', format='parquet')", '.sink_to(rh.files.sink("out", format="parquet"))'),
    ("stream.sink_to('out', topic='t')", "rh.kafka.sink"),
    ("env.from_source('in', format='csv')", "rh.files.source"),
    ("stream.map(str, form='pandas')", "map_batches"),
    ("keyed.window(size='1m')", "rh.Tumbling"),
    ("stream.select(stream.value)", 'rh.col("value"), or by its name: .select("value")'),
    ("stream.filter(stream.value > 1 and col('user') == 'a')", 'rh.col("value")'),
    ("stream.valeu", "did you mean the column 'value'? "),
    ("keyed.vallue", "did you mean the column 'value'? "),
    ("stream.key_by(col('user'))", '.key_by("user")'),
    ("stream.key_by(col('user').str.to_lowercase())", ".with_columns(k="),
    ("env.from_source('in/*.jsonl')", "rh.files.source("),
    ("env.from_source([1, 2])", "rh.collection("),
    ("stream['value']", 'rh.col("value"), or by its name: .select("value")'),
    ("stream[['user', 'n']]", '.select("user", "n")'),
    ("stream[col('n') > 1]", ".filter("),
    ("stream[:3]", ".collect("),
    ("[row for row in stream]", ".collect("),
    ("'n' in stream", ".collect("),
    ("len(stream)", "rh.agg.count()"),
    ("stream or None", "is not None"),
    ("stream['m'] = col('n')", ".with_columns(m="),
    ("keyed['value']", 'rh.agg.sum("value")'),
    ("keyed.value", 'rh.agg.sum("value")'),
    ("windowed['value']", 'rh.agg.sum("value")'),
    ("windowed.value", 'rh.agg.sum("value")'),
    ("len(windowed)", ".aggregate(n=rh.agg.count())"),
    ("stream.connect(stream)['value']", 'rh.col("value")'),
    ("windowed.aggregate({'n': 'sum'})", '.aggregate(n=rh.agg.sum("n"))'),
    ("windowed.aggregate({'n': ['max', 'avg']})", '(n_max=rh.agg.max("n"), n_avg=rh.agg.mean("n"))'),
    ("windowed.aggregate({'n': 'count'})", ".aggregate(n=rh.agg.count())"),
    ("windowed.aggregate(rh.agg.sum('n'))", '.aggregate(n=rh.agg.sum("n"))'),
    ("windowed.aggregate([rh.agg.sum('n')])", '.aggregate(n=rh.agg.sum("n"))'),
    ("windowed.aggregate('count')", "rh.agg.count()"),
    ("windowed.aggregate(col('n').sum())", "name each result: .aggregate(n="),
    ("windowed.aggregate(m='sum')", '.aggregate(m=rh.agg.sum("m"))'),
    ("windowed.aggregate(rh.agg.sum('n'), rh.agg.count())", "name each result"),
    ("keyed.running({'n': 'sum'})", "name each result: .running("),
    ("keyed.running(m='sum')", '.running(m=rh.agg.sum("m"))'),
    ("keyed.table(rh.agg.count())", "name each result: .table("),
    ("env.from_source(rh.files.sink('out'))", "stream.sink_to(...)"),
    ("env.from_source(stream)", "a stream already"),
    ("env.from_source(rh.files.source)", "call it: source(...)"),
    ("stream.sink_to(rh.collection([{'n': 1}]))", "env.from_source(...)"),
    ("stream.sink_to(rh.print_sink)", "call it: print_sink(...)"),
    ("stream.union([stream])", ".union(*streams)"),
    ("stream.key_by(['user', 'n'])", ".key_by('user', 'n')"),
    ("stream.lookup(pl.DataFrame({'user': [1]}), on='user')", "rh.lookup_table("),
    ("rh.collection(['a', 'b'])", "write each row as a dict"),
    ("rh.collection({'a': [1]})", "pl.DataFrame(columns)"),
    ("rh.collection(7)", "a list of rows"),
    ("rh.collection([])", "pass schema="),
    ("rh.files.source('in', schema={'n': 'int'})", "use bool, int"),
    ("rh.Environment(parameters=['a=1'])", "pass parameters as"),
    ("rh.restart.fixed_delay('3')", "pass attempts as int"),
    ("rh.restart.fixed_delay(3, delay='-1s')", '"5s"'),
    ("keyed.process(Misnamed())", "rename its method process_elements"),
    ("Counter() + 1", "self.NAME.value"),
    *((f"stream {sign} stream", ".union(other)") for sign in [*SIGNS, "<", "<=", ">", ">="]),
    *((f"1 {sign} stream", "rh.col(") for sign in SIGNS),
    *((f"{sign}stream", "rh.col(") for sign in "+-~"),
]


class Misnamed(rh.KeyedProcessFunction):
    def process_elements(self, row: Any, ctx: rh.KeyedContext) -> None: ...


class ValueHandle:
    """An object with the name of the handle of a declared state, which appears in errors of Python."""


@pytest.mark.parametrize(("line", "hint"), MISTAKES)
def test_a_line_written_for_another_system_has_a_hint(line: str, hint: str) -> None:
    env = environment()
    stream = events(env)
    keyed = stream.key_by("user")
    names: dict[str, Any] = {
        "rh": rh,
        "col": pl.col,
        "env": env,
        "stream": stream,
        "keyed": keyed,
        "pl": pl,
        "Misnamed": Misnamed,
        "Counter": ValueHandle,
        "windowed": keyed.window(rh.Tumbling("1m")),
    }
    with pytest.raises(Exception) as raised:  # noqa: PT011  # The hint is what counts.
        exec(compile(line, "job.py", "exec"), names)
    error = raised.value
    if isinstance(error, RheosError):
        assert str(error).startswith("job.py:1: ")
        advice = error.hint or ""
    else:
        advice = hint_for_error(error)
    assert hint in advice, error
