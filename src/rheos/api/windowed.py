"""Windowed streams: what is computed once per key and window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl
import pyarrow as pa

from rheos.api.expressions import check_gap
from rheos.api.function_of_windows import OfRow
from rheos.api.method_hints import OF_ANY, OF_OPERATORS, no_such_method
from rheos.api.program import Program
from rheos.api.streams import LATE, DataStream, operator_name
from rheos.api.typing_of_functions import (
    UNSAID,
    Declared,
    Signature,
    input_record,
    output_type,
    result_type,
)
from rheos.core.aggregates import Agg
from rheos.core.callables import check_callable, check_methods
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph import evictors, triggers
from rheos.core.graph.aggregate_functions import AggregateFunction, ReducingFunction
from rheos.core.graph.functions import WindowFunction
from rheos.core.graph.nodes import MAIN, Input, Spec, StreamType
from rheos.core.graph.state import Time
from rheos.core.graph.validate import (
    aggregate_fields,
    check_aggregates,
    check_columns,
    check_event_time,
    lateness_ms,
)
from rheos.core.graph.window_functions import Evictor, Trigger, WindowAssigner
from rheos.core.graph.windows import CountWindow, GlobalWindows, Session, Window
from rheos.core.operators.map import MapSpec
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.triggered.spec import TriggeredWindowSpec
from rheos.core.protocol.durations import Duration
from rheos.core.shown import shown
from rheos.core.site import call_site, located
from rheos.core.state.keys import windowed_codec

WINDOW_FIELDS = [
    pa.field("window_start", pa.timestamp("ms", tz="UTC")),
    pa.field("window_end", pa.timestamp("ms", tz="UTC")),
]
"""Columns between the keys and the aggregates."""

_OF_RESULTS = dict.fromkeys(
    (*OF_ANY, *OF_OPERATORS, "running", "side_output"),
    "say what is computed for each window first: .aggregate(hits=rh.agg.count()) or .process(...)",
)


@dataclass(frozen=True)
class WindowsOfKeys:
    """Configuration of windows, without the computation."""

    window: Window | WindowAssigner
    lateness_ms: int = 0
    trigger: Trigger | None = None
    evictor: Evictor | None = None

    @property
    def time(self) -> Time | None:
        """The clock that they end by; None where they do not end."""
        if isinstance(self.window, GlobalWindows | CountWindow):
            return None
        return self.window.time

    @property
    def merges(self) -> bool:
        window = self.window
        return window.merges if isinstance(window, WindowAssigner) else isinstance(window, Session)

    @property
    def in_columns(self) -> bool:
        """Whether it is by event time alone that they fire, so that they are computed in columns."""
        plain = self.trigger is None and self.evictor is None and self.time == "event_time"
        if isinstance(self.window, Session) and self.window.gap_of_rows is not None:
            return False
        return plain and not isinstance(self.window, WindowAssigner)

    @property
    def name(self) -> str:
        window = self.window
        return type(window).__name__ if isinstance(window, WindowAssigner) else str(window)

    def fired_by(self) -> tuple[Trigger, Evictor | None]:
        """The trigger and the evictor, said or not. Raises ProgramError where they do not fit."""
        trigger, evictor, window = self.trigger, self.evictor, self.window
        if isinstance(window, CountWindow):
            if trigger is not None or evictor is not None:
                raise ProgramError(
                    "windows of a count have their trigger, and what is dropped as they fire",
                    hint="say both for .window(rh.GlobalWindows())",
                )
            if window.size_rows == window.every_rows:
                return triggers.purging(triggers.count(window.size_rows)), None
            return triggers.count(window.every_rows), evictors.count(window.size_rows)
        if trigger is None and isinstance(window, WindowAssigner):
            trigger = window.default_trigger()
        if trigger is None:
            match self.time:
                case "event_time":
                    trigger = triggers.event_time()
                case "processing_time":
                    trigger = triggers.processing_time()
                case None:
                    raise ProgramError(
                        "global windows do not end: nothing would fire them",
                        hint="say what does: .window(rh.GlobalWindows())"
                        ".trigger(rh.triggers.count(100))",
                    )
        unmerging = trigger.unmerging() if self.merges else None
        if unmerging is not None:
            raise ProgramError(
                f"{type(unmerging).__name__} cannot merge, and {self.name} windows merge",
                hint="write its on_merge(ctx): the state of windows that become one is joined there "
                "(ctx.merged()), and timers of the new one are set",
            )
        return trigger, evictor


def windows_said(program: Program, port: Input, window: Any) -> WindowsOfKeys:
    """Check the argument of `window` for the stream at that port. Raises ProgramError, SchemaError."""
    if isinstance(window, type) and issubclass(window, Window | WindowAssigner):
        raise ProgramError(
            f"window() takes an instance, not the class {window.__name__}",
            hint=f"write .window({window.__name__}(...))",
        )
    if not isinstance(window, Window | WindowAssigner):
        raise ProgramError(
            f"window() takes a window, not {shown(window)}",
            hint='write .window(rh.Tumbling("1m")), .window(rh.Sliding("1h", every="10m")) or '
            '.window(rh.Session(gap="10m"))',
        )
    windows = WindowsOfKeys(window)
    if isinstance(window, WindowAssigner):
        check_methods(window, WindowAssigner, "window")
    if isinstance(window, Window):
        window.check()
        if isinstance(window, Session) and window.gap_of_rows is not None:
            check_gap(window.gap_of_rows, program.type_of(port).schema)
        elif windows.time is not None:
            windows_of(window)
    if windows.time == "event_time":
        check_event_time(program.type_of(port), "a window")
        program.go_by_event_time(port)
    return windows


class WindowedStream:
    """The windows of a keyed stream; made by `window`."""

    def __init__(self, program: Program, port: Input, windows: WindowsOfKeys) -> None:
        self._program = program
        self._port = port
        self._windows = windows

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            no_such_method(self, "a windowed stream", name, _OF_RESULTS)

    def __repr__(self) -> str:
        return f"<windows {self._windows.window!r} of a stream keyed by {', '.join(self._port.keys)}>"

    @property
    def _type(self) -> StreamType:
        return self._program.type_of(self._port)

    @property
    def _shown(self) -> pa.Schema:
        """The columns of the rows as the program knows them."""
        return self._type.schema

    # --- which windows, and when ------------------------------------------------------------------

    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
        """Keep a window for this long after the watermark has passed its end: rows that arrive in this
        time make it emit its result again. Later rows go to the side output `"late"`.

        ```python
        events.key_by("user").window(rh.Tumbling("1m")).allowed_lateness("30s").aggregate(...)
        ```
        """
        with located(call_site(), "window"):
            if self._windows.time != "event_time":
                raise ProgramError(
                    f"no row is late for {self._windows.name} windows: they do not end by event time"
                )
            return self._with(lateness_ms=lateness_ms(lateness))

    def trigger(self, trigger: Trigger) -> WindowedStream:
        """Says when windows give their results, in the place of the end of each.

        ```python
        clicks.key_by("page").window(rh.Tumbling("1h")).trigger(rh.triggers.count(100))
        ```
        """
        with located(call_site(), "window"):
            _check_instance(trigger, Trigger, "trigger", "rh.triggers.count(100)")
            return self._with(trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedStream:
        """Drops records of a window as it fires. All its records are kept until then.

        ```python
        quotes.key_by("item").window(rh.Tumbling("1h")).evictor(rh.evictors.count(10))
        ```
        """
        with located(call_site(), "window"):
            _check_instance(evictor, Evictor, "evictor", "rh.evictors.count(10)")
            return self._with(evictor=evictor)

    def _with(self, **changes: Any) -> WindowedStream:
        return type(self)(self._program, self._port, replace(self._windows, **changes))

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
        """One row per key and window: the keys, `window_start`, `window_end`, and the aggregates: built
        in, or Polars expressions that reduce, over the window's rows in the order of event time. Or
        what an AggregateFunction gives.

        With `process` that row is given to a WindowFunction, as the only one of its list, with key and
        window; what that gives is the result.

        ```python
        windows.aggregate(hits=rh.agg.count(), p95=rh.col("ms").quantile(0.95))
        windows.aggregate(Spread(), process=WithTheWindow())
        ```
        """
        # The two names are those of aggregates, where that is what they are.
        said = {"process": process, "returns": returns}
        aggregates |= {name: of for name, of in said.items() if isinstance(of, Agg | pl.Expr)}
        process, returns = (None if name in aggregates else of for name, of in said.items())
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
            keys = [schema.field(key) for key in self._port.keys]
            bounds = WINDOW_FIELDS if windows.time is not None else []
            result = pa.schema([*keys, *bounds, *aggregate_fields(checked, schema)])
            check_columns(result)
            if windows.in_columns:
                assert isinstance(windows.window, Window)
                spec: Spec = WindowSpec(windows.window, windows.lateness_ms, checked)
            else:
                record = self._record_of_trigger()
                used = {column for agg in checked.values() for column in agg.columns}
                self._check_has(record, {*self._port.keys, *used} & set(schema.names))
                spec = self._triggered(record, aggregates=checked)
            return self._then(spec, name, Declared(result, None))

    def _aggregated_by(
        self,
        function: AggregateFunction[Any],
        aggregates: Mapping[str, Agg | pl.Expr],
        process: WindowFunction | None,
        returns: Any,
    ) -> DataStream:
        name = operator_name("window", process or function)
        with located(call_site(), name):
            _check_instance(function, AggregateFunction, "aggregate()", "Spread()")
            if aggregates:
                raise ProgramError(
                    "aggregate() takes an AggregateFunction or built-in aggregates, and not both"
                )
            kept = Signature(function.create_accumulator).result
            if kept in (UNSAID, Any):
                raise SchemaError(
                    f"{type(function).__name__} does not say the type of its accumulator, which is "
                    "what is stored",
                    hint="annotate create_accumulator: `def create_accumulator(self) -> Totals`",
                )
            merge = type(function).merge
            if self._windows.merges and merge is AggregateFunction.merge:
                raise ProgramError(
                    f"{type(function).__name__} has no merge(), which {self._windows.name} windows "
                    f"need",
                    hint="define merge(a, b), which returns one accumulator for two",
                )
            record = self._one_record(input_record(function.add, self._type.schema))
            if process is not None:
                declared = output_type(process.process, returns, method="process", many=True)
            elif returns is not None:
                declared = output_type(function.get_result, returns, method="aggregate", many=False)
            else:
                said = Signature(function.get_result).result
                declared = result_type(function.get_result, said, method="aggregate", many=False)
            spec = self._triggered(record, combine=function, kept=kept, fn=process)
            return self._then(spec, name, declared)

    def reduce(
        self,
        fn: Callable[[Any, Any], Any],
        *,
        process: WindowFunction | None = None,
        returns: Any = None,
    ) -> DataStream:
        """Combines the records of a key and window two by two into one of their type. With `process`
        that one is given to a WindowFunction, as the only one of its list.

        ```python
        bids.key_by("item").window(rh.Tumbling("1h")).reduce(larger)
        ```
        """
        name = operator_name("window", fn)
        with located(call_site(), name):
            check_callable(fn, "reduce", ["a record", "another"])
            record = self._one_record(input_record(fn, self._type.schema))
            if process is None:
                declared = Declared(self._shown, self._type.record)
            else:
                _check_instance(process, WindowFunction, "process()", "TopTen()")
                declared = output_type(process.process, returns, method="process", many=True)
            kept = object if record is None else record
            spec = self._triggered(record, combine=ReducingFunction(fn), kept=kept, fn=process)
            return self._then(spec, name, declared)

    def process(self, fn: WindowFunction, returns: Any = None) -> DataStream:
        """Calls the function once per key and window, with all its records, sorted by event time.

        ```python
        class TopTen(rh.WindowFunction):
            def process(self, records: list[Sale], ctx) -> Iterator[Best]:
                for sale in sorted(records, key=lambda sale: -sale.price)[:10]:
                    yield Best(ctx.key, ctx.window.end_ms, sale.item)

        sales.key_by("shop").window(rh.Tumbling("1d")).process(TopTen())
        ```
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
            return self._then(spec, name, declared)

    # --- nodes ------------------------------------------------------------------------------------

    def _triggered(self, record: type | None, **computed: Any) -> TriggeredWindowSpec:
        windows = self._windows
        trigger, evictor = windows.fired_by()
        windowed_codec(self._type.schema, self._port.keys)
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
        """Records as function and trigger take them: both are given the same."""
        of_trigger = self._record_of_trigger()
        if record is not None and of_trigger is not None and record is not of_trigger:
            raise SchemaError(
                f"the trigger takes {of_trigger.__name__}, and the function {record.__name__}",
                hint="annotate both with one dataclass, or leave that of the trigger out",
            )
        return record or of_trigger

    def _check_has(self, record: type | None, columns: set[str]) -> None:
        if record is None:
            return
        missing = sorted(columns - set(getattr(record, "__dataclass_fields__", ())))
        if missing:
            raise SchemaError(
                f"the trigger takes {record.__name__}, which lacks the column {missing[0]!r} that the "
                "aggregates are computed of",
                hint="add the field, or leave the trigger's record without annotation",
            )

    def _then(self, spec: Spec, name: str, declared: Declared) -> DataStream:
        # Results of windows that end by the clock have no time of an event.
        timed = self._windows.time == "event_time" or (
            self._windows.time is None and self._type.event_time
        )
        outputs = {MAIN: StreamType(declared.schema, timed, declared.record)}
        if self._windows.time == "event_time":
            outputs[LATE] = self._type
        node = self._program.add(
            spec, name=name, site=call_site(), inputs=(self._port,), outputs=outputs
        )
        return DataStream(self._program, Input(node.id))

    def _processed(self, rows: DataStream, fn: WindowFunction, returns: Any) -> DataStream:
        """The rows of aggregates, given to a function with key and window."""
        name = operator_name("process", fn)
        with located(call_site(), name):
            record = input_record(fn.process, rows.schema, many=True)
            declared = output_type(fn.process, returns, method="process", many=True)
            of_row = OfRow(fn, self._port.keys)
            type = StreamType(declared.schema, rows._type.event_time, declared.record)
            node = self._program.add(
                MapSpec(of_row, True, record),
                name=name,
                site=call_site(),
                inputs=(rows._port,),
                outputs={MAIN: type},
            )
            return ProcessedWindows(self._program, Input(node.id), rows)


class ProcessedWindows(DataStream):
    """Output of a function of windows. Names and side outputs are those of the windows."""

    def __init__(self, program: Program, port: Input, windows: DataStream) -> None:
        super().__init__(program, port)
        self._windows = windows

    def side_output(self, tag: str) -> DataStream:
        return self._windows.side_output(tag)

    def uid(self, uid: str) -> DataStream:
        self._windows.uid(uid)
        return self


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
