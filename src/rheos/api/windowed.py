"""Windowed streams: what is computed once per key and window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from rheos.aggregates import Agg
from rheos.api.method_hints import OF_ANY, OF_OPERATORS, no_such_method
from rheos.api.program import Program
from rheos.api.streams import LATE, DataStream, operator_name
from rheos.api.typing_of_functions import input_record, output_type
from rheos.errors import ProgramError
from rheos.graph.functions import WindowFunction
from rheos.graph.nodes import MAIN, Input, StreamType, WindowSpec
from rheos.graph.validate import aggregate_fields, check_aggregates, check_columns, lateness_ms
from rheos.graph.windows import Window
from rheos.protocol.durations import Duration
from rheos.site import call_site, located

WINDOW_FIELDS = [
    pa.field("window_start", pa.timestamp("ms", tz="UTC")),
    pa.field("window_end", pa.timestamp("ms", tz="UTC")),
]
"""The columns that stand between the keys and the aggregates."""

_OF_RESULTS = dict.fromkeys(
    (*OF_ANY, *OF_OPERATORS, "reduce", "running", "side_output"),
    "say what is computed for each window first: .aggregate(hits=rh.agg.count()) or .process(...)",
)


class WindowedStream:
    """The windows of a keyed stream; made by `window`."""

    def __init__(self, program: Program, port: Input, window: Window, lateness_ms: int = 0) -> None:
        self._program = program
        self._port = port
        self._window = window
        self._lateness_ms = lateness_ms

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            no_such_method(self, "a windowed stream", name, _OF_RESULTS)

    def __repr__(self) -> str:
        return f"<windows {self._window!r} of a stream keyed by {', '.join(self._port.keys)}>"

    @property
    def _type(self) -> StreamType:
        return self._program.type_of(self._port)

    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
        """Keeps a window for so long after the watermark has passed its end: rows that come meanwhile
        make it give its result again. What comes later goes to the side output `"late"`.

        ```python
        events.key_by("user").window(rh.Tumbling("1m")).allowed_lateness("30s").aggregate(...)
        ```
        """
        with located(call_site(), "window"):
            return WindowedStream(self._program, self._port, self._window, lateness_ms(lateness))

    def aggregate(self, **aggregates: Agg) -> DataStream:
        """One row per key and window: the keys, `window_start`, `window_end`, and the aggregates.

        ```python
        windows.aggregate(hits=rh.agg.count(), visitors=rh.agg.count_distinct("user"))
        ```
        """
        name = f"window({self._window})"
        with located(call_site(), name):
            checked = check_aggregates(aggregates, ".aggregate(hits=rh.agg.count())")
            schema = self._type.schema
            keys = [schema.field(key) for key in self._port.keys]
            result = pa.schema([*keys, *WINDOW_FIELDS, *aggregate_fields(checked, schema)])
            check_columns(result)
            spec = WindowSpec(self._window, self._lateness_ms, checked)
            return self._then(spec, name, StreamType(result, event_time=True))

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
            if isinstance(fn, type):
                raise ProgramError(
                    f"process() takes an instance, not the class {fn.__name__}",
                    hint=f"write .process({fn.__name__}())",
                )
            if not isinstance(fn, WindowFunction):
                raise ProgramError(
                    f"process() of windows takes a WindowFunction, not {fn!r}",
                    hint="derive your class from rh.WindowFunction",
                )
            record = input_record(fn.process, self._type.schema, many=True)
            declared = output_type(fn.process, returns, method="process", many=True)
            spec = WindowSpec(self._window, self._lateness_ms, {}, fn, record)
            return self._then(spec, name, StreamType(declared.schema, True, declared.record))

    def _then(self, spec: WindowSpec, name: str, type: StreamType) -> DataStream:
        node = self._program.add(
            spec,
            name=name,
            site=call_site(),
            inputs=(self._port,),
            outputs={MAIN: type, LATE: self._type},
        )
        return DataStream(self._program, Input(node.id))
