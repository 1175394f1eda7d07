"""Streams: what `from_source` gives, and what every transformation of one gives again.

A stream is a place in the program, not data: its methods check what they are given, add an operator
to the program, and return the stream that leaves it. Errors are raised here, at the user's own line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import polars as pl
import pyarrow as pa

from rheos.api.expressions import ExprLike, Op, compile_expressions
from rheos.api.lookups import How, looked_up
from rheos.api.method_hints import OF_KEYED, no_such_method
from rheos.api.program import Program, checked_name
from rheos.api.typing_of_functions import (
    check_callable,
    declared_type,
    function_name,
    input_record,
    output_type,
)
from rheos.connectors.collect import CollectSink
from rheos.connectors.contract import Sink
from rheos.connectors.lookup import Lookup
from rheos.connectors.print import PrintSink
from rheos.errors import ProgramError, SchemaError
from rheos.graph.nodes import (
    MAIN,
    EventTimeSpec,
    ExpressionSpec,
    Input,
    MapBatchesSpec,
    MapSpec,
    Node,
    ProcessSpec,
    SinkSpec,
    SourceSpec,
    Spec,
    StreamType,
    UnionSpec,
    WindowSpec,
)
from rheos.graph.types import empty_frame
from rheos.graph.validate import (
    check_keys,
    check_of_source,
    check_uid,
    check_union,
    check_watermark,
    check_width,
)
from rheos.graph.windows import Watermark
from rheos.redaction import redacted
from rheos.site import call_site, located
from rheos.state.key_groups import is_key_type

if TYPE_CHECKING:
    from rheos.api.keyed import KeyedStream

LATE = "late"
"""The side output of what came too late."""

_WITH_KEYS = {name: f'say the key first: .key_by("user").{name}(...)' for name in OF_KEYED}


class DataStream:
    """A stream of rows.

    ```python
    (env.from_source(rh.files.source("logs/*.jsonl", schema=LogEvent), name="access log")
        .filter(col("status") < 400)
        .with_columns(seconds=col("millis") / 1000)
        .sink_to(rh.files.sink("out/")))
    ```
    """

    def __init__(self, program: Program, port: Input) -> None:
        self._program = program
        self._port = port

    # --- what it is -----------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return self._type.schema

    @property
    def _type(self) -> StreamType:
        return self._program.type_of(self._port)

    @property
    def _node(self) -> Node:
        return self._program.node(self._port.node)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            no_such_method(self, "a stream without keys", name, _WITH_KEYS)

    def __repr__(self) -> str:
        tag = f", side output {self._port.tag!r}" if self._port.tag != MAIN else ""
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<stream of {self._node.name!r}{tag}: {columns}>"

    def name(self, name: str) -> DataStream:
        """Names the operator that the stream leaves, as errors, `explain` and the progress show it."""
        with located(call_site(), self._node.name):
            self._program.replace(replace(self._node, name=checked_name(name)))
        return self

    def uid(self, uid: str) -> DataStream:
        """Gives the operator that the stream leaves an id of its own.

        State finds its operator by it. Without one it is made from the operator's kind and its place
        among those of its kind, so it changes when the program does.
        """
        with located(call_site(), self._node.name):
            check_uid(uid, self._node.id, self._program.nodes())
            self._program.replace(replace(self._node, uid=uid))
        return self

    def set_parallelism(self, parallelism: int) -> DataStream:
        """Has the operator that the stream leaves run in so many subtasks at the most.

        The others of the job then have no rows of it, nor state. What follows is as wide as the job,
        unless it says otherwise. A program finds the same rows whatever it says here. A number above
        the job's parallelism changes nothing. In a batch job Spark says how many tasks read a source or
        stand behind a shuffle.

        ```python
        events.map(ask_the_service).set_parallelism(2)
        ```
        """
        with located(call_site(), self._node.name):
            self._program.replace(replace(self._node, parallelism=check_width(self._node, parallelism)))
        return self

    # --- expressions ----------------------------------------------------------------------------------

    def filter(self, *conditions: ExprLike) -> DataStream:
        """Keeps the rows for which all conditions hold.

        ```python
        events.filter(col("status") < 400, col("user").is_not_null())
        events.filter("status < 400 AND user IS NOT NULL")
        ```
        """
        return self._expressions("filter", conditions, {})

    def select(self, *columns: ExprLike, **named: Any) -> DataStream:
        """Computes new rows, of just these columns.

        ```python
        events.select("user", col("at").dt.truncate("1h"), total=col("price") * col("n"))
        ```
        """
        return self._expressions("select", columns, named)

    def with_columns(self, *columns: ExprLike, **named: Any) -> DataStream:
        """Adds columns to the rows, or replaces those of the same name.

        ```python
        events.with_columns(total=col("price") * col("n"))
        ```
        """
        return self._expressions("with_columns", columns, named)

    def _expressions(self, op: Op, given: tuple[Any, ...], named: Mapping[str, Any]) -> DataStream:
        with located(call_site(), op):
            exprs, schema = compile_expressions(op, given, named, self.schema)
            kept = self._type.record if op == "filter" else None
            stream = self._then(ExpressionSpec(op, exprs), op, schema, kept)
            if op != "filter":
                stream._note_event_time(self._type, op, exprs)
            return stream

    def _note_event_time(self, before: StreamType, op: str, exprs: Sequence[pl.Expr]) -> None:
        """What becomes of the column that event time came from."""
        column = before.time_column
        if column is None or column not in self.schema.names:
            return
        frame = empty_frame(before.schema).lazy()
        computed = [expr for expr in exprs if not expr.meta.is_column_selection()]
        if any(column in frame.select(expr).collect_schema().names() for expr in computed):
            changed = f"{op}() at {self._node.site} gives {column!r} other values"
            type = replace(self._type, time_column=None, time_changed=changed)
            self._program.replace(replace(self._node, outputs={MAIN: type}))

    # --- functions ------------------------------------------------------------------------------------

    def map(self, fn: Callable[[Any], Any], returns: Any = None) -> DataStream:
        """Makes one record of each.

        The function is annotated, or `returns=` says the type of its results: a dataclass, a
        pyarrow.Schema, or a dict of column names and types.

        ```python
        def parse(line: Line) -> LogEvent: ...

        lines.map(parse)
        lines.map(lambda line: Word(line.text.upper()), returns=Word)
        ```
        """
        return self._map("map", fn, returns, flat=False)

    def flat_map(self, fn: Callable[[Any], Any], returns: Any = None) -> DataStream:
        """Makes any number of records of each: the function yields them, or returns an iterable.

        ```python
        def words(line: Line) -> Iterator[Word]:
            for word in line.text.split():
                yield Word(word)

        lines.flat_map(words)
        ```
        """
        return self._map("flat_map", fn, returns, flat=True)

    def _map(
        self, kind: Literal["map", "flat_map"], fn: Callable[[Any], Any], returns: Any, *, flat: bool
    ) -> DataStream:
        name = operator_name(kind, fn)
        with located(call_site(), name):
            check_callable(fn, kind)
            record = input_record(fn, self.schema)
            declared = output_type(fn, returns, method=kind, many=flat)
            return self._then(MapSpec(fn, flat, record), name, declared.schema, declared.record)

    def map_batches(
        self,
        fn: Callable[[Any], Any],
        form: Literal["polars", "arrow", "pandas"] = "polars",
        returns: Any = None,
    ) -> DataStream:
        """Hands whole batches to the function: as a Polars DataFrame, an Arrow RecordBatch, or a pandas
        DataFrame. It gives the same, of the columns that `returns` says.

        How rows are cut into batches differs from run to run, so what becomes of a row must not depend
        on its neighbours. Where the stream has event time, a batch gives as many rows as it had.

        ```python
        def score(batch: pl.DataFrame) -> pl.DataFrame:
            return batch.with_columns(score=model.predict(batch["text"]))

        texts.map_batches(score, returns=Scored)
        ```
        """
        name = operator_name("map_batches", fn)
        with located(call_site(), name):
            check_callable(fn, "map_batches")
            if form not in ("polars", "arrow", "pandas"):
                raise ProgramError(
                    f"form={form!r} is not known", hint='write form="polars", "arrow" or "pandas"'
                )
            if returns is None:
                raise SchemaError(
                    "map_batches() cannot know the columns that its function gives",
                    hint=f"say them: .map_batches({function_name(fn)}, returns=Scored), where Scored "
                    "is a dataclass or a pyarrow.Schema",
                )
            declared = declared_type(returns)
            return self._then(MapBatchesSpec(fn, form), name, declared.schema, declared.record)

    # --- rows from outside ----------------------------------------------------------------------------

    def lookup(
        self,
        lookup: Lookup,
        on: str | Sequence[str],
        columns: Sequence[str] | Mapping[str, str] | None = None,
        how: How = "left",
        *,
        cache_for: str | None = None,
        cache_keys: int = 100_000,
        retry_for: str = "30s",
    ) -> DataStream:
        """Adds to each row what a system outside has for its key when the row comes.

        ```python
        visits.lookup(rh.redis.lookup("redis://localhost:6379", key="user:{id}", schema=User), on="id")
        ```

        Rows are looked up some thousands at a time, beside those before them; they keep their order,
        and watermarks and checkpoints their place. After a failure, rows since the last checkpoint are
        looked up again, and find what is there then.

        Args:
            lookup: what is asked, such as rh.redis.lookup(...).
            on: the column with the key, or several where the lookup is asked by several.
            columns: which of the lookup's columns to add, or their new names: `{"new": "old"}`. All of
                them by default.
            how: "left" keeps rows that find nothing, with nulls; "inner" drops them. A key with several
                rows makes several of one, in either case.
            cache_for: how long a subtask takes what it has found, or not found, for what is still
                there ("10m"). Without it each row is looked up anew.
            cache_keys: of how many keys at the most; the oldest go first.
            retry_for: how long a system that is away is tried again before the job fails, and is
                restarted by its strategy. Each further try is counted (`retries`).
        """
        with located(call_site(), "lookup"):
            given = (lookup, on, columns, how, cache_for, cache_keys, retry_for)
            spec, schema = looked_up(self.schema, *given)
            return self._then(spec, "lookup", schema, None)

    # --- event time -----------------------------------------------------------------------------------

    def with_event_time(self, watermark: Watermark) -> DataStream:
        """The same rows, with an event time of another column, and watermarks by it.

        It stands behind a source and what works row by row, and ahead of `union` and `key_by`: each row
        is still known to be of a split there, and late is decided by what its split has shown here
        before it, as behind the source itself.

        ```python
        lines = env.from_source(rh.files.source("logs/*.jsonl", schema=Line))
        events = lines.map(parse).with_event_time(
            rh.Watermark.bounded_out_of_orderness("5s", on="at"))
        ```
        """
        site = call_site()
        with located(site, "with_event_time"):
            if not isinstance(watermark, Watermark):
                raise ProgramError(
                    f"{watermark!r} is not a watermark strategy",
                    hint='write .with_event_time(rh.Watermark.bounded_out_of_orderness("5s", on="at"))',
                )
            check_watermark(self.schema, watermark)
            if watermark.max_drift is not None:
                raise ProgramError(
                    "max_drift holds back splits by the event time of their source",
                    hint="say max_drift= in env.from_source(..., watermark=...)",
                )
            check_of_source(self._port, self._program.node)
            type = StreamType(self.schema, True, self._type.record, watermark.on)
            node = self._program.add(
                EventTimeSpec(watermark),
                name="with_event_time",
                site=site,
                inputs=(self._port,),
                outputs={MAIN: type},
            )
            return DataStream(self._program, Input(node.id))

    # --- several streams, and keys --------------------------------------------------------------------

    def union(self, *others: DataStream) -> DataStream:
        """The rows of this stream and the others, which have the same columns.

        ```python
        clicks.union(views, searches)
        ```
        """
        with located(call_site(), "union"):
            streams = [self, *others]
            for other in others:
                if not isinstance(other, DataStream):
                    raise ProgramError(
                        f"union() takes streams, not {other!r}",
                        hint="unite the streams before key_by()",
                    )
                if other._program is not self._program:
                    raise ProgramError("union() takes streams of one environment")
            if not others:
                raise ProgramError("union() needs another stream")
            names = [stream._node.name for stream in streams]
            if len(set(names)) < len(names):
                names = [f"{stream._node.name} of {stream._node.site}" for stream in streams]
            check_union([(name, stream._type) for name, stream in zip(names, streams, strict=True)])
            schema = _united([stream.schema for stream in streams])
            ports = tuple(stream._relaxed_to(schema)._port for stream in streams)
            records = {stream._type.record for stream in streams}
            columns = {stream._type.time_column for stream in streams}
            changed = (stream._type.time_changed for stream in streams)
            type = StreamType(
                schema,
                self._type.event_time,
                records.pop() if len(records) == 1 else None,
                columns.pop() if len(columns) == 1 else None,
                next((where for where in changed if where is not None), None),
            )
            node = self._program.add(
                UnionSpec(), name="union", site=call_site(), inputs=ports, outputs={MAIN: type}
            )
            return DataStream(self._program, Input(node.id))

    def _relaxed_to(self, schema: pa.Schema) -> DataStream:
        """The same rows, where columns that hold no nulls are declared as ones that may."""
        if schema == self.schema:
            return self
        exprs = tuple(pl.col(name) for name in schema.names)
        return self._then(ExpressionSpec("select", exprs), "select", schema, self._type.record)

    def key_by(self, *columns: str) -> KeyedStream:
        """Brings rows of the same key together; what follows works per key.

        ```python
        events.key_by("user").process(Validate())
        events.key_by("country", "device").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
        ```
        """
        from rheos.api.keyed import KeyedStream

        site = call_site()
        with located(site, "key_by"):
            check_keys(columns, self.schema)
            for column in columns:
                kind = self.schema.field(column).type
                if not is_key_type(kind):
                    raise SchemaError(
                        f"column {column!r} cannot be a key, as it is {kind}",
                        hint="take a value out of it before: .with_columns(k=col(...).list.first())",
                    )
            return KeyedStream(self._program, replace(self._port, keys=tuple(columns), keyed_at=site))

    def side_output(self, tag: str) -> DataStream:
        """What the operator that the stream leaves emits beside its main output.

        `"late"` is what came too late for a window, or for a process in event-time order; `"rejected"`
        is what a source skipped; other tags are those that a process function declares.

        ```python
        counts = events.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
        counts.side_output("late").sink_to(rh.files.sink("late/"))
        ```
        """
        node = self._node
        with located(call_site(), node.name):
            tags = [known for known in node.outputs if known != MAIN]
            if tag not in tags:
                known = f"it has {', '.join(map(repr, tags))}" if tags else "it has none"
                raise ProgramError(
                    f"there is no side output {tag!r} here", hint=_side_output_hint(node, known)
                )
            if isinstance(node.spec, WindowSpec):
                self._program.replace(replace(node, spec=replace(node.spec, late_tag=tag)))
            return DataStream(self._program, Input(node.id, tag))

    # --- ends -----------------------------------------------------------------------------------------

    def sink_to(
        self,
        sink: Sink,
        name: str | None = None,
        uid: str | None = None,
        *,
        parallelism: int | None = None,
    ) -> None:
        """Writes the rows, in `parallelism` subtasks at the most; None: in all of the job, or as many
        as the sink can be written by.

        ```python
        counts.sink_to(rh.files.sink("out/", format="parquet"), name="counts")
        ```
        """
        site = call_site()
        with located(site, name or "sink"):
            if not isinstance(sink, Sink):
                raise ProgramError(
                    f"sink_to() takes a sink, not {sink!r}",
                    hint='write .sink_to(rh.files.sink("out/"))',
                )
            if not self.schema.names:
                raise SchemaError("there are no columns to write, as the operator emits nothing")
            sink.validate(self.schema)
            most = sink.max_parallelism
            width = most if parallelism is None else check_width(None, parallelism)
            if most is not None and width is not None and width > most:
                raise ProgramError(
                    f"{sink.describe()} is written by no more than {most} subtask(s), not {width}",
                    hint="leave parallelism out",
                )
            title = name if name is not None else redacted(sink.describe())
            self._program.add(
                SinkSpec(sink),
                name=title,
                site=site,
                inputs=(self._port,),
                outputs={},
                uid=uid,
                parallelism=width,
            )

    def print(self, name: str | None = None) -> None:
        """Prints the rows, for display only; see `rh.print_sink`."""
        self.sink_to(PrintSink(name), name=name)

    def collect(self, name: str) -> None:
        """Brings the rows to the program, in memory: `env.execute().collected[name]` is their table.

        ```python
        counts.collect("counts")
        table = env.execute("try it").collected["counts"]
        ```
        """
        with located(call_site(), name):
            for node in self._program.graph().nodes:
                taken = isinstance(node.spec, SinkSpec) and isinstance(node.spec.sink, CollectSink)
                if taken and node.name == name:
                    raise ProgramError(
                        f"two streams are collected as {name!r}: this one, and one at {node.site}",
                        hint="give each its own name",
                    )
        self.sink_to(CollectSink(), name=name)

    def to_dataframe(self) -> Any:
        """The rows as a Spark DataFrame, in batch: to be joined, queried and written like any other.

        Nothing runs before Spark reads it, and each time it does, the stream's program runs as a part
        of Spark's own plan. The program's sinks have no part in it.

        ```python
        hits = counts.to_dataframe()
        hits.join(spark.table("countries"), "country").write.parquet("report/")
        ```
        """
        site, name = call_site(), self._node.name
        with located(site, name):
            if not self.schema.names:
                raise SchemaError("there are no columns to read, as the operator emits nothing")
            end = Node(0, "to_dataframe", None, site, SinkSpec(CollectSink()), (self._port,), {})
            return self._program.to_frame(self._program.ending_in(end))

    def _then(self, spec: Spec, name: str, schema: pa.Schema, record: type | None) -> DataStream:
        """The stream that leaves a new operator which reads this one."""
        node = self._program.add(
            spec,
            name=name,
            site=call_site(),
            inputs=(self._port,),
            outputs={MAIN: self._type_behind(spec, schema, record)},
        )
        return DataStream(self._program, Input(node.id))

    def _type_behind(self, spec: Spec, schema: pa.Schema, record: type | None) -> StreamType:
        """A function makes new records: a column of the same name and type is taken for the same."""
        before = self._type
        column = before.time_column
        kept = column if column is not None and column in schema.names else None
        if kept is not None and schema.field(kept).type != before.schema.field(kept).type:
            kept = None
        return StreamType(schema, before.event_time, record, kept, before.time_changed)


def operator_name(kind: str, fn: Any) -> str:
    """How an operator with a function is called, unless the user names it: "map(parse)"."""
    name = function_name(fn)
    return kind if name == "<lambda>" else f"{kind}({name})"


def _united(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all; each may hold nulls where it may in one."""
    nullable = {field.name for schema in schemas for field in schema if field.nullable}
    return pa.schema([field.with_nullable(field.name in nullable) for field in schemas[0]])


def _side_output_hint(node: Node, known: str) -> str:
    if isinstance(node.spec, ProcessSpec):
        return f'declare it in the function: side_outputs = {{"alerts": Alert}}; {known}'
    if isinstance(node.spec, SourceSpec):
        return f'"rejected" is there where the source skips bad rows (on_error="skip"); {known}'
    return f"windows, process functions and sources have side outputs; {node.name!r}: {known}"
