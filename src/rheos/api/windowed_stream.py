"""Windowed streams: computations once per key and window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from rheos.api.column_hints import WithColumns
from rheos.api.function_checks import check_defaults, operator_name
from rheos.api.function_typing import (
    UNSAID,
    DeclaredOutput,
    Signature,
    input_record,
    output_type,
    result_type,
)
from rheos.api.method_hints import OF_ANY, OF_OPERATORS
from rheos.api.row_window_functions import RowWindowFunction
from rheos.api.transformations import Transformation
from rheos.api.window_configuration import WINDOW_FIELDS, WindowsOfKeys
from rheos.core.aggregates import Agg
from rheos.core.callables import check_callable, check_methods
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.aggregate_functions import AggregateFunction, ReducingFunction
from rheos.core.graph.functions import WindowFunction
from rheos.core.graph.naming_aggregates import naming
from rheos.core.graph.nodes import MAIN, Spec, StreamType
from rheos.core.graph.validate import (
    aggregate_fields,
    check_aggregates,
    check_columns,
    lateness_ms,
)
from rheos.core.graph.window_functions import Evictor, Trigger
from rheos.core.graph.windows import Window
from rheos.core.operators.late_rows import LATE
from rheos.core.operators.map import MapSpec
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.triggers.spec import TriggeredWindowSpec
from rheos.core.protocol.durations import Duration
from rheos.core.safe_strings import shown
from rheos.core.site import call_site, located
from rheos.core.state.keys import windowed_codec

if TYPE_CHECKING:
    from rheos.api.streams import DataStream


class WindowedStream(WithColumns):
    """The windows of a keyed stream; created by `window`."""

    def __init__(self, keyed: Transformation, windows: WindowsOfKeys) -> None:
        self._keyed = keyed
        self._windows = windows

    _kind = "a windowed stream"
    _sections = ("windowed", "stream")
    _by_name = '.aggregate(total=rh.agg.sum("{}"))'
    _elsewhere = dict.fromkeys(
        (*OF_ANY, *OF_OPERATORS, "running", "side_output"),
        "first choose a computation for each window: .aggregate(hits=rh.agg.count()) or .process(...)",
    )

    def __repr__(self) -> str:
        keys = ", ".join(self._keyed.port.keys)
        return f"<windows {self._windows.window!r} of a stream keyed by {keys}>"

    def _column_names(self) -> list[str]:
        return list(self._visible_schema.names)

    @property
    def _type(self) -> StreamType:
        return self._keyed.type

    @property
    def _visible_schema(self) -> pa.Schema:
        """Columns of the rows, without those that the program does not see."""
        return self._type.schema

    # --- which windows, and when ------------------------------------------------------------------

    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
        """Keep windows for some time after their end, for late rows.

        A row that arrives in this time makes its window emit the result again. Later rows go to the
        side output `"late"`.

        ```python
        events.key_by("user").window(rh.Tumbling("1m")).allowed_lateness("30s").aggregate(n=rh.agg.count())
        ```

        Args:
            lateness: Event time after the end of a window for which it is kept.

        Returns:
            The windows.

        Raises:
            ProgramError: The windows do not end by event time, or the duration is invalid.
        """
        with located(call_site(), "window"):
            if self._windows.time != "event_time":
                raise ProgramError(
                    f"{self._windows.name} windows do not end by event time, so no row is late"
                )
            return self._replace_windows(lateness_ms=lateness_ms(lateness))

    def trigger(self, trigger: Trigger) -> WindowedStream:
        """Set when windows fire, instead of at their end.

        ```python
        clicks.key_by("item").window(rh.Tumbling("1h")).trigger(rh.triggers.count(100))
        ```

        Args:
            trigger: The trigger.

        Returns:
            The windows.

        Raises:
            ProgramError: `trigger` is not an instance of a trigger.
        """
        with located(call_site(), "window"):
            _check_instance(trigger, Trigger, "trigger", "rh.triggers.count(100)")
            check_defaults(trigger)
            return self._replace_windows(trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedStream:
        """Drop records of a window as it fires. Until then, all its records are state.

        ```python
        quotes.key_by("item").window(rh.Tumbling("1h")).evictor(rh.evictors.count(10))
        ```

        Args:
            evictor: Selects the records to keep.

        Returns:
            The windows.

        Raises:
            ProgramError: `evictor` is not an instance of an evictor.
        """
        with located(call_site(), "window"):
            _check_instance(evictor, Evictor, "evictor", "rh.evictors.count(10)")
            return self._replace_windows(evictor=evictor)

    def _replace_windows(self, **changes: Any) -> WindowedStream:
        return type(self)(self._keyed, replace(self._windows, **changes))

    # --- what is computed -------------------------------------------------------------------------

    def aggregate(
        self,
        function: AggregateFunction[Any] | None = None,
        /,
        *,
        process: WindowFunction | None = None,
        returns: Any = None,
        **aggregates: Agg | pl.Expr,
    ) -> DataStream:
        """Compute one row per key and window: the keys, `window_start`, `window_end`, and the
        aggregates.

        ```python
        windows.aggregate(hits=rh.agg.count(), p95=rh.col("ms").quantile(0.95))
        windows.aggregate(Spread(), process=WithTheWindow())
        ```

        Args:
            function: An AggregateFunction, instead of `aggregates`. Its result is the row.
            process: A WindowFunction that is called with that row as the only record, with key and
                window. Its records are the result.
            returns: The type of the results, if annotations do not declare it.
            aggregates: By the names of their columns: built-in aggregates, or Polars expressions that
                reduce the window's rows, in the order of event time.

        Returns:
            The stream of the results. The side output `"late"` has the late rows.

        Raises:
            ProgramError: No aggregate is given, both kinds are, or an object is not an instance of its
                class.
            SchemaError: A column does not exist, or a type is not declared or does not fit.
        """
        # If `process` or `returns` is an aggregate, it is a column of that name.
        passed = {"process": process, "returns": returns}
        aggregates |= {name: of for name, of in passed.items() if isinstance(of, Agg | pl.Expr)}
        process, returns = (None if name in aggregates else of for name, of in passed.items())
        if process is not None:
            with located(call_site(), operator_name("window", process)):
                _check_instance(process, WindowFunction, "process()", "TopTen()")
        if function is not None:
            return self._aggregated_by(function, aggregates, process, returns)
        rows = self._aggregated(aggregates)
        return rows if process is None else self._processed(rows, process, returns)

    def _aggregated(self, aggregates: Mapping[str, Agg | pl.Expr]) -> DataStream:
        windows = self._windows
        name = f"window({windows.name})"
        with located(call_site(), name):
            checked = check_aggregates(aggregates, ".aggregate(hits=rh.agg.count())")
            schema = self._type.schema
            keys = [schema.field(key) for key in self._keyed.port.keys]
            bounds = WINDOW_FIELDS if windows.time is not None else []
            result = pa.schema([*keys, *bounds, *aggregate_fields(checked, schema)])
            check_columns(result)
            if windows.in_columns:
                assert isinstance(windows.window, Window)
                spec: Spec = WindowSpec(windows.window, windows.lateness_ms, checked)
            else:
                record = self._record_of_trigger()
                used = {column for agg in checked.values() for column in agg.columns}
                self._check_has(record, {*self._keyed.port.keys, *used} & set(schema.names))
                spec = self._triggered(record, aggregates=checked)
            return self._add_operator(spec, name, DeclaredOutput(result, None))

    def _aggregated_by(
        self,
        function: AggregateFunction[Any],
        aggregates: Mapping[str, Agg | pl.Expr],
        process: WindowFunction | None,
        returns: Any,
    ) -> DataStream:
        name = operator_name("window", process or function)
        with located(call_site(), name):
            if hint := naming(function, ".aggregate()"):
                raise ProgramError("aggregate() takes each aggregate by a name", hint=hint)
            _check_instance(function, AggregateFunction, "aggregate()", "Spread()")
            if aggregates:
                raise ProgramError(
                    "aggregate() takes either an AggregateFunction or built-in aggregates, not both"
                )
            kept = Signature(function.create_accumulator).result
            if kept in (UNSAID, Any):
                raise SchemaError(
                    f"{type(function).__name__} does not declare the type of its accumulator, "
                    "which is needed to store it",
                    hint="annotate create_accumulator: `def create_accumulator(self) -> Totals`",
                )
            merge = type(function).merge
            if self._windows.merges and merge is AggregateFunction.merge:
                raise ProgramError(
                    f"{type(function).__name__} has no merge(), which {self._windows.name} windows "
                    f"need",
                    hint="define merge(a, b), which combines two accumulators",
                )
            record = self._one_record(input_record(function.add, self._type.schema))
            if process is not None:
                declared = output_type(process.process, returns, method="process", many=True)
            elif returns is not None:
                declared = output_type(function.get_result, returns, method="aggregate", many=False)
            else:
                annotation = Signature(function.get_result).result
                declared = result_type(function.get_result, annotation, method="aggregate", many=False)
            spec = self._triggered(record, combine=function, kept=kept, fn=process)
            return self._add_operator(spec, name, declared)

    def reduce(
        self,
        fn: Callable[[Any, Any], Any],
        *,
        process: WindowFunction | None = None,
        returns: Any = None,
    ) -> DataStream:
        """Combine the records of a key and window, two at a time, into one of their type.

        ```python
        bids.key_by("item").window(rh.Tumbling("1h")).reduce(larger)
        ```

        Args:
            fn: Combines two records of one type into one of that type.
            process: A WindowFunction that is called with the result as the only record, with key and
                window.
            returns: The type of the results of `process`, if its annotation does not declare it.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` cannot be called with two records, or `process` is not a WindowFunction.
            SchemaError: A type is not declared or does not fit.
        """
        name = operator_name("window", fn)
        with located(call_site(), name):
            check_callable(fn, "reduce", ["a record", "another"])
            record = self._one_record(input_record(fn, self._type.schema))
            if process is None:
                declared = DeclaredOutput(self._visible_schema, self._type.record)
            else:
                _check_instance(process, WindowFunction, "process()", "TopTen()")
                declared = output_type(process.process, returns, method="process", many=True)
            kept = object if record is None else record
            spec = self._triggered(record, combine=ReducingFunction(fn), kept=kept, fn=process)
            return self._add_operator(spec, name, declared)

    def process(self, fn: WindowFunction, returns: Any = None) -> DataStream:
        """Call a function once per key and window, with all its records, sorted by event time.

        ```python
        class TopTen(rh.WindowFunction):
            def process(self, records: list[Sale], ctx) -> Iterator[Best]:
                for sale in sorted(records, key=lambda sale: -sale.price)[:10]:
                    yield Best(ctx.key, ctx.window.end_ms, sale.item)

        sales.key_by("shop").window(rh.Tumbling("1d")).process(TopTen())
        ```

        Args:
            fn: The function.
            returns: The type of the results, if the annotation of `process` does not declare it.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` is not an instance of a WindowFunction.
            SchemaError: A type is not declared or does not fit.
        """
        name = operator_name("window", fn)
        with located(call_site(), name):
            _check_instance(fn, WindowFunction, "process()", "TopTen()", of=" of windows")
            windows = self._windows
            record = input_record(fn.process, self._type.schema, many=True)
            declared = output_type(fn.process, returns, method="process", many=True)
            if windows.in_columns:
                assert isinstance(windows.window, Window)
                spec: Spec = WindowSpec(windows.window, windows.lateness_ms, {}, fn, record)
            else:
                spec = self._triggered(self._one_record(record), fn=fn)
            return self._add_operator(spec, name, declared)

    # --- nodes ------------------------------------------------------------------------------------

    def _triggered(self, record: type | None, **computed: Any) -> TriggeredWindowSpec:
        windows = self._windows
        trigger, evictor = windows.fired_by()
        windowed_codec(self._type.schema, self._keyed.port.keys)
        return TriggeredWindowSpec(
            windows.window,
            windows.time,
            windows.merges,
            trigger,
            evictor,
            windows.lateness_ms,
            record,
            **computed,
        )

    def _record_of_trigger(self) -> type | None:
        trigger, _ = self._windows.fired_by()
        return input_record(trigger.on_element, self._type.schema)

    def _one_record(self, record: type | None) -> type | None:
        """Return the record class of both the function and the trigger, which receive the same
        records."""
        of_trigger = self._record_of_trigger()
        if record is not None and of_trigger is not None and record is not of_trigger:
            raise SchemaError(
                f"the trigger takes {of_trigger.__name__}, but the function takes {record.__name__}",
                hint="annotate both with one dataclass, or leave out the trigger's annotation",
            )
        return record or of_trigger

    def _check_has(self, record: type | None, columns: set[str]) -> None:
        if record is None:
            return
        missing = sorted(columns - set(getattr(record, "__dataclass_fields__", ())))
        if missing:
            raise SchemaError(
                f"the trigger takes {record.__name__}, which lacks the column {missing[0]!r} "
                "that the aggregates read",
                hint="add the field, or leave out the annotation of the trigger's record",
            )

    def _add_operator(self, spec: Spec, name: str, declared: DeclaredOutput) -> DataStream:
        # Results of windows of processing time have no event time.
        timed = self._windows.time == "event_time" or (
            self._windows.time is None and self._type.event_time
        )
        outputs = {MAIN: StreamType(declared.schema, timed, declared.record)}
        if self._windows.time == "event_time":
            outputs[LATE] = self._type
        return self._keyed.add(spec, name, outputs).stream

    def _processed(self, rows: DataStream, fn: WindowFunction, returns: Any) -> DataStream:
        """Call a function with the rows of aggregates, their keys and windows."""
        name = operator_name("process", fn)
        with located(call_site(), name):
            record = input_record(fn.process, rows.schema, many=True)
            declared = output_type(fn.process, returns, method="process", many=True)
            of_row = RowWindowFunction(fn, self._keyed.port.keys)
            windows = rows.transformation
            type = StreamType(declared.schema, windows.type.event_time, declared.record)
            made = windows.add(MapSpec(of_row, True, record), name, {MAIN: type})
            return replace(made, results_of=windows).stream


def _check_instance(given: Any, cls: type, what: str, example: str, of: str = "") -> None:
    if isinstance(given, type):
        raise ProgramError(
            f"{what} takes an instance, not the class {given.__name__}",
            hint=f"write {given.__name__}()",
        )
    article = "an" if cls.__name__[0] in "AE" else "a"
    if not isinstance(given, cls):
        raise ProgramError(
            f"{what}{of} takes {article} {cls.__name__}, not {shown(given)}",
            hint=f"derive your class from rh.{cls.__name__}, and pass an instance, such as {example}",
        )
    check_methods(given, cls, what.removesuffix("()"))
