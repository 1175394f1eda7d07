"""Keyed streams: what works per key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pyarrow as pa

from rheos.aggregates import Agg
from rheos.api.method_hints import OF_ANY, OF_OPERATORS, no_such_method
from rheos.api.program import Program
from rheos.api.streams import LATE, DataStream, operator_name
from rheos.api.typing_of_functions import (
    NOTHING,
    UNSAID,
    Declared,
    Signature,
    check_callable,
    declared_type,
    function_name,
    input_record,
    output_type,
    result_type,
)
from rheos.api.windowed import WindowedStream
from rheos.errors import ProgramError, SchemaError
from rheos.graph.functions import KeyedProcessFunction
from rheos.graph.nodes import MAIN, Input, ProcessSpec, ReduceSpec, RunningSpec, Spec, StreamType
from rheos.graph.state import StateDeclaration, declarations
from rheos.graph.validate import (
    aggregate_fields,
    check_aggregates,
    check_columns,
    check_event_time,
    check_running,
)
from rheos.graph.windows import Window
from rheos.operators.keyed import OWN_STATES
from rheos.operators.running import running_schema
from rheos.operators.window.kinds import windows_of
from rheos.site import call_site, located
from rheos.state.kinds import kind_of

_WITHOUT_KEYS = {
    **OF_OPERATORS,
    **{name: f"call .{name}(...) before key_by(), which is for what works per key" for name in OF_ANY},
    "aggregate": 'say over what: .window(rh.Tumbling("1m")).aggregate(...), or .running(...) for an '
    "answer per row",
}


class KeyedStream:
    """A stream whose rows are brought together by key; made by `key_by`."""

    def __init__(self, program: Program, port: Input) -> None:
        self._program = program
        self._port = port

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        return self._type.schema

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return self._port.keys

    @property
    def _type(self) -> StreamType:
        return self._program.type_of(self._port)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            no_such_method(self, "a keyed stream", name, _WITHOUT_KEYS)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self.schema)
        return f"<stream keyed by {', '.join(self.keys)}: {columns}>"

    def process(
        self,
        fn: KeyedProcessFunction,
        order: Literal["arrival", "event_time"] = "arrival",
        returns: Any = None,
    ) -> DataStream:
        """Calls a function with state and timers for each record of a key.

        With `order="event_time"` records are held until the watermark has passed them, and come sorted
        by their timestamps; those that come too late go to the side output `"late"`.

        ```python
        class Validate(rh.KeyedProcessFunction):
            state = rh.ValueState(int, default=0)

            def process_element(self, event: Event, ctx) -> Iterator[Alert]:
                ...

        events.key_by("user").process(Validate())
        ```
        """
        name = operator_name("process", fn)
        with located(call_site(), name):
            _check_instance(fn)
            if order not in ("arrival", "event_time"):
                raise ProgramError(
                    f"order={order!r} is not known", hint='write "arrival" or "event_time"'
                )
            if order == "event_time":
                self._go_by_event_time('order="event_time"')
            elif _expires_by_event_time(fn, self._type):
                self._go_by_event_time("a time to live")
            elif self._type.event_time and type(fn).on_timer is not KeyedProcessFunction.on_timer:
                self._go_by_event_time("a timer of event time")
            record = input_record(fn.process_element, self.schema)
            declared = _process_output(fn, returns)
            sides = {tag: declared_type(said) for tag, said in fn.side_outputs.items()}
            if LATE in sides and order == "event_time":
                raise ProgramError(
                    f"the side output {LATE!r} is taken by what comes too late",
                    hint="declare yours by another name",
                )
            if declared is NOTHING and not sides:
                raise SchemaError(
                    f"{function_name(fn)} says that it emits nothing: neither records nor side outputs",
                    hint="annotate process_element as `-> Iterator[Alert]`, or declare side_outputs",
                )
            outputs = {tag: self._like(side) for tag, side in sides.items()}
            if order == "event_time":
                outputs[LATE] = self._type
            spec = ProcessSpec(fn, order, record, {tag: side.schema for tag, side in sides.items()})
            return self._then(spec, name, {MAIN: self._like(declared), **outputs})

    def reduce(self, fn: Callable[[Any, Any], Any]) -> DataStream:
        """Combines the records of a key two by two; each record gives the combination so far.

        ```python
        def larger(a: Bid, b: Bid) -> Bid:
            return a if a.price >= b.price else b

        bids.key_by("item").reduce(larger)
        ```
        """
        name = operator_name("reduce", fn)
        with located(call_site(), name):
            check_callable(fn, "reduce")
            record = input_record(fn, self.schema)
            said = Signature(fn).result
            if said not in (UNSAID, Any, record):
                given = result_type(fn, said, method="reduce", many=False)
                if given.schema != self.schema:
                    raise SchemaError(
                        f"{function_name(fn)} makes another type of record than it combines",
                        hint="a reduce gives what it takes; use .process(...) for another type",
                    )
            return self._then(ReduceSpec(fn, record), name, {MAIN: self._type})

    def running(self, **aggregates: Agg) -> DataStream:
        """Adds to each row its key's aggregates so far: count, sum, min, max or mean.

        ```python
        sales.key_by("item").running(n=rh.agg.count(), total=rh.agg.sum("price"))
        ```
        """
        with located(call_site(), "running"):
            checked = check_aggregates(aggregates, '.running(total=rh.agg.sum("price"))')
            check_running(checked)
            aggregate_fields(checked, self.schema)
            schema = running_schema(self.schema, checked)
            check_columns(schema)
            type = replace(self._type, schema=schema, record=None)
            return self._then(RunningSpec(checked), "running", {MAIN: type})

    def window(self, window: Window) -> WindowedStream:
        """Cuts the time of each key into windows.

        ```python
        events.key_by("country").window(rh.Sliding("5m", every="1m")).aggregate(hits=rh.agg.count())
        ```
        """
        with located(call_site(), "window"):
            if not isinstance(window, Window):
                raise ProgramError(
                    f"window() takes a window, not {window!r}",
                    hint='write .window(rh.Tumbling("1m")), .window(rh.Sliding("1h", every="10m")) or '
                    '.window(rh.Session(gap="10m"))',
                )
            window.check()
            windows_of(window)
            self._go_by_event_time("a window")
            return WindowedStream(self._program, self._port, window)

    def _go_by_event_time(self, what: str) -> None:
        check_event_time(self._type, what)
        self._program.go_by_event_time(self._port)

    def _like(self, declared: Declared) -> StreamType:
        before = self._type
        return StreamType(
            declared.schema, before.event_time, declared.record, time_changed=before.time_changed
        )

    def _then(self, spec: Spec, name: str, outputs: dict[str, StreamType]) -> DataStream:
        node = self._program.add(
            spec, name=name, site=call_site(), inputs=(self._port,), outputs=outputs
        )
        return DataStream(self._program, Input(node.id))


def _check_instance(fn: Any) -> None:
    if isinstance(fn, type):
        raise ProgramError(
            f"process() takes an instance, not the class {fn.__name__}",
            hint=f"write .process({fn.__name__}())",
        )
    if getattr(fn, "__name__", "") == "process_element":
        owner = fn.__qualname__.rpartition(".")[0].rpartition(".")[2] or "MyFunction"
        raise ProgramError(
            f"process() takes an instance of {owner}, not its method", hint=f"write .process({owner}())"
        )
    if not isinstance(fn, KeyedProcessFunction):
        raise ProgramError(
            f"process() takes a KeyedProcessFunction, not {fn!r}",
            hint="derive your class from rh.KeyedProcessFunction; for a plain function use .map(...) "
            "or .flat_map(...) before key_by()",
        )
    if type(fn).process_element is KeyedProcessFunction.process_element:
        raise ProgramError(f"{type(fn).__name__} does not define process_element(self, record, ctx)")
    for name, value in vars(fn).items():
        if isinstance(value, StateDeclaration):
            raise ProgramError(
                f"state {name!r} of {type(fn).__name__} is declared on the instance, where it is none",
                site=value.site,
                hint=f"declare it as an attribute of the class, beside the methods: "
                f"{name} = rh.{type(value).__name__}(...)",
            )
    for name, declared in declarations(fn).items():
        kind_of(declared)
        if name in OWN_STATES:
            raise ProgramError(
                f"{type(fn).__name__} cannot have a state named {name!r}: the operator keeps its own "
                "under that name",
                hint="name the attribute otherwise",
            )


def _expires_by_event_time(fn: KeyedProcessFunction, type: StreamType) -> bool:
    """Raises ProgramError where the stream has no event time for it."""
    for name, declared in declarations(fn).items():
        if declared.ttl is not None and declared.ttl.time == "event_time":
            if type.event_time:
                return True
            raise ProgramError(
                f"state {name!r} has a time to live in event time, and this stream has none",
                hint=f"give the source a watermark, or let it go by the clock: "
                f'ttl=rh.TimeToLive({declared.ttl.duration!r}, time="processing_time")',
            )
    return False


def _process_output(fn: KeyedProcessFunction, returns: Any) -> Declared:
    """The type that `process_element` and `on_timer` say; both may emit, and of one type."""
    element = output_type(fn.process_element, returns, method="process", many=True)
    if returns is not None or type(fn).on_timer is KeyedProcessFunction.on_timer:
        return element
    said = Signature(fn.on_timer).result
    if said in (UNSAID, Any, None, type(None)):
        return element
    timer = result_type(fn.on_timer, said, method="process", many=True)
    if element is NOTHING:
        return timer
    if timer.schema != element.schema:
        raise SchemaError(
            f"process_element and on_timer of {type(fn).__name__} emit different types of records",
            hint="emit one type, and others to side outputs",
        )
    return element
