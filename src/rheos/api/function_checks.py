"""Checks of function objects (instances of classes that users derive from `rh` classes) and of their
output types.

They run while the program is built; the caller adds the user's line.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from rheos.api.function_typing import (
    NOTHING,
    UNSAID,
    DeclaredOutput,
    Signature,
    declared_type,
    output_type,
    result_type,
)
from rheos.core.callables import check_methods, function_name
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.batch_functions import KeyedBatchFunction
from rheos.core.graph.connected_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessFunction,
)
from rheos.core.graph.functions import KeyedProcessFunction
from rheos.core.graph.nodes import Late, Order, StreamType
from rheos.core.graph.state import (
    BroadcastState,
    StateDeclaration,
    UnkeyedStateDeclaration,
    ValueState,
    declarations,
    keyed_declarations,
    unkeyed_declarations,
)
from rheos.core.operators.keyed_core import OWN_STATES
from rheos.core.operators.rows_by_time import LateByPort
from rheos.core.safe_strings import shown
from rheos.core.state.kinds import kind_of
from rheos.core.state.kinds.value import check_default
from rheos.core.state.unkeyed_state import unkeyed_shapes

EMITTING = ("process_element", "on_timer")
"""Methods of a KeyedProcessFunction that emit records."""

_ELSEWHERE: Mapping[type, str] = {
    KeyedProcessFunction: "a keyed stream: .key_by(...).process(...)",
    ProcessFunction: "a stream without keys: stream.process(...)",
    CoMapFunction: "two streams: a.connect(b).map(...)",
    CoFlatMapFunction: "two streams: a.connect(b).flat_map(...)",
    CoProcessFunction: "two streams without keys: a.connect(b).process(...)",
    KeyedCoProcessFunction: "two keyed streams: "
    'a.key_by("user").connect(b.key_by("user")).process(...)',
    BroadcastProcessFunction: "a stream and a broadcast one: "
    "stream.connect(rules.broadcast()).process(...)",
    KeyedBroadcastProcessFunction: "a keyed stream and a broadcast one: "
    'stream.key_by("user").connect(rules.broadcast()).process(...)',
}
"""Methods that accept a function, by the class of the function."""


def check_function(
    fn: Any,
    base: type,
    methods: Sequence[str],
    method: str = "process",
    *,
    instead: str = "",
) -> None:
    """Check that an object is an instance of a class that derives from `base` and defines these
    methods.

    `instead` is the hint of the error for a plain function.
    """
    if isinstance(fn, type):
        raise ProgramError(
            f"{method}() takes an instance, not the class {fn.__name__}",
            hint=f"write .{method}({fn.__name__}())",
        )
    if getattr(fn, "__name__", "") in methods:
        owner = fn.__qualname__.rpartition(".")[0].rpartition(".")[2] or "MyFunction"
        raise ProgramError(
            f"{method}() takes an instance of {owner}, not its method",
            hint=f"write .{method}({owner}())",
        )
    if not isinstance(fn, base):
        hint = f"derive your class from rh.{base.__name__}" + instead
        for other, where in _ELSEWHERE.items():
            if isinstance(fn, other):
                hint = f"a {other.__name__} is for {where}; here derive from rh.{base.__name__}"
        raise ProgramError(f"{method}() takes a {base.__name__}, not {shown(fn)}", hint=hint)
    for name in methods:
        if getattr(type(fn), name) is getattr(base, name):
            arguments = ", ".join(inspect.signature(getattr(base, name)).parameters)
            close = get_close_matches(name, [each for each in dir(fn) if each not in dir(base)], 1)
            raise ProgramError(
                f"{type(fn).__name__} does not define {name}({arguments})",
                hint=f"rename its method {close[0]}" if close else f"add the method {name}",
            )
    check_methods(fn, base, method)
    _check_states(fn, base)


_KEYED = (
    KeyedProcessFunction,
    KeyedBatchFunction,
    KeyedCoProcessFunction,
    KeyedBroadcastProcessFunction,
)
_BROADCAST = (BroadcastProcessFunction, KeyedBroadcastProcessFunction)


def check_defaults(fn: Any) -> None:
    """Check that the defaults of declared state are of the declared types."""
    for declared in declarations(fn).values():
        if isinstance(declared, ValueState):
            check_default(declared)


def _check_states(fn: Any, base: type) -> None:
    check_defaults(fn)
    name_of_class = type(fn).__name__
    for name, value in vars(fn).items():
        if isinstance(value, StateDeclaration):
            raise ProgramError(
                f"state {name!r} of {name_of_class} is declared on the instance, which has no effect",
                site=value.site,
                hint=f"declare it as an attribute of the class, next to the methods: "
                f"{name} = rh.{type(value).__name__}(...)",
            )
    for name, declared in declarations(fn).items():
        if not isinstance(declared, UnkeyedStateDeclaration):
            kind_of(declared)
        if name in OWN_STATES:
            raise ProgramError(
                f"{name_of_class} cannot have a state named {name!r}: the operator uses that "
                "name itself",
                hint="rename the attribute",
            )
    if base not in _KEYED:
        for name, declared in keyed_declarations(fn).items():
            raise ProgramError(
                f"state {name!r} of {name_of_class} is keyed state, but a {base.__name__} has no key",
                site=declared.site,
                hint="call .key_by(...) first, and derive from the keyed class; or declare operator "
                "state: rh.OperatorListState(...)",
            )
    for name, declared in unkeyed_declarations(fn).items():
        of = f"{name} = rh.{type(declared).__name__}(...)"
        if isinstance(declared, BroadcastState) and base not in _BROADCAST:
            raise ProgramError(
                f"state {name!r} of {name_of_class} is broadcast state, but a {base.__name__} "
                "has no broadcast stream",
                site=declared.site,
                hint="connect one: stream.connect(rules.broadcast()).process(...), with an "
                "rh.BroadcastProcessFunction",
            )
        if not isinstance(declared, BroadcastState) and base in _KEYED:
            raise ProgramError(
                f"{of} of {name_of_class} is operator state, but a {base.__name__} is keyed",
                site=declared.site,
                hint="declare keyed state: rh.ValueState, rh.ListState or rh.MapState",
            )
    unkeyed_shapes(fn)


def check_outputs(
    fn: Any, declared: DeclaredOutput, sides: Mapping[str, DeclaredOutput], method: str
) -> None:
    """Check that the function has an output: the main one or a side output."""
    if declared is NOTHING and not sides:
        raise SchemaError(
            f"{function_name(fn)} declares that it emits nothing: neither records nor side outputs",
            hint=f"annotate {method} as `-> Iterator[Alert]`, or declare side_outputs",
        )


def check_order(fn: Any, order: str, late: Sequence[str]) -> None:
    """Check the order of a process function. `late` names the side outputs for late rows in event-time
    order."""
    if order not in get_args(Order):
        raise ProgramError(f"order={order!r} is not known", hint='write "arrival" or "event_time"')
    for tag in late:
        if order == "event_time" and tag in fn.side_outputs:
            raise ProgramError(
                f"the side output {tag!r} is reserved for late rows",
                hint="choose another name for yours",
            )


def check_late(order: str, late: Any, streams: int) -> LateByPort:
    """Return what happens to the late rows of each of `streams` streams. `late` has one value for all,
    or one for each."""
    by_port = late if isinstance(late, tuple) else (late,) * streams
    if len(by_port) != streams or any(each not in get_args(Late) for each in by_port):
        pair = '; or a pair, for the first and the second stream: ("side_output", "deliver")'
        raise ProgramError(
            f"late={late!r} is not known",
            hint=f'write "side_output" or "deliver"{pair if streams == 2 else ""}',
        )
    if "deliver" in by_port and order != "event_time":
        raise ProgramError(
            'late="deliver" needs order="event_time"',
            hint="leave out late=: in the order of arrival, every row is delivered, and ctx.is_late "
            'is true for late ones; or add order="event_time"',
        )
    return by_port


def late_outputs(
    order: str, late: LateByPort, tags: Sequence[str], types: Sequence[StreamType]
) -> dict[str, StreamType]:
    """Return the side outputs of late rows: of the streams whose late rows are not delivered."""
    if order != "event_time":
        return {}
    by_tag = zip(tags, types, late, strict=True)
    return {tag: type for tag, type, kept in by_tag if kept == "side_output"}


def side_types(fn: Any) -> dict[str, DeclaredOutput]:
    """Return the types of the declared side outputs. Raise SchemaError if one is not a row type."""
    return {tag: declared_type(annotation) for tag, annotation in fn.side_outputs.items()}


def emitted_type(
    fn: Any,
    base: type,
    methods: Sequence[str],
    returns: Any,
    *,
    method: str = "process",
    many: bool = True,
) -> DeclaredOutput:
    """Return the type of the records that these methods emit: `returns`, or else their annotations.

    Methods that the class does not define are ignored. A method without an annotation emits the type of
    the others.
    """
    if returns is not None:
        return output_type(getattr(fn, methods[0]), returns, method=method, many=many)
    found: DeclaredOutput | None = None
    of = ""
    for name in methods:
        call = getattr(fn, name)
        annotation = Signature(call).result
        if getattr(type(fn), name, None) is getattr(base, name, None) or annotation in (UNSAID, Any):
            continue
        declared = result_type(call, annotation, method=method, many=many)
        if found is None or found is NOTHING:
            found, of = declared, name
        elif declared is not NOTHING and declared.schema != found.schema:
            raise SchemaError(
                f"{of} and {name} of {type(fn).__name__} emit different types of records",
                hint="emit one type on the main output, and other types to side outputs",
            )
    if found is None:
        return output_type(getattr(fn, methods[0]), None, method=method, many=many)
    return found


def expires_by_event_time(fn: Any, type: StreamType) -> bool:
    """Return whether a state expires by event time. Raise ProgramError if the stream has no event time
    for it."""
    for name, declared in declarations(fn).items():
        if declared.ttl is not None and declared.ttl.time == "event_time":
            if type.event_time:
                return True
            raise ProgramError(
                f"state {name!r} has a time to live in event time, but this stream has no event time",
                hint=f"set watermark= on the source, or use processing time: "
                f'ttl=rh.TimeToLive({declared.ttl.duration!r}, time="processing_time")',
            )
    return False


def operator_name(kind: str, fn: Any) -> str:
    """Return the default name of an operator with a function: "map(parse)"."""
    name = function_name(fn)
    return kind if name == "<lambda>" else f"{kind}({name})"
