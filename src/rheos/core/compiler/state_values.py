"""Writes accesses to states of single values: reads, assignments and `clear`, with their expiry."""

from __future__ import annotations

from typing import Any

from rheos.core.compiler.values import KINDS, PYTHON_NAMES, CannotCompile, Kind, Value
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.graph.state import TimeToLive, ValueState


def read_state(out: Writer, declared: ValueState[Any]) -> Value:
    """Write the access to a state's value, and return the value."""
    values, present, _ = _arrays(out, declared)
    if declared.ttl is not None:
        _expire(out, declared, declared.ttl)
    null = out.held(f"not {present}[slot]") if declared.default is None else ""
    return Value(KINDS[declared.type], out.held(f"{values}[slot]"), null)


def write_state(out: Writer, declared: ValueState[Any], value: Value, line: int) -> None:
    """Write the assignment of a value to a state. Raise CannotCompile if it has another type."""
    kind = KINDS[declared.type]
    name = declared.name
    if value.kind == "none" and declared.default is None:
        clear_state(out, declared)
        return
    code = _converted(kind, value, f"state {name!r} is declared as", line)
    values, present, changed = _arrays(out, declared)
    if value.null and declared.default is None:
        with out.block(f"if {value.null}:"):
            clear_state(out, declared)
        head = "else:"
    else:
        head = "if True:"
        what = f"state {name!r} is declared as {PYTHON_NAMES[kind]}, but was assigned None"
        out.require_value(value, line, what)
    with out.block(head):
        out.write(f"{values}[slot] = {code}")
        out.write(f"{present}[slot] = True")
        out.write(f"{changed}[slot] = True")
        if declared.ttl is not None:
            _renew(out, declared, declared.ttl)


def element_code(out: Writer, kind: Kind, value: Value, what: str, line: int) -> str:
    """Return the code of a value that is added to a collection. Write code that fails the row if the
    value is None. Raise CannotCompile if it has another type. `what` begins the message."""
    code = _converted(kind, value, what, line)
    out.require_value(value, line, f"{what} {PYTHON_NAMES[kind]}, but was given None")
    return code


def _converted(kind: Kind, value: Value, what: str, line: int) -> str:
    """Return the code of a value as state of this kind stores it."""
    if value.kind == kind:
        return value.code
    converted = {("bool", "int"): "int64", ("int", "float"): "float", ("bool", "float"): "float"}
    if (value.kind, kind) not in converted:
        raise CannotCompile(f"{what} {PYTHON_NAMES[kind]}, but is assigned {value.shown}", line)
    return f"{converted[value.kind, kind]}({value.code})"


def clear_state(out: Writer, declared: ValueState[Any]) -> None:
    """Write code that removes the value of a state."""
    values, present, changed = _arrays(out, declared)
    default = declared.type() if declared.default is None else declared.default
    code = str(out.texts.code(default)) if isinstance(default, str) else f"({default!r})"
    with out.block(f"if {present}[slot]:"):
        out.write(f"{values}[slot] = {code}")
        out.write(f"{present}[slot] = False")
        out.write(f"{changed}[slot] = True")


def _arrays(out: Writer, declared: ValueState[Any]) -> tuple[str, str, str]:
    name, kind = declared.name, KINDS[declared.type]
    return (
        out.parameter(f"s_{name}", Parameter("state", name, kind)),
        out.parameter(f"p_{name}", Parameter("present", name, "bool")),
        out.parameter(f"h_{name}", Parameter("changed", name, "bool")),
    )


def _stamps(out: Writer, declared: ValueState[Any]) -> str:
    """Return the array with the times of the last updates of a state that expires."""
    return out.parameter(f"e_{declared.name}", Parameter("stamps", declared.name, "int"))


def call_time(out: Writer, ttl: TimeToLive) -> str:
    """Return the time of the call, by the clock of the time to live."""
    if ttl.time == "processing_time":
        return "now"
    return f"{out.parameter('times', Parameter('times', '', 'int'))}[i]"


def _expire(out: Writer, declared: ValueState[Any], ttl: TimeToLive) -> None:
    """Write code that clears the state if it has expired, and renews it if a read does that."""
    present, stamps = _arrays(out, declared)[1], _stamps(out, declared)
    now = call_time(out, ttl)
    with out.block(f"if {present}[slot] and {stamps}[slot] <= {now} - {ttl.ms}:"):
        clear_state(out, declared)
    if ttl.renewed_on == "read_and_write":
        with out.block(f"elif {present}[slot] and {stamps}[slot] < {now}:"):
            _renew(out, declared, ttl)


def _renew(out: Writer, declared: ValueState[Any], ttl: TimeToLive) -> None:
    out.write(f"{_stamps(out, declared)}[slot] = {call_time(out, ttl)}")
    out.write(f"{_arrays(out, declared)[2]}[slot] = True")
