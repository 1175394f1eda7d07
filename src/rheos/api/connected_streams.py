"""Connected streams: two streams with different rows that are the inputs of one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rheos.api.column_hints import WithColumns
from rheos.api.compiled_checks import automatic_form, emitted_types
from rheos.api.function_checks import (
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
from rheos.api.function_typing import DeclaredOutput, input_record, output_type
from rheos.api.method_hints import OF_ANY, OF_KEYED
from rheos.api.stream_base import Stream
from rheos.api.transformations import Transformation
from rheos.core.callables import check_callable, function_name
from rheos.core.compiler.eligibility import Automatic
from rheos.core.compiler.forms import KEYED_CO
from rheos.core.compiler.kernel import InputType, Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.connected_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from rheos.core.graph.functions import defines
from rheos.core.graph.nodes import MAIN, Late, Order, StreamType
from rheos.core.graph.row_distribution import RowDistribution
from rheos.core.graph.types import describe
from rheos.core.graph.validate import check_inputs
from rheos.core.operators.automatic_rows import element_typing
from rheos.core.operators.broadcast_process import METHODS as OF_BROADCAST
from rheos.core.operators.broadcast_process import BroadcastProcessSpec
from rheos.core.operators.co_process import CoProcessSpec, Records, TwoFunctions
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.keyed_broadcast_process import KeyedBroadcastProcessSpec
from rheos.core.operators.keyed_co_process import KeyedCoProcessSpec
from rheos.core.operators.late_rows import LATE_OF_TWO
from rheos.core.operators.unkeyed_function import Form
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    from rheos.api.streams import DataStream


_ELEMENTS = ("process_element1", "process_element2")
_MAPS = ("map1", "map2")
_FLAT_MAPS = ("flat_map1", "flat_map2")


class _Pair(WithColumns):
    """Two inputs of one operator."""

    def __init__(self, first: Transformation, second: Transformation) -> None:
        self._inputs = (first, second)
        self._ports = (first.port, second.port)
        self._types = (first.type, second.type)

    _kind = "a pair of connected streams"
    _sections = ("connected", "keyed", "stream")
    _by_name = 'stream.select("{}")'
    _elsewhere = {
        name: f"call .{name}(...) on each stream before connect(), or on the result; connected streams "
        "have process(), and, if they are not keyed, map() and flat_map()"
        for name in (*OF_ANY, *OF_KEYED)
    }

    def _column_names(self) -> list[str]:
        return [name for type in self._types for name in type.schema.names]

    def __repr__(self) -> str:
        columns = " and ".join(describe(type.schema) for type in self._types)
        return f"<connected streams: {columns}>"

    def _records(self, fn: Any, methods: Sequence[str]) -> Records:
        first, second = (
            input_record(getattr(fn, name), type.schema)
            for name, type in zip(methods, self._types, strict=True)
        )
        return first, second

    def _like(self, declared: DeclaredOutput) -> StreamType:
        """Return the output type. It has event time if all inputs that are not broadcast have it."""
        rows = [
            type
            for type, port in zip(self._types, self._ports, strict=True)
            if not port.broadcast or type.event_time
        ]
        changed = (type.time_changed for type in rows)
        return StreamType(
            declared.schema,
            self._types[0].event_time,
            declared.record,
            time_changed=next((where for where in changed if where is not None), None),
        )

    def _go_by_event_time(self, what: str) -> None:
        for input in self._inputs:
            if not input.port.broadcast or input.type.event_time:
                input.go_by_event_time(what)

    def _checked(self, fn: Any, base: type, methods: Sequence[str], returns: Any) -> _Emits:
        """Check a function object whose methods receive a context, and return its output types."""
        check_function(fn, base, methods)
        emitting = [*methods, "on_timer"] if hasattr(base, "on_timer") else methods
        declared = emitted_type(fn, base, emitting, returns)
        sides = side_types(fn)
        check_outputs(fn, declared, sides, methods[0])
        return _Emits(declared, sides)

    def _goes_in_order(self, order: Order) -> None:
        """Record that both streams use event time, if their rows are in the order of event time."""
        if order == "event_time":
            for input in self._inputs:
                input.go_by_event_time('order="event_time"')

    def _exchange_first(self) -> None:
        """Send the first stream through an exchange between all subtasks, so that all receive the same
        watermarks. After a rescale, rows of one subtask then meet the rules that another one knows."""
        first, second = self._inputs
        if first.port.distribution in (None, RowDistribution.FORWARD, RowDistribution.RESCALE):
            port = replace(first.port, distribution=RowDistribution.REBALANCE)
            self._inputs = (replace(first, port=port), second)

    def _goes_by_time(self, fn: Any, base: Any) -> None:
        """Record that a keyed function uses event time, if it has timers or state that expires by event
        time."""
        if expires_by_event_time(fn, self._types[0]):
            self._go_by_event_time("a time to live")
        elif self._types[0].event_time and defines(fn, "on_timer"):
            self._go_by_event_time("a timer of event time")

    def _add_operator(
        self,
        spec: OperatorSpec,
        name: str,
        outputs: _Emits,
        more: Mapping[str, StreamType] = MappingProxyType({}),
    ) -> DataStream:
        first, second = self._inputs
        made = {
            MAIN: self._like(outputs.main),
            **{tag: self._like(side) for tag, side in outputs.sides.items()},
            **more,
        }
        return first.add(spec, name, made, second).stream


class _Emits:
    """Output types of a function: the main output and the side outputs."""

    def __init__(self, main: DeclaredOutput, sides: Mapping[str, DeclaredOutput] | None = None) -> None:
        self.main = main
        self.sides = sides or {}

    def types(self) -> dict[str, EmittedType | None]:
        """Return the types by tag."""
        return emitted_types(self.main, self.sides)


class ConnectedStreams(_Pair):
    """Two streams without keys that are the inputs of one function; created by `connect`. The second
    may be broadcast."""

    def map(
        self, first: Callable[[Any], Any] | CoMapFunction, second: Any = None, returns: Any = None
    ) -> DataStream:
        """Make one record of each record of both streams.

        ```python
        clicks.connect(views).map(of_click, of_view)
        ```

        Args:
            first: A function of a record of the first stream, or a CoMapFunction for both streams.
            second: A function of a record of the second stream; None with a CoMapFunction. Both
                functions return records of one type.
            returns: The type of the results, if annotations do not declare it.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: A function does not fit, or the second stream is broadcast.
            SchemaError: The type of the results is not declared, or differs between the two.
        """
        with located(call_site(), "map"):
            self._not_broadcast("map")
            if isinstance(first, CoMapFunction) or _is_class(first, CoMapFunction):
                return self._by_object(first, second, CoMapFunction, _MAPS, "map", returns)
            return self._by_functions(first, second, "map", returns)

    def flat_map(
        self, first: Callable[[Any], Any] | CoFlatMapFunction, second: Any = None, returns: Any = None
    ) -> DataStream:
        """Make any number of records of each record of both streams.

        ```python
        clicks.connect(views).flat_map(words_of_click, words_of_view)
        ```

        Args:
            first: A function that yields or returns records for one of the first stream, or a
                CoFlatMapFunction for both streams.
            second: The same for the second stream; None with a CoFlatMapFunction.
            returns: The type of a result, if annotations do not declare it.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: A function does not fit, or the second stream is broadcast.
            SchemaError: The type of the results is not declared, or differs between the two.
        """
        with located(call_site(), "flat_map"):
            self._not_broadcast("flat_map")
            if isinstance(first, CoFlatMapFunction) or _is_class(first, CoFlatMapFunction):
                base = CoFlatMapFunction
                return self._by_object(first, second, base, _FLAT_MAPS, "flat_map", returns)
            return self._by_functions(first, second, "flat_map", returns)

    def _not_broadcast(self, method: str) -> None:
        if self._ports[1].broadcast:
            raise ProgramError(
                f"{method}() is not available with a broadcast stream",
                hint="write .process(...), with an rh.BroadcastProcessFunction; to key the stream, "
                "call key_by first: "
                "stream.key_by(...).connect(rules.broadcast())",
            )

    def _by_functions(self, first: Any, second: Any, form: Form, returns: Any) -> DataStream:
        name = f"{form}({function_name(first)}, {function_name(second)})"
        if second is None:
            raise ProgramError(
                f"{form}() of two streams takes two functions",
                hint=f"write .{form}(of_first, of_second)",
            )
        many = form == "flat_map"
        found: list[DeclaredOutput] = []
        for fn in (first, second):
            check_callable(fn, form, ["a record"], yields=many)
            found.append(output_type(fn, returns, method=form, many=many))
        if found[0].schema != found[1].schema:
            raise SchemaError(
                f"{function_name(first)} and {function_name(second)} return different types of "
                f"records: {describe(found[0].schema)}, and {describe(found[1].schema)}",
                hint="return records of one type; or keep the streams separate, and call .map(...) "
                "on each",
            )
        both, methods = TwoFunctions(first, second), ("first", "second")
        spec = CoProcessSpec(both, methods, form, self._records(both, methods))
        record = found[0].record if found[0].record is found[1].record else None
        return self._add_operator(spec, name, _Emits(DeclaredOutput(found[0].schema, record)))

    def _by_object(
        self, fn: Any, second: Any, base: type, methods: tuple[str, str], form: Form, returns: Any
    ) -> DataStream:
        check_function(fn, base, methods, form)
        if second is not None:
            raise ProgramError(
                f"{form}() takes one {base.__name__}, or two plain functions",
                hint=f"write .{form}({type(fn).__name__}())",
            )
        declared = emitted_type(fn, base, methods, returns, method=form, many=form == "flat_map")
        spec = CoProcessSpec(fn, methods, form, self._records(fn, methods))
        return self._add_operator(spec, operator_name(form, fn), _Emits(declared))

    def process(
        self,
        fn: CoProcessFunction | BroadcastProcessFunction,
        returns: Any = None,
        *,
        order: Order = "arrival",
        late: Late | tuple[Late, Late] = "side_output",
    ) -> DataStream:
        """Call a function for each record of both streams, with side outputs and operator state.

        ```python
        class Both(rh.CoProcessFunction):
            def process_element1(self, click: Click, ctx) -> Iterator[Event]: ...
            def process_element2(self, view: View, ctx) -> Iterator[Event]: ...

        clicks.connect(views).process(Both())
        ```

        Args:
            fn: The function; with a broadcast stream, a BroadcastProcessFunction.
            returns: The type of the results, if annotations do not declare it.
            order: "arrival"; or, with a broadcast stream, "event_time": records of both streams are
                buffered until the watermark has passed them. A record meets the broadcast records at or
                before its own time, and no later ones.
            late: What happens to late records in the order of event time, for both streams or a pair
                with one value for each. "side_output": they go to the side outputs `"late_left"` and
                `"late_right"`. "deliver": the function receives them, after all records up to the
                watermark that made them late; `ctx.is_late` is true.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` is not an instance of the class or lacks a method, or `order` or `late`
                does not fit.
            SchemaError: The type of the results is not declared.
        """
        name = operator_name("process", fn)
        with located(call_site(), name):
            check_order(fn, order, LATE_OF_TWO)
            late_of = check_late(order, late, 2)
            outputs = late_outputs(order, late_of, LATE_OF_TWO, self._types)
            if self._ports[1].broadcast:
                emits = self._checked(fn, BroadcastProcessFunction, OF_BROADCAST, returns)
                self._goes_in_order(order)
                if order == "event_time":
                    self._exchange_first()
                records, sides = self._records(fn, OF_BROADCAST), tuple(emits.sides)
                program, type = self._inputs[0].program, self._types[0]
                typing = element_typing(
                    type.schema, records[0], emits.types(), event_time=type.event_time
                )
                automatic = automatic_form(program, fn, typing)
                broadcast = BroadcastProcessSpec(fn, records, sides, order, late_of, automatic)
                return self._add_operator(broadcast, name, emits, outputs)
            if order != "arrival":
                raise ProgramError(
                    f"order={order!r} needs a key or a broadcast stream",
                    hint="call .key_by(...) on both streams, or .broadcast() on the second",
                )
            emits = self._checked(fn, CoProcessFunction, _ELEMENTS, returns)
            records, sides = self._records(fn, _ELEMENTS), tuple(emits.sides)
            return self._add_operator(
                CoProcessSpec(fn, _ELEMENTS, "process", records, sides), name, emits
            )

    def key_by(self, first: str | Sequence[str], second: str | Sequence[str]) -> KeyedConnectedStreams:
        """Partition both streams by key, as connecting two keyed streams does.

        ```python
        orders.connect(payments).key_by("id", "order_id").process(Match())
        ```

        Args:
            first: The key column of the first stream, or a list of columns.
            second: The key column or columns of the second stream, of the same types.

        Returns:
            The streams, connected by key.

        Raises:
            ProgramError: The second stream is broadcast.
            SchemaError: A column does not exist or cannot be a key, or the types differ.
        """
        with located(call_site(), "key_by"):
            self._not_broadcast("key_by")
        keyed = [
            input.stream.key_by(*([names] if isinstance(names, str) else names))
            for input, names in zip(self._inputs, (first, second), strict=True)
        ]
        with located(call_site(), "key_by"):
            return connect_keyed(keyed[0], keyed[1])


class KeyedConnectedStreams(_Pair):
    """A keyed stream, connected with one that is keyed by the same types or broadcast; created by
    `connect`."""

    def process(
        self,
        fn: KeyedCoProcessFunction | KeyedBroadcastProcessFunction,
        returns: Any = None,
        *,
        order: Order = "arrival",
        late: Late | tuple[Late, Late] = "side_output",
    ) -> DataStream:
        """Call a function for each record of both streams, with the state and timers of its key.

        ```python
        class Match(rh.KeyedCoProcessFunction):
            order = rh.ValueState(Order)

            def process_element1(self, order: Order, ctx) -> None: ...
            def process_element2(self, payment: Payment, ctx) -> Iterator[Paid]: ...
            def on_timer(self, timestamp: int, ctx) -> Iterator[Paid]: ...

        orders.key_by("id").connect(payments.key_by("order_id")).process(Match())
        ```

        If the second stream is broadcast, its records are processed in every subtask, without a key.

        ```python
        class Alarms(rh.KeyedBroadcastProcessFunction):
            rules = rh.BroadcastState(str, Rule)

            def process_element(self, event: Event, ctx) -> Iterator[Alarm]: ...
            def process_broadcast_element(self, rule: Rule, ctx) -> None:
                self.rules[rule.name] = rule

        events.key_by("user").connect(rules.broadcast()).process(Alarms())
        ```

        Args:
            fn: The function; with a broadcast stream, a KeyedBroadcastProcessFunction.
            returns: The type of the results, if annotations do not declare it.
            order: "arrival", or "event_time": records of both streams are buffered until the watermark
                has passed them, and processed in the order of their times, at one time those of the
                first stream first. Records of a broadcast stream precede others of their time, so a
                record meets the broadcast records at or before its own time, and no later ones.
            late: What happens to late records in the order of event time, for both streams or a pair
                with one value for each. "side_output": they go to the side outputs `"late_left"` and
                `"late_right"`. "deliver": the function receives them, after all records up to the
                watermark that made them late; `ctx.is_late` is true.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `fn` is not an instance of the class or lacks a method, or `order` or `late`
                does not fit.
            SchemaError: The type of the results is not declared.
        """
        name = operator_name("process", fn)
        with located(call_site(), name):
            broadcast = self._ports[1].broadcast
            base: Any = KeyedBroadcastProcessFunction if broadcast else KeyedCoProcessFunction
            methods = OF_BROADCAST if broadcast else _ELEMENTS
            check_order(fn, order, LATE_OF_TWO)
            late_of = check_late(order, late, 2)
            emits = self._checked(fn, base, methods, returns)
            self._goes_in_order(order)
            if order == "arrival":
                self._goes_by_time(fn, base)
            records, sides = self._records(fn, methods), tuple(emits.sides)
            spec: OperatorSpec
            if broadcast:
                spec = KeyedBroadcastProcessSpec(fn, records, sides, order, late_of)
            else:
                automatic = self._automatic_form(fn, records, emits)
                spec = KeyedCoProcessSpec(fn, records, sides, order, late_of, automatic)
            outputs = late_outputs(order, late_of, LATE_OF_TWO, self._types)
            return self._add_operator(spec, name, emits, outputs)

    def _automatic_form(self, fn: Any, records: Records, emits: _Emits) -> Automatic:
        first, second = (
            InputType(type.schema, port.keys, record)
            for type, port, record in zip(self._types, self._ports, records, strict=True)
        )
        typing = Typing(
            first.schema,
            first.keys,
            first.record,
            self._types[0].event_time,
            emits.types(),
            KEYED_CO,
            second=second,
        )
        return automatic_form(self._inputs[0].program, fn, typing)


# --- connecting ---------------------------------------------------------------------------------------


def connect_streams(first: Stream, second: Any) -> ConnectedStreams:
    """Connect a stream without keys to another one, which may be broadcast."""
    unkeyed = isinstance(second, Stream) and not second.transformation.port.keys
    _check(first, second, unkeyed, "a stream: a.connect(b), or a.connect(b.broadcast())")
    if first.transformation.port.broadcast:
        raise ProgramError(
            "the broadcast stream must be the argument of connect(), not the stream it is called on",
            hint="write stream.connect(rules.broadcast()).process(...)",
        )
    if not second.transformation.port.broadcast:
        _check_times(first.transformation.type, second.transformation.type)
    return ConnectedStreams(first.transformation, second.transformation)


def connect_keyed(first: Stream, second: Any) -> KeyedConnectedStreams:
    """Connect a keyed stream to another keyed one, or to a broadcast one."""
    port = second.transformation.port if isinstance(second, Stream) else None
    how = "a keyed stream: a.key_by(...).connect(b.key_by(...)); or a broadcast one: b.broadcast()"
    _check(first, second, port is not None and bool(port.keys or port.broadcast), how)
    connected = KeyedConnectedStreams(first.transformation, second.transformation)
    if not second.transformation.port.broadcast:
        _check_times(*connected._types)
    check_inputs(connected._ports, connected._types)
    return connected


def _check(first: Stream, second: Any, fits: bool, how: str) -> None:
    if not fits:
        raise ProgramError(f"connect() cannot take {second!r} here", hint=f"connect {how}")
    if second.transformation.program is not first.transformation.program:
        raise ProgramError("connect() takes streams of one environment")


def _check_times(first: StreamType, second: StreamType) -> None:
    if first.event_time != second.event_time:
        bare, timed = ("first", "second") if second.event_time else ("second", "first")
        raise ProgramError(
            f"the {timed} stream has event time, but the {bare} does not",
            hint=f"set watermark= on the source of the {bare}, too",
        )


def _is_class(fn: Any, base: type) -> bool:
    return isinstance(fn, type) and issubclass(fn, base)
