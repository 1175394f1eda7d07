"""Streams: `from_source` and every transformation of a stream return one.

A stream is a place in the program, not data. Its methods check their arguments, add an operator to the
program, and return the operator's output as a stream. They raise errors at the user's own line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from rheos.api.connected_streams import ConnectedStreams, connect_streams
from rheos.api.expression_methods import ExpressionMethods
from rheos.api.function_methods import FunctionMethods
from rheos.api.iterations import close_loop, iterate_spec, loop_type
from rheos.api.method_hints import OF_KEYED
from rheos.api.partitioning import PartitioningMethods
from rheos.api.program import checked_name
from rheos.api.sink_methods import SinkMethods
from rheos.api.transformations import Transformation
from rheos.api.watermarks import checked_watermark
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.nodes import MAIN, Input, Node, Spec, StreamType
from rheos.core.graph.validate import (
    check_keys,
    check_time_of_results,
    check_uid,
    check_union,
    check_width,
    keeps_splits,
)
from rheos.core.graph.watermark import Watermark
from rheos.core.graph.window_functions import WindowAssigner
from rheos.core.graph.windows import Window
from rheos.core.known_names import names_hint
from rheos.core.operators.event_time import EventTimeSpec
from rheos.core.operators.event_time_of_results import ResultTimeSpec
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.union import UnionSpec
from rheos.core.safe_strings import shown
from rheos.core.site import call_site, located
from rheos.core.state.key_groups import is_key_type

if TYPE_CHECKING:
    from rheos.api.keyed_stream import KeyedStream
    from rheos.api.whole_stream_windows import WholeStreamWindows


class DataStream(ExpressionMethods, FunctionMethods, SinkMethods, PartitioningMethods):
    """A stream of rows.

    ```python
    (env.from_source(rh.files.source("logs/*.jsonl", schema=LogEvent), name="access log")
        .filter(col("status") < 400)
        .with_columns(seconds=col("millis") / 1000)
        .sink_to(rh.files.sink("out/")))
    ```
    """

    @classmethod
    def at(cls, transformation: Transformation) -> DataStream:
        """Return the stream of the rows at a place in the program, for libraries that add operators.

        ```python
        same = rh.DataStream.at(events.transformation)
        ```

        Args:
            transformation: The place.

        Returns:
            The stream.
        """
        stream = cls(transformation.program, transformation.port)
        stream._at = transformation
        return stream

    _kind = "a stream without keys"
    _elsewhere = {name: f'call key_by() first: .key_by("user").{name}(...)' for name in OF_KEYED}
    _sections = ("stream",)

    def __repr__(self) -> str:
        tag = f", side output {self._port.tag!r}" if self._port.tag != MAIN else ""
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<stream of {self._node.name!r}{tag}: {columns}>"

    def name(self, name: str) -> DataStream:
        """Name the operator that produced this stream. Errors, `explain` and the status show the name.

        ```python
        events.filter(col("status") >= 400).name("errors only")
        ```

        Args:
            name: The name, a non-empty string.

        Returns:
            This stream.

        Raises:
            ProgramError: `name` is not a name.
        """
        operator = (self._at.named or self._at).node
        with located(call_site(), operator.name):
            self._program.replace(replace(operator, name=checked_name(name)))
        return self

    def uid(self, uid: str) -> DataStream:
        """Set a stable id of the operator that produced this stream.

        State is assigned to operators by this id. By default it is derived from the operator's kind and
        its number among operators of that kind, so it changes with the program.

        ```python
        events.key_by("user").process(Validate()).uid("validate")
        ```

        Args:
            uid: The id, unique in the program.

        Returns:
            This stream.

        Raises:
            ProgramError: `uid` is not an id, or another operator has it.
        """
        if self._at.results_of is not None:
            self._at.results_of.stream.uid(uid)
            return self
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

        Args:
            parallelism: Maximum number of subtasks.

        Returns:
            This stream.

        Raises:
            ProgramError: The number is not valid, or the operator's changes must stay in their subtask.
        """
        with located(call_site(), self._node.name):
            if any(not of.keys and self._program.type_of(of).changes for of in self._node.inputs):
                raise ProgramError(
                    "a changelog cannot be repartitioned here: the changes of a row must stay "
                    "in order in one subtask",
                    hint="set the parallelism of the operator after key_by(...)",
                )
            self._program.replace(replace(self._node, parallelism=check_width(self._node, parallelism)))
        return self

    def iterate(
        self,
        body: Callable[[DataStream], tuple[DataStream, DataStream]],
        *,
        rounds: int | None = None,
        capacity: int = 10_000_000,
    ) -> DataStream:
        """Add a loop: the first stream that `body` returns is fed back to it, the second leaves the
        loop.

        ```python
        def body(numbers):
            halved = numbers.filter(col("n") > 1).with_columns(n=col("n") // 2)
            return halved, halved  # feedback, output

        numbers.iterate(body)
        ```

        Rows in the loop are state: each passes the body exactly once per iteration, also after
        failures. When the input has ended, the loop continues until no row is left in it. Rows in the
        loop, and its output, have no event time. A batch job cannot have a loop.

        Args:
            body: Receives the stream of the input and the feedback, and returns two streams. The
                feedback must have the columns of the loop.
            rounds: Maximum number of times that a row passes the body. Rows then have a column `round`,
                which counts from 0, and which the feedback must keep. The loop drops rows that would
                    exceed it, and counts them (`beyond_rounds`).
            capacity: Maximum number of fed-back rows that may wait in a subtask; with more the job
                fails.

        Returns:
            The stream that leaves the loop.

        Raises:
            ProgramError: `body` does not return two streams of the loop, or a number is less than 1.
            SchemaError: The feedback has other columns than the loop.
        """
        with located(call_site(), "iterate"):
            spec = iterate_spec(body, rounds, capacity)
            type = {MAIN: loop_type(self._type, spec)}
            return close_loop(self._at.add(spec, "iterate", type), body)

    # --- event time -----------------------------------------------------------------------------------

    def with_event_time(self, watermark: Watermark) -> DataStream:
        """Read event time from another column, with watermarks by it.

        After a source and operators that work row by row, each row still belongs to a split. Then the
        earlier rows of its split decide whether a row is late, as directly after the source.

        Downstream of a `union` or `key_by`, the rows must already have event time. The new time of a
        row may be at most the bound of the watermark before it; otherwise the row is late.

        ```python
        lines = env.from_source(rh.files.source("logs/*.jsonl", schema=Line))
        events = lines.map(parse).with_event_time(
            rh.Watermark.bounded_out_of_orderness("5s", on="at"))
        minutes = events.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
        by_begin = minutes.with_event_time(
            rh.Watermark.bounded_out_of_orderness("1m", on="window_start"))
        ```

        Args:
            watermark: The column with the event time, and its maximum disorder.

        Returns:
            The stream with event time.

        Raises:
            ProgramError: The watermark is of a kind that only a source may have, or a `union` or
                `key_by` is upstream and the rows have no event time.
            SchemaError: The column does not exist or is not a time.
        """
        with located(call_site(), "with_event_time"):
            example = '.with_event_time(rh.Watermark.bounded_out_of_orderness("5s", on="at"))'
            watermark = checked_watermark(self.schema, watermark, example)
            if watermark.on is None:
                raise ProgramError(
                    "ingestion time is assigned where the source reads a row",
                    hint="set it there: env.from_source(..., watermark=rh.Watermark.ingestion_time())",
                )
            if watermark.max_drift is not None:
                raise ProgramError(
                    "max_drift pauses splits by the event time of their source",
                    hint="set max_drift= in env.from_source(..., watermark=...)",
                )
            if watermark.max_ahead is not None:
                raise ProgramError(
                    "max_ahead rejects rows where their source reads them",
                    hint="set max_ahead= in env.from_source(..., watermark=...), or drop such rows "
                    "before with .filter(...)",
                )
            spec: Spec = EventTimeSpec(watermark)
            if not keeps_splits(self._port, self._program.node):
                check_time_of_results(self._type, watermark, self._node.name)
                spec = ResultTimeSpec(watermark)
            type = StreamType(self.schema, True, self._type.record, watermark.on)
            return self._at.add(spec, "with_event_time", {MAIN: type}).stream

    # --- several streams, and keys --------------------------------------------------------------------

    def union(self, *others: DataStream) -> DataStream:
        """Merge this stream with others that have the same columns.

        ```python
        clicks.union(searches)
        ```

        Args:
            others: At least one stream.

        Returns:
            The stream of all rows.

        Raises:
            ProgramError: An argument is not a stream of this environment, or is repartitioned.
            SchemaError: The streams have different columns.
        """
        with located(call_site(), "union"):
            streams = [self, *others]
            for other in others:
                if not isinstance(other, DataStream):
                    raise ProgramError(
                        f"union() takes streams, not {shown(other)}",
                        hint="pass each stream as an argument: .union(a, b), or .union(*streams)"
                        if isinstance(other, list | tuple)
                        else "unite the streams before key_by()",
                    )
                if other._program is not self._program:
                    raise ProgramError("union() takes streams of one environment")
            if any(stream._port.broadcast or stream._port.distribution for stream in streams):
                raise ProgramError(
                    "union() cannot take a stream that is repartitioned",
                    hint="unite them first: a.union(b).rebalance()",
                )
            if not others:
                raise ProgramError("union() needs another stream")
            names = [stream._node.name for stream in streams]
            if len(set(names)) < len(names):
                names = [f"{stream._node.name} of {stream._node.site}" for stream in streams]
            check_union([(name, stream._type) for name, stream in zip(names, streams, strict=True)])
            schema = _united([stream.schema for stream in streams])
            first, *more = (_relaxed(stream.transformation, schema) for stream in streams)
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
            return first.add(UnionSpec(), "union", {MAIN: type}, *more).stream

    def connect(self, other: DataStream) -> ConnectedStreams:
        """Connect this stream with one of other columns, as the two inputs of one function.

        ```python
        clicks.connect(views).map(of_click, of_view)
        sales.connect(rates.broadcast()).process(Convert())
        ```

        Args:
            other: The other stream. If it is broadcast, every subtask receives all its rows.

        Returns:
            The connected streams.

        Raises:
            ProgramError: `other` is not a stream without keys, or only one of the two has event time.
        """
        with located(call_site(), "connect"):
            return connect_streams(self, other)

    def key_by(self, *columns: str) -> KeyedStream:
        """Partition the stream by key. The operators after it work per key.

        ```python
        events.key_by("user").process(Validate())
        events.key_by("country", "device").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
        ```

        Args:
            columns: The key columns, at least one.

        Returns:
            The keyed stream.

        Raises:
            SchemaError: A column does not exist, or its type cannot be a key.
        """
        with located(call_site(), "key_by"):
            check_keys(columns, self.schema)
            for column in columns:
                kind = self.schema.field(column).type
                if not is_key_type(kind):
                    raise SchemaError(
                        f"column {column!r} cannot be a key, because it is {kind}",
                        hint="extract a value first: .with_columns(k=col(...).list.first())",
                    )
            # Programs without keys start faster if they do not import this.
            from rheos.api.keyed_stream import KeyedStream

            return KeyedStream(self._program, self._at.keyed_by(columns).port)

    def window_all(self, window: Window | WindowAssigner) -> WholeStreamWindows:
        """Divide the whole stream into windows, without keys. A single subtask processes all of them.

        ```python
        events.window_all(rh.Tumbling("1m")).aggregate(events=rh.agg.count())
        ```

        Args:
            window: The windows, such as `rh.Tumbling("1m")`.

        Returns:
            The windows.

        Raises:
            ProgramError: `window` is not a window, or the stream lacks the event time that it needs.
        """
        with located(call_site(), "window_all"):
            from rheos.api.whole_stream_windows import windows_of_all
            from rheos.api.window_configuration import check_window

            return windows_of_all(self._at, check_window(self._at, window))

    def side_output(self, tag: str) -> DataStream:
        """Return a side output of the operator that produced this stream.

        `"late"` has rows that arrived too late for a window, or for a process in event-time order.
        `"rejected"` has records that a source skipped. A process function declares other tags.

        ```python
        counts = events.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
        counts.side_output("late").sink_to(rh.files.sink("late/"))
        ```

        Args:
            tag: Name of the side output.

        Returns:
            The stream of its rows.

        Raises:
            ProgramError: The operator has no such side output.
        """
        if self._at.results_of is not None:
            return self._at.results_of.stream.side_output(tag)
        node = self._node
        with located(call_site(), node.name):
            tags = [known for known in node.outputs if known != MAIN]
            if tag not in tags:
                known = names_hint(tag, tags, "its side outputs are")
                raise ProgramError(f"unknown side output {tag!r}", hint=_side_output_hint(node, known))
            read = node.spec.reading_side_output(tag)
            if read is not node.spec:
                self._program.replace(replace(node, spec=read))
            side = Transformation(self._program, Input(node.id, tag))
            of_all = any(input.one_key for input in node.inputs)
            if of_all:
                from rheos.api.whole_stream_windows import without_key

                side = without_key(side)
            return side.stream


def _united(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the common columns of all schemas. A column is nullable if it is nullable in one of
    them."""
    nullable = {field.name for schema in schemas for field in schema if field.nullable}
    return pa.schema([field.with_nullable(field.name in nullable) for field in schemas[0]])


def _relaxed(rows: Transformation, schema: pa.Schema) -> Transformation:
    """Return the same rows with the columns of `schema`, which may be nullable where the stream's are
    not."""
    if schema == rows.type.schema:
        return rows
    exprs = tuple(pl.col(name) for name in schema.names)
    return rows.then(ExpressionSpec("select", exprs), "select", schema, rows.type.record)


def _side_output_hint(node: Node, known: str) -> str:
    if node.spec.side_outputs_hint is not None:
        return f"{known}; {node.spec.side_outputs_hint}"
    return f"{known}; windows, joins, process functions and sources have side outputs"
