"""Streams: `from_source` and every transformation of a stream return one.

A stream is a place in the program, not data: its methods check what they are given, add an operator
to the program, and return the stream that leaves it. Errors are raised here, at the user's own line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import polars as pl
import pyarrow as pa

from rheos.api.async_functions import Order, mapped
from rheos.api.changelogs import (
    check_expressions,
    part_column,
    sink_of_changes,
    unknown_change,
    upsert_columns,
)
from rheos.api.expressions import ExprLike, Op, compile_expressions
from rheos.api.iterations import close_loop, iterate_spec, loop_type
from rheos.api.lookups import How, looked_up
from rheos.api.method_hints import OF_KEYED, no_such_method
from rheos.api.partitioning import Partitioned
from rheos.api.program import checked_name
from rheos.api.transformations import Transformation
from rheos.api.typing_of_functions import declared_type, input_record, output_type
from rheos.api.watermarks import checked_watermark
from rheos.connectors.collect import CollectSink
from rheos.connectors.print import PrintSink
from rheos.core.callables import check_callable, function_name
from rheos.core.connectors import sink_capabilities
from rheos.core.connectors.contract import Sink
from rheos.core.connectors.lookup import Lookup
from rheos.core.connectors.rejected import OnError, check_on_error
from rheos.core.connectors.retry import Retry
from rheos.core.connectors.sink_capabilities import CollectsRows
from rheos.core.errors import ProgramError, SchemaError, Site
from rheos.core.graph.changelog import OP, Changes
from rheos.core.graph.functions import AsyncFunction
from rheos.core.graph.nodes import MAIN, Input, Node, Spec, StreamType
from rheos.core.graph.types import empty_frame
from rheos.core.graph.validate import (
    check_columns,
    check_keys,
    check_of_source,
    check_uid,
    check_union,
    check_width,
    unknown_column,
)
from rheos.core.graph.window_functions import WindowAssigner
from rheos.core.graph.windows import Watermark, Window
from rheos.core.operators.changelog.emptied import REJECTED_TAG, EmptiedSpec
from rheos.core.operators.changelog.retractions import RetractionsSpec
from rheos.core.operators.changelog.truncation import TruncationSpec
from rheos.core.operators.event_time import EventTimeSpec
from rheos.core.operators.explode import ExplodeSpec, exploded
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.filter_function import FilterFunctionSpec
from rheos.core.operators.map import MapSpec
from rheos.core.operators.map_batches import MapBatchesSpec
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.union import UnionSpec
from rheos.core.protocol.durations import Duration
from rheos.core.redaction import redacted
from rheos.core.site import call_site, located
from rheos.core.state.key_groups import is_key_type

if TYPE_CHECKING:
    from rheos.api.connected import ConnectedStreams
    from rheos.api.keyed import KeyedStream
    from rheos.api.window_all import WindowsOfAll
    from rheos.core.graph.connected_functions import ProcessFunction

LATE = "late"
"""The side output of what came too late."""

_WITH_KEYS = {name: f'say the key first: .key_by("user").{name}(...)' for name in OF_KEYED}


class DataStream(Partitioned):
    """A stream of rows.

    ```python
    (env.from_source(rh.files.source("logs/*.jsonl", schema=LogEvent), name="access log")
        .filter(col("status") < 400)
        .with_columns(seconds=col("millis") / 1000)
        .sink_to(rh.files.sink("out/")))
    ```
    """

    # --- what it is -----------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return self._type.schema

    @property
    def transformation(self) -> Transformation:
        """The stream's place in the program, to which libraries such as SQL add operators."""
        return Transformation(self._program, self._port)

    @classmethod
    def at(cls, transformation: Transformation) -> DataStream:
        """Return the stream of the rows at a place in the program."""
        return cls(transformation.program, transformation.port)

    @property
    def _type(self) -> StreamType:
        return self.transformation.type

    @property
    def _node(self) -> Node:
        return self.transformation.node

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
        """Limit the parallelism of the operator that produced this stream.

        Its other subtasks then have neither rows nor state. The next operators have the job's
        parallelism, unless they are limited, too. The results do not depend on it. A number above the
        job's parallelism has no effect. In a batch job, Spark chooses the number of tasks that read a
        source or a shuffle.

        ```python
        events.map(ask_the_service).set_parallelism(2)
        ```
        """
        with located(call_site(), self._node.name):
            if any(not of.keys and self._program.type_of(of).changes for of in self._node.inputs):
                raise ProgramError(
                    "changes stay in the subtasks that emit them, so that they keep their order",
                    hint="set the parallelism of the operator after key_by(...)",
                )
            self._program.replace(replace(self._node, parallelism=check_width(self._node, parallelism)))
        return self

    # --- expressions ----------------------------------------------------------------------------------

    def filter(self, *conditions: ExprLike | Callable[[Any], bool]) -> DataStream:
        """Keeps the rows for which all conditions hold; or of which a function says True. Expressions
        are many times as fast.

        ```python
        events.filter(col("status") < 400, col("user").is_not_null())
        events.filter("status < 400 AND user IS NOT NULL")
        events.filter(lambda event: event.user in VIPS)
        ```
        """
        if any(map(callable, conditions)):
            return self._filter_function(conditions)
        return self._expressions("filter", conditions, {})

    def _filter_function(self, given: Sequence[Any]) -> DataStream:
        fn: Any = next(filter(callable, given))
        name = operator_name("filter", fn)
        with located(call_site(), name):
            if len(given) > 1:
                raise ProgramError(
                    "filter() takes conditions, or one function",
                    hint=f"filter twice: .filter({function_name(fn)}).filter(...)",
                )
            check_callable(fn, "filter", ["a record"])
            spec = FilterFunctionSpec(fn, input_record(fn, self.schema))
            return self._then(spec, name, self.schema, self._type.record)

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
            changes = self._type.changes
            if changes is not None:
                changes = check_expressions(op, exprs, self.schema, schema, changes)
            kept = self._type.record if op == "filter" else None
            stream = self._then(ExpressionSpec(op, exprs), op, schema, kept)
            if changes is not self._type.changes:
                stream._typed(changes)
            if op != "filter":
                stream._note_event_time(self._type, op, exprs)
            return stream

    def _note_event_time(self, before: StreamType, op: str, exprs: Sequence[pl.Expr]) -> None:
        """Record whether the expressions change the column that event time was read from."""
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
            check_callable(fn, kind, ["a record"], yields=flat)
            record = input_record(fn, self.schema)
            declared = output_type(fn, returns, method=kind, many=flat)
            return self._then(MapSpec(fn, flat, record), name, declared.schema, declared.record)

    def map_batches(
        self,
        fn: Callable[[Any], Any],
        form: Literal["polars", "arrow", "pandas"] = "polars",
        returns: Any = None,
    ) -> DataStream:
        """Call the function with whole batches: a Polars DataFrame, an Arrow RecordBatch, or a pandas
        DataFrame. It returns the same type, with the columns of `returns`.

        The division of rows into batches differs from run to run, so the result for a row must not
        depend on its neighbours. If the stream has event time, the function must return as many rows as
        it received.

        ```python
        def score(batch: pl.DataFrame) -> pl.DataFrame:
            return batch.with_columns(score=model.predict(batch["text"]))

        texts.map_batches(score, returns=Scored)
        ```
        """
        name = operator_name("map_batches", fn)
        with located(call_site(), name):
            check_callable(fn, "map_batches", ["a batch"])
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

    def process(self, fn: ProcessFunction, returns: Any = None) -> DataStream:
        """Calls a function for each record, with side outputs and operator state.

        ```python
        class Sort(rh.ProcessFunction):
            side_outputs = {"bad": Line}

            def process_element(self, line: Line, ctx) -> Iterator[LogEvent]: ...

        lines.process(Sort())
        ```
        """
        from rheos.api.processed import processed

        with located(call_site(), operator_name("process", fn)):
            return processed(self, fn, returns)

    def map_async(
        self,
        fn: Callable[[Any], Any] | AsyncFunction,
        returns: Any = None,
        *,
        capacity: int = 1000,
        timeout: Duration = "5s",
        order: Order = "ordered",
        retries: Retry | None = None,
        on_timeout: Callable[[Any], Any] | None = None,
    ) -> DataStream:
        """Makes one record of each by an `async def` function, of which many calls are under way at a
        time: for what waits for others.

        ```python
        async def ask(visit: Visit) -> Enriched: ...

        visits.map_async(ask, capacity=500, timeout="2s", retries=rh.retry(3, on=ConnectionError))
        ```

        A row whose answer was not given on when a job fails is called for again.

        Args:
            fn: the function, or an `rh.AsyncFunction` with a client that is opened once.
            returns: what it gives, where its annotation does not say so.
            capacity: how many calls are under way at a time, in each subtask.
            timeout: how long a call may take, with its retries. One that takes longer ends the attempt,
                at the line where it waits; the job is restarted by its strategy.
            order: "ordered" gives results in the order of the rows; "unordered" as they come, though
                never past a watermark.
            retries: after which errors a call is made again, and how often: `rh.retry(...)`. Each is
                counted (`retries`).
            on_timeout: makes the result of a record whose call was not answered in time, instead of the
                error. Each is counted (`timeouts`).
        """
        name = operator_name("map_async", fn)
        with located(call_site(), name):
            given = (fn, returns, capacity, timeout, order, retries, on_timeout)
            spec, declared = mapped(self.schema, *given)
            return self._then(spec, name, declared.schema, declared.record)

    def explode(self, column: str, rank: str | None = None) -> DataStream:
        """Emit a row for each element of a list, with the other columns of its row. Elements that are
        structs become one column for each field. Lists that are empty or null emit no row. `rank` names
        a column for the position in the list, starting at 1.

        ```python
        windows.aggregate(top=rh.agg.top_k("price", 3, of=["item", "price"])).explode("top")
        ```
        """
        with located(call_site(), "explode"):
            if column not in self.schema.names:
                raise unknown_column(column, self.schema, " in explode()")
            kind = self.schema.field(column).type
            if not (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)):
                raise SchemaError(
                    f"explode() takes a list, and {column!r} is {kind}", hint="name a column of lists"
                )
            schema = exploded(self.schema, column, rank)
            check_columns(schema)
            return self._then(ExplodeSpec(column, rank), "explode", schema, None)

    def iterate(
        self,
        body: Callable[[DataStream], tuple[DataStream, DataStream]],
        *,
        rounds: int | None = None,
        capacity: int = 10_000_000,
    ) -> DataStream:
        """A loop: the first stream that `body` gives comes back to it, the second leaves.

        ```python
        def body(numbers):
            halved = numbers.filter(col("n") > 1).with_columns(n=col("n") // 2)
            return halved, halved            # what goes round again, and what leaves

        numbers.iterate(body)
        ```

        Rows that go round are state: each passes the body exactly once a round, whatever fails. When
        the input has ended, the loop goes on until nothing goes round in it, and ends. What is in it,
        and what leaves it, has no event time. There is no `iterate` in a batch job.

        Args:
            body: is given the stream of the rows that come in and come back, and returns two streams.
                What goes round again has the columns of the loop.
            rounds: how often a row passes the body. Rows then have a column `round`, which counts from
                0, and which what goes round again must keep. Those that would go round once more are
                dropped and counted (`beyond_rounds`).
            capacity: how many rows may wait in a subtask to go round again; with more the job fails.
        """
        site = call_site()
        with located(site, "iterate"):
            spec = iterate_spec(body, rounds, capacity)
            type = {MAIN: loop_type(self._type, spec)}
            inputs = (self._port,)
            head = self._program.add(spec, name="iterate", site=site, inputs=inputs, outputs=type)
            loop = DataStream(self._program, Input(head.id))
            return close_loop(self._program, head, body, loop)

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
        """Add columns from an external system to each row, by key, as of the row's arrival.

        ```python
        visits.lookup(rh.redis.lookup("redis://localhost:6379", key="user:{id}", schema=User), on="id")
        ```

        Rows are looked up in batches of some thousands, several batches concurrently. Rows, watermarks
        and checkpoints keep their order. After a failure, rows since the last checkpoint are looked up
        again, with the system's data at that time.

        Args:
            lookup: The lookup, such as rh.redis.lookup(...).
            on: The column with the key, or several if the lookup has several key columns.
            columns: The lookup's columns to add, or their new names: `{"new": "old"}`. All by default.
            how: "left" keeps rows without a result, with nulls; "inner" drops them. If a key has
                several rows, the input row is emitted several times in either case.
            cache_for: Time for which a subtask reuses a result, or the lack of one ("10m"). Without it,
                each row is looked up anew.
            cache_keys: Maximum number of cached keys; the oldest are dropped first.
            retry_for: Time for which an unavailable system is retried before the job fails and is
                restarted by its strategy. Each retry is counted (`retries`).
        """
        with located(call_site(), "lookup"):
            given = (lookup, on, columns, how, cache_for, cache_keys, retry_for)
            spec, schema = looked_up(self.schema, *given)
            return self._then(spec, "lookup", schema, None)

    # --- changes of tables ----------------------------------------------------------------------------

    def upserts(
        self,
        key: str | Sequence[str],
        op: str | None = OP,
        *,
        on_truncate: Literal["delete", "fail"] = "delete",
        on_error: OnError = "fail",
    ) -> DataStream:
        """Interpret the rows as upserts of a table: a row replaces the previous one with its key.

        The column `op` is the kind of change: "insert", "update_after" or "delete", or the names that
        `rh.postgres.changes`, Debezium and Flink use. With `op=None` every row is an insert or update.
        The changes of a key must arrive in order: from one split, such as a partition.

        ```python
        orders = env.from_source(rh.postgres.changes("orders", url=url)).upserts(key="id")
        orders.sink_to(rh.redis.sink("redis://localhost:6379", key="order:{id}"))
        ```

        Messages ("m" of Debezium) and tombstones are not changes, and are dropped.

        Args:
            key: The columns that identify a row of the table.
            op: The column with the kind of change.
            on_truncate: Effect of a TRUNCATE of the table: "delete" deletes every existing row, for
                which the keys of the table are kept as state; "fail" treats it as an unknown change,
                and needs no state.
            on_error: Treatment of a row with an unknown `op` or without a key: "fail" ends the job;
                "skip" counts the row (`skipped`) and sends it to the side output "rejected".
        """
        site = call_site()
        with located(site, "upserts"):
            check_on_error(on_error)
            skips = on_error == "skip"
            if on_truncate not in ("delete", "fail"):
                raise ProgramError(
                    f"on_truncate={on_truncate!r} is not known", hint='write "delete" or "fail"'
                )
            empties = op is not None and on_truncate == "delete"
            if skips and not empties:
                raise ProgramError(
                    'on_error="skip" is for changes that op= tells, with on_truncate="delete"',
                    hint="leave it out, or drop such rows before by filter()",
                )
            named = (key,) if isinstance(key, str) else tuple(key)
            exprs, schema = upsert_columns(self.schema, named, op, of_tables=empties, skips=skips)
            rows = self.as_rows() if self._type.changes is not None else self
            spec = ExpressionSpec("select", tuple(exprs), None if op is None else unknown_change(op))
            stream = rows._then(spec, "upserts", schema, None)
            changes = Changes(named, retracts=False)
            return stream._emptied(changes, skips, site) if empties else stream._typed(changes)

    def _emptied(self, changes: Changes, skips: bool, site: Site) -> DataStream:
        """Return the changes, where some may be for all rows of the table."""
        part = part_column(self.schema)
        parted = pa.schema([*self.schema, pa.field(part, pa.int64(), nullable=False)])
        spread = self._then(TruncationSpec(changes.key, part, skips), "truncation", parted, None)
        type = self._type
        node = self._program.add(
            EmptiedSpec(changes.key),
            name="upserts",
            site=site,
            inputs=(replace(spread._port, keys=(part,), keyed_at=site),),
            outputs={
                MAIN: replace(type, changes=changes),
                **({REJECTED_TAG: replace(type, changes=None)} if skips else {}),
            },
        )
        return DataStream(self._program, Input(node.id))

    def retractions(self) -> DataStream:
        """Add the previous version of each row to upserts: "update_before" precedes "update_after", and
        a deleted row is emitted whole. So downstream aggregates can retract rows.

        ```python
        orders.upserts(key="id").retractions().key_by("state").table(n=rh.agg.count())
        ```
        """
        site = call_site()
        with located(site, "retractions"):
            changes = self._type.changes
            if changes is None or changes.retracts:
                raise ProgramError(
                    "retractions() is for upserts, and these are "
                    + ("rows" if changes is None else changes.describe()),
                    hint='say first by what the rows are known: .upserts(key="id")'
                    if changes is None
                    else "leave it out",
                )
            check_keys(changes.key, self.schema)
            node = self._program.add(
                RetractionsSpec(),
                name="retractions",
                site=site,
                inputs=(replace(self._port, keys=changes.key, keyed_at=site),),
                outputs={MAIN: replace(self._type, changes=replace(changes, retracts=True))},
            )
            return DataStream(self._program, Input(node.id))

    def as_rows(self) -> DataStream:
        """Interpret a changelog as append-only rows, whose column `op` is the kind of change.

        ```python
        changed.as_rows().sink_to(rh.files.sink("log/"))
        ```
        """
        exprs = tuple(pl.col(name) for name in self.schema.names)
        stream = self._then(ExpressionSpec("select", exprs), "as_rows", self.schema, self._type.record)
        return stream._typed(None)

    def _typed(self, changes: Changes | None) -> DataStream:
        self.transformation.with_changes(changes)
        return self

    def _for_sink(self, sink: Sink, changes: Changes) -> tuple[DataStream, Sink]:
        taking, steps, schema = sink_of_changes(sink, changes, self.schema)
        rows = self.as_rows()
        for op, exprs in steps:
            behind = schema if op == "select" else rows.schema
            rows = rows._then(ExpressionSpec(op, tuple(exprs)), op, behind, None)
        return rows, taking

    # --- event time -----------------------------------------------------------------------------------

    def with_event_time(self, watermark: Watermark) -> DataStream:
        """Read event time from another column, with watermarks by it.

        Use it after a source and operators that work row by row, and before `union` and `key_by`:
        there, each row still belongs to a split. Lateness is decided by the earlier rows of the split,
        as it is directly after the source.

        ```python
        lines = env.from_source(rh.files.source("logs/*.jsonl", schema=Line))
        events = lines.map(parse).with_event_time(
            rh.Watermark.bounded_out_of_orderness("5s", on="at"))
        ```
        """
        site = call_site()
        with located(site, "with_event_time"):
            example = '.with_event_time(rh.Watermark.bounded_out_of_orderness("5s", on="at"))'
            watermark = checked_watermark(self.schema, watermark, example)
            if watermark.on is None:
                raise ProgramError(
                    "rows get the time at which they are read in their source",
                    hint="say it there: env.from_source(..., watermark=rh.Watermark.ingestion_time())",
                )
            if watermark.max_drift is not None:
                raise ProgramError(
                    "max_drift holds back splits by the event time of their source",
                    hint="say max_drift= in env.from_source(..., watermark=...)",
                )
            if watermark.max_ahead is not None:
                raise ProgramError(
                    "max_ahead rejects rows where their source reads them",
                    hint="say max_ahead= in env.from_source(..., watermark=...), or leave such rows "
                    "out before with .filter(...)",
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
            if any(stream._port.broadcast or stream._port.dealt for stream in streams):
                raise ProgramError(
                    "union() takes streams whose rows are not dealt out anew",
                    hint="unite them first: a.union(b).rebalance()",
                )
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
            kinds = [stream._type.changes for stream in streams]
            type = StreamType(
                schema,
                self._type.event_time,
                records.pop() if len(records) == 1 else None,
                columns.pop() if len(columns) == 1 else None,
                next((where for where in changed if where is not None), None),
                next((kind for kind in kinds if kind and kind.filtered), self._type.changes),
            )
            node = self._program.add(
                UnionSpec(), name="union", site=call_site(), inputs=ports, outputs={MAIN: type}
            )
            return DataStream(self._program, Input(node.id))

    def connect(self, other: DataStream) -> ConnectedStreams:
        """This stream and another of other columns, to be taken by one function. With a broadcast one,
        every subtask is given all of its rows.

        ```python
        clicks.connect(views).map(of_click, of_view)
        sales.connect(rates.broadcast()).process(Convert())
        ```
        """
        from rheos.api.connected import connect_streams

        with located(call_site(), "connect"):
            return connect_streams(self, other)

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
            port = self._port
            for column in columns:
                kind = self.schema.field(column).type
                if not is_key_type(kind):
                    raise SchemaError(
                        f"column {column!r} cannot be a key, as it is {kind}",
                        hint="take a value out of it before: .with_columns(k=col(...).list.first())",
                    )
            return KeyedStream(self._program, Input(port.node, port.tag, tuple(columns), site))

    def window_all(self, window: Window | WindowAssigner) -> WindowsOfAll:
        """Cuts the whole stream into windows, whatever the keys. One subtask has all of them.

        ```python
        events.window_all(rh.Tumbling("1m")).aggregate(events=rh.agg.count())
        ```
        """
        from rheos.api.window_all import windows_of_all
        from rheos.api.windowed import windows_said

        with located(call_site(), "window_all"):
            return windows_of_all(self, windows_said(self._program, self._port, window))

    def side_output(self, tag: str) -> DataStream:
        """Return a side output of the operator that produced this stream.

        `"late"` has rows that arrived too late for a window, or for a process in event-time order.
        `"rejected"` has records that a source skipped. A process function declares other tags.

        ```python
        counts = events.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
        counts.side_output("late").sink_to(rh.files.sink("late/"))
        ```
        """
        node = self._node
        with located(call_site(), node.name):
            tags = [known for known in node.outputs if known != MAIN]
            if tag not in tags:
                known = f"it has {', '.join(map(repr, tags))}" if tags else "it has no side outputs"
                raise ProgramError(
                    f"there is no side output {tag!r} here", hint=_side_output_hint(node, known)
                )
            read = node.spec.reading_side_output(tag)
            if read is not node.spec:
                self._program.replace(replace(node, spec=read))
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
            changes = self._type.changes
            if changes is not None and not sink_capabilities.takes_changes(sink):
                if parallelism is not None:
                    raise ProgramError(
                        "changes are written by the subtasks that emit them, so that they keep their "
                        "order",
                        hint="leave parallelism out",
                    )
                rows, taking = self._for_sink(sink, changes)
                rows.sink_to(taking, name, uid)
                return
            sink.validate(self.schema)
            most = sink_capabilities.most_writers(sink)
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
                taken = isinstance(node.spec, SinkSpec) and isinstance(node.spec.sink, CollectsRows)
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
        """Return the stream of a new operator that reads this one."""
        return DataStream.at(self.transformation.then(spec, name, schema, record))


def operator_name(kind: str, fn: Any) -> str:
    """Return the default name of an operator with a function: "map(parse)"."""
    name = function_name(fn)
    return kind if name == "<lambda>" else f"{kind}({name})"


def _united(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all; each may hold nulls where it may in one."""
    nullable = {field.name for schema in schemas for field in schema if field.nullable}
    return pa.schema([field.with_nullable(field.name in nullable) for field in schemas[0]])


def _side_output_hint(node: Node, known: str) -> str:
    if node.spec.side_outputs_hint is not None:
        return f"{node.spec.side_outputs_hint}; {known}"
    return f"windows, joins, process functions and sources have side outputs; {node.name!r}: {known}"
