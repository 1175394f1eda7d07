"""Keyed streams: operations per key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rheos.api.batch_functions import batch_output, check_batch_function, has_timers
from rheos.api.changelogs import added_table, check_top_n
from rheos.api.compiled_checks import automatic_form, check_compiled
from rheos.api.connected_streams import KeyedConnectedStreams, connect_keyed
from rheos.api.function_checks import (
    EMITTING,
    check_function,
    check_late,
    check_order,
    check_outputs,
    emitted_type,
    expires_by_event_time,
    late_outputs,
    operator_name,
    side_types,
)
from rheos.api.function_typing import UNSAID, Signature, input_record, result_type
from rheos.api.join_methods import JoinMethods
from rheos.api.method_hints import OF_ANY, OF_OPERATORS
from rheos.api.pattern_detection import detected, tree_of
from rheos.api.patterns import Pattern
from rheos.api.window_configuration import check_window
from rheos.api.windowed_stream import WindowedStream
from rheos.core.aggregates import Agg
from rheos.core.callables import check_callable, function_name
from rheos.core.connectors.retry import Retry
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.batch_functions import KeyedBatchFunction
from rheos.core.graph.changelog import OP, Changes
from rheos.core.graph.functions import AsyncFunction, KeyedProcessFunction
from rheos.core.graph.nodes import MAIN, Late, Order, StreamType
from rheos.core.graph.patterns import PatternTree
from rheos.core.graph.validate import (
    aggregate_fields,
    check_aggregates,
    check_columns,
    check_running,
)
from rheos.core.graph.window_functions import WindowAssigner
from rheos.core.graph.windows import Window
from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.changelog.dedup import DedupSpec, Keep
from rheos.core.operators.changelog.top_n import RANK, TopNSpec
from rheos.core.operators.chosen_records import choice_typing
from rheos.core.operators.late_rows import LATE
from rheos.core.operators.once_operator import IN_DOUBT
from rheos.core.operators.pattern.matches import TIMED_OUT
from rheos.core.operators.process import ProcessSpec
from rheos.core.operators.reduce import ReduceSpec
from rheos.core.operators.running import RunningSpec, running_schema
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    from rheos.api.once_calls import InDoubt
    from rheos.api.streams import DataStream


class KeyedStream(JoinMethods):
    """A stream that is partitioned by key; created by `key_by`."""

    _kind = "a keyed stream"
    _sections = ("keyed", "stream")
    _by_name = '.running(total=rh.agg.sum("{}"))'
    _elsewhere = {
        **OF_OPERATORS,
        **{
            name: f"call .{name}(...) before key_by(): a keyed stream only has methods by key"
            for name in OF_ANY
        },
        "aggregate": (
            'first choose what to aggregate over: .window(rh.Tumbling("1m")).aggregate(...), or '
            ".running(...) for a result per row"
        ),
    }

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<stream keyed by {', '.join(self.keys)}: {columns}>"

    def process(
        self,
        fn: KeyedProcessFunction | KeyedBatchFunction,
        order: Order = "arrival",
        returns: Any = None,
        *,
        late: Late = "side_output",
        compiled: bool | None = None,
    ) -> DataStream:
        """Call a function for each record, with the state and timers of its key.

        ```python
        class Validate(rh.KeyedProcessFunction):
            state = rh.ValueState(int, default=0)

            def process_element(self, event: Event, ctx) -> Iterator[Alert]:
                ...

        events.key_by("user").process(Validate())
        ```

        Args:
            fn: The function. A `KeyedBatchFunction` is called for batches of records, with the state of
                their keys as arrays.
            order: "arrival", or "event_time": records are buffered until the watermark has passed them,
                and processed in the order of their times.
            returns: The type of the results, if annotations do not declare it.
            late: What happens to late records in the order of event time. "side_output": they go to the
                side output `"late"`. "deliver": the function receives them, after all records up to the
                watermark that made them late; `ctx.is_late` is true.
            compiled: Whether to compile the function while it runs, if that is possible and a compiler
                is installed. None is the setting `compiled` of the job.

        Returns:
            The stream of the results; `side_output` returns the others.

        Raises:
            ProgramError: `fn` is not an instance of the class or lacks a method, or `order` or `late`
                does not fit.
            SchemaError: The type of the results is not declared.
        """
        name = operator_name("process", fn)
        with located(call_site(), name):
            if isinstance(fn, KeyedBatchFunction):
                check_batch_function(fn)
            else:
                check_function(
                    fn,
                    KeyedProcessFunction,
                    ["process_element"],
                    instead="; for a plain function use .map(...) or .flat_map(...) before key_by()",
                )
            check_order(fn, order, [LATE])
            late_of = check_late(order, late, 1)
            if order == "event_time":
                self._at.go_by_event_time('order="event_time"')
            elif expires_by_event_time(fn, self._type):
                self._at.go_by_event_time("a time to live")
            elif self._type.event_time and has_timers(fn):
                self._at.go_by_event_time("a timer of event time")
            if isinstance(fn, KeyedBatchFunction):
                record, declared = None, batch_output(fn, returns)
            else:
                record = input_record(fn.process_element, self.schema)
                declared = emitted_type(fn, KeyedProcessFunction, EMITTING, returns)
            sides = side_types(fn)
            method = "process_batch" if isinstance(fn, KeyedBatchFunction) else "process_element"
            check_outputs(fn, declared, sides, method)
            asked = self._at.program.compiles if compiled is None else compiled
            automatic = check_compiled(
                fn,
                self._type,
                self.keys,
                record,
                declared,
                sides,
                program=self._at.program,
                automatic=asked and not isinstance(fn, KeyedBatchFunction),
            )
            outputs = {tag: side.after(self._type) for tag, side in sides.items()}
            outputs |= late_outputs(order, late_of, [LATE], [self._type])
            schemas = {tag: side.schema for tag, side in sides.items()}
            spec = ProcessSpec(fn, order, record, schemas, late_of, automatic)
            return self._at.add(spec, name, {MAIN: declared.after(self._type), **outputs}).stream

    def connect(self, other: KeyedStream | DataStream) -> KeyedConnectedStreams:
        """Connect this stream with another one, as the two inputs of one function.

        ```python
        orders.key_by("id").connect(payments.key_by("order_id")).process(Match())
        events.key_by("user").connect(rules.broadcast()).process(Alarms())
        ```

        Args:
            other: A stream that is keyed by the same types, or a broadcast one.

        Returns:
            The connected streams.

        Raises:
            ProgramError: `other` is neither, or only one of two keyed streams has event time.
            SchemaError: The keys have different types.
        """
        with located(call_site(), "connect"):
            return connect_keyed(self, other)

    def reduce(self, fn: Callable[[Any, Any], Any]) -> DataStream:
        """Combine the records of a key with a function of two records, and emit the result so far for
        each record.

        ```python
        def larger(a: Bid, b: Bid) -> Bid:
            return a if a.price >= b.price else b

        bids.key_by("item").reduce(larger)
        ```

        Args:
            fn: Combines two records of one type into one of that type.

        Returns:
            The stream of the results so far.

        Raises:
            ProgramError: `fn` cannot be called with two records.
            SchemaError: `fn` returns another type than its arguments have.
        """
        name = operator_name("reduce", fn)
        with located(call_site(), name):
            check_callable(fn, "reduce", ["a record", "another"])
            record = input_record(fn, self.schema)
            annotation = Signature(fn).result
            if annotation not in (UNSAID, Any, record):
                given = result_type(fn, annotation, method="reduce", many=False)
                if given.schema != self.schema:
                    raise SchemaError(
                        f"{function_name(fn)} returns another type of record than its arguments have",
                        hint="a reduce function must return the type of its arguments; use "
                        ".process(...) for another type",
                    )
            automatic = automatic_form(self._at.program, fn, choice_typing(self.schema, record))
            spec = ReduceSpec(fn, record, automatic)
            return self._at.add(spec, name, {MAIN: self._type}).stream

    def call_once(
        self,
        fn: Callable[[Any], Any] | AsyncFunction,
        returns: Any = None,
        *,
        confirm: Callable[[Any], Any] | None = None,
        in_doubt: InDoubt = "call",
        remember: Duration = "7d",
        capacity: int = 100,
        max_waiting: int = 100_000,
        timeout: Duration = "10s",
        retries: Retry | None = None,
    ) -> DataStream:
        """Call an `async def` function that acts on another system, once for each key.

        The key is the idempotency key: `fn` passes it to the system, which recognises a repeated call.

        ```python
        async def charge(payment: Payment) -> Receipt: ...

        payments.key_by("order_id").call_once(charge, retries=rh.retry(3, on=ConnectionError))
        ```

        A row waits until a checkpoint that contains it is complete; then the call is made. The answer
        is emitted once for each row, and remembered. A later row with the key receives it without a
        call. The stream of answers has no event time.

        After a failure, the calls of restored rows are in doubt, because they may have been made.

        Args:
            fn: The function, or an `rh.AsyncFunction` with a client that is opened once.
            returns: The type of the answers, if no annotation declares it.
            confirm: An `async def` function of a record in doubt, which asks the system. It returns the
                answer of the earlier call, or None: then the call is made.
            in_doubt: "call" makes calls in doubt again, with the same key. "divert" makes no call
                twice: rows in doubt go to the side output `"in_doubt"`.
            remember: Time for which answers are remembered, by the wall clock.
            capacity: Maximum number of concurrent calls per subtask.
            max_waiting: Number of rows that wait in a subtask before backpressure slows the source.
            timeout: Maximum time of a call, with its retries. A longer call fails the attempt.
            retries: Errors after which a call is repeated, and how often: `rh.retry(...)`.

        Returns:
            The stream of the answers.

        Raises:
            ProgramError: `fn` is not an async function of a record, an argument is invalid, or the
                stream is in a loop.
            SchemaError: The type of the answers is not declared.
        """
        name = operator_name("call_once", fn)
        with located(call_site(), name):
            from rheos.api.once_calls import called_once  # It imports asyncio.

            limits = (remember, capacity, max_waiting, timeout, retries)
            spec = called_once(self._at, fn, returns, confirm, in_doubt, *limits)
            answers = StreamType(spec.answer_schema, False, spec.answer_record)
            outputs = {MAIN: answers}
            if in_doubt == "divert":
                outputs[IN_DOUBT] = StreamType(self.schema, False, self._type.record)
            return self._at.add(spec, name, outputs).stream

    def running(self, **aggregates: Agg) -> DataStream:
        """Add to each row the aggregates of its key so far.

        ```python
        sales.key_by("item").running(n=rh.agg.count(), total=rh.agg.sum("price"))
        ```

        Args:
            aggregates: count, sum, min, max or mean, by the names of their columns.

        Returns:
            The stream with the additional columns.

        Raises:
            ProgramError: An aggregate is only for windows, or there is none.
            SchemaError: A column does not exist, or its type does not fit.
        """
        with located(call_site(), "running"):
            checked = check_aggregates(aggregates, '.running(total=rh.agg.sum("price"))')
            check_running(checked)
            aggregate_fields(checked, self.schema)
            schema = running_schema(self.schema, checked)
            check_columns(schema)
            type = replace(self._type, schema=schema, record=None)
            return self._at.add(RunningSpec(checked), "running", {MAIN: type}).stream

    def dedup(
        self, keep: Keep = "first", *, within: Duration | None = None, order: Order = "arrival"
    ) -> DataStream:
        """Keep one row per key: the first; or the last, as a stream of upserts with `op`.

        ```python
        clicks.key_by("id").dedup(within="1h")
        clicks.key_by("id").dedup(order="event_time")
        payments.key_by("order_id").dedup("last").sink_to(rh.redis.sink(url, key="paid:{order_id}"))
        ```

        With `within`, which needs event time, rows are duplicates for that long after the emitted row.
        Then the state of the key is dropped. Without `within`, the state of keys is never dropped. Late
        rows go to the side output `"late"`. If rows are out of order, the first to arrive counts.
        With `order="event_time"`, the first by event time counts.

        Args:
            keep: "first" emits the first row of a key; "last" emits each row as an upsert.
            within: Event time after an emitted row for which rows of its key are duplicates; None for
                ever.
            order: "arrival", or "event_time": rows are buffered until the watermark has passed them. Of
                rows with the same time, the least comes first, column by column. Late rows go to the
                side output `"late"`.

        Returns:
            The stream of the remaining rows.

        Raises:
            ProgramError: An argument is invalid, or `within` or `order` needs event time.
            SchemaError: A column has the name of a new one.
        """
        with located(call_site(), "dedup"):
            if keep not in ("first", "last"):
                raise ProgramError(f"keep={keep!r} is not known", hint='write "first" or "last"')
            type = replace(self._type, record=self._type.record if keep == "first" else None)
            within_ms = None
            if within is not None:
                within_ms = duration_ms(within)
                if within_ms <= 0:
                    raise ProgramError(f"within must be greater than 0, not {within!r}")
                self._at.go_by_event_time("dedup(within=...)")
            check_order(None, order, ())
            if order == "event_time":
                self._at.go_by_event_time('order="event_time"')
            drops_late = within is not None or order == "event_time"
            outputs = {MAIN: type, LATE: self._type} if drops_late else {MAIN: type}
            if keep == "last":
                schema = self.schema.append(pa.field(OP, pa.string()))
                check_columns(schema)
                upserts = Changes(self.keys, retracts=False)
                outputs[MAIN] = replace(type, schema=schema, changes=upserts)
            spec = DedupSpec(keep, within_ms, self._type.event_time, order)
            return self._at.add(spec, "dedup", outputs).stream

    def top_n(self, n: int, by: str, *, smallest: bool = False, with_ties: bool = False) -> DataStream:
        """Rank the rows of each key by a column, and emit the changes of the first `n` ranks.

        The result is an updating table by key and `rank`: its changelog has the old and the new row of
        a rank.

        ```python
        sales.key_by("shop", "item").table(n=rh.agg.count()).key_by("shop").top_n(3, by="n")
        ```

        Rows with equal values are ordered by their other columns. Rows with null have no rank, and NaN
        is greater than all numbers. If the input is an updating table, all its rows are state;
        otherwise only the ranked ones.

        Args:
            n: Number of ranks, at least 1.
            by: The column to rank by.
            smallest: Whether the smallest values come first.
            with_ties: Whether the rows with the value of rank `n` are included, too. They have the
                ranks after `n`, and all of them are state.

        Returns:
            The stream of changes.

        Raises:
            ProgramError: `n` is not a whole number of at least 1, or the input's changes do not fit.
            SchemaError: The column does not exist, or has no order.
        """
        with located(call_site(), "top_n"):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise ProgramError(f"top_n() takes a whole number of at least 1, not {n!r}")
            changes = self._type.changes
            check_top_n(self.schema, by, self.keys, changes)
            columns = [*table_columns(self.schema), pa.field(RANK, pa.int64())]
            schema = pa.schema([*columns, pa.field(OP, pa.string())])
            check_columns(schema)
            ranks = Changes((*self.keys, RANK), retracts=True)
            type = StreamType(schema, self._type.event_time, changes=ranks)
            of_changes = None if changes is None else changes.key
            spec = TopNSpec(n, by, smallest, of_changes, with_ties=with_ties)
            return self._at.add(spec, "top_n", {MAIN: type}).stream

    def table(self, **aggregates: Agg) -> DataStream:
        """Aggregate into an updating table with a row per key, and emit its changes. Each input row
        emits the current row of its key, and `op` tells whether that row is new.

        If the input is a changelog with retractions (`retractions()`), retracted rows are subtracted.

        ```python
        sales.key_by("item").table(n=rh.agg.count(), total=rh.agg.sum("price")).sink_to(
            rh.redis.sink("redis://localhost:6379", key="item:{item}"))
        ```

        Args:
            aggregates: Built-in aggregates by the names of their columns.

        Returns:
            The stream of changes.

        Raises:
            ProgramError: An aggregate is only for windows, or cannot subtract retracted rows.
            SchemaError: A column does not exist, or its type does not fit.
        """
        with located(call_site(), "table"):
            return added_table(self._at, aggregates).stream

    def window(self, window: Window | WindowAssigner) -> WindowedStream:
        """Divide the rows of each key into windows.

        ```python
        events.key_by("country").window(rh.Sliding("5m", every="1m")).aggregate(hits=rh.agg.count())
        ```

        Args:
            window: The windows, such as `rh.Tumbling("1m")`, or a WindowAssigner.

        Returns:
            The windows.

        Raises:
            ProgramError: `window` is not a window, or the stream lacks the event time that it needs.
        """
        with located(call_site(), "window"):
            return WindowedStream(self._at, check_window(self._at, window))

    def detect(self, pattern: Pattern) -> DataStream:
        """Find the rows of a key that match a pattern. Each match is a row.

        It has the key and a column for each step: the matched row as a struct, or a list of them if the
        step may match several.

        ```python
        risen = (
            rh.pattern.begin("low").where(col("price") < 10)
            .followed_by("high").where(col("price") > 100)
            .within("10m")
        )
        prices.key_by("item").detect(risen).select(
            "item", low=col("low").struct.field("price"), high=col("high").struct.field("price"))
        ```

        Rows are matched in the order of event time. Late rows go to the side output `"late"`, partial
        matches that exceed their time to `"timed_out"`.

        Args:
            pattern: The pattern; see `rh.pattern.begin`.

        Returns:
            The stream of matches.

        Raises:
            ProgramError: `pattern` is not a pattern, or the stream has no event time.
            SchemaError: A condition does not fit the columns. The error has the line of its step.
        """
        with located(call_site(), "detect"):
            return self.detect_tree(tree_of(pattern))

    def detect_tree(self, pattern: PatternTree) -> DataStream:
        """Find matches of a compiled pattern, as SQL does for MATCH_RECOGNIZE.

        ```python
        prices.key_by("item").detect_tree(rising.tree())
        ```

        Args:
            pattern: The pattern.

        Returns:
            The stream of matches.
        """
        spec, schema = detected(pattern, self.schema, self.keys, self._at.program)
        self._at.go_by_event_time("detect()")
        type = StreamType(schema, event_time=True)
        return self._at.add(spec, "detect", {MAIN: type, TIMED_OUT: type, LATE: self._type}).stream
