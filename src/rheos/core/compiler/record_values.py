"""Dataclasses as values: compiled code keeps their fields in variables.

A value may be the object that a state stores. If the object changes, the state changes, and so do the
other variables that refer to it. A variable with such a value has a flag, its link, which tells whether
the value is the object of the state now.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from rheos.core.compiler.record_classes import only_sets_fields
from rheos.core.compiler.values import KINDS, ZEROS, CannotCompile, Kind, RecordParts, Value, Variable
from rheos.core.compiler.writer import Writer
from rheos.core.errors import ProgramError
from rheos.core.graph.state import ValueState
from rheos.core.protocol.types import is_immutable
from rheos.core.state.columnar.record_column import field_types, fits


@dataclasses.dataclass(frozen=True)
class FieldKind:
    """The kind of a field's values."""

    kind: Kind
    nullable: bool


def field_kinds(record: object) -> Mapping[str, FieldKind] | None:
    """Return the kinds of the fields of a dataclass, by name; None if compiled code does not support
    it."""
    if not (isinstance(record, type) and only_sets_fields(record)):
        return None
    methods = [inspect.getattr_static(record, name, None) for name in ("__bool__", "__len__")]
    types = field_types(record)
    if types is None or not types or any(methods):
        return None
    return {name: FieldKind(KINDS[each.type], each.nullable) for name, each in types.items()}


def check_stored(declared: ValueState[Any]) -> None:
    """Raise ProgramError if compiled code cannot store the dataclass of a declaration."""
    cls, name = declared.type, declared.name
    types = field_types(cls)
    if types is None or field_kinds(cls) is None:
        raise ProgramError(
            f"state {name!r} is {cls.__name__}, but a compiled function supports only plain "
            "dataclasses of int, float, bool and str",
            site=declared.site,
            hint="declare fields of these types, or split the state into several",
        )
    if declared.ttl is not None:
        raise ProgramError(
            f"state {name!r} is a dataclass with a time to live, which a compiled function does not "
            "support",
            site=declared.site,
            hint="clear it with a timer, or split it into several states",
        )
    if declared.default is not None and not fits(declared.default, cls, types):
        raise ProgramError(
            f"the default of state {name!r} has other fields, or fields of other types, than "
            f"{cls.__name__} declares",
            site=declared.site,
            hint="write a default whose fields have the declared types, such as 0.0 for a float",
        )


def is_frozen(record: type) -> bool:
    """Return whether no value of the dataclass can change."""
    return is_immutable(record)


def kinds_of(record: type) -> Mapping[str, FieldKind]:
    found = field_kinds(record)
    assert found is not None
    return found


def part_name(of: str, field: str) -> str:
    """Return the name of a variable for a field, which differs for each pair."""
    return f"r{len(of)}_{of}_{field}"


def variable_value(name: str, variable: Variable, null: str) -> Value:
    """Return the value of a variable."""
    assert variable.record is not None
    parts = {
        field: Value(
            of.kind,
            part_name(name, field),
            f"z{part_name(name, field)}" if of.nullable else "",
        )
        for field, of in kinds_of(variable.record).items()
    }
    linked = f"l_{name}" if variable.state else "False"
    return Value(
        "record", "", null, None, RecordParts(variable.record, parts, variable.state, linked, name)
    )


def write_parts(out: Writer, name: str, variable: Variable, value: Value) -> None:
    """Write the assignment of a value to a variable, except whether it is None."""
    assert variable.record is not None
    if value.kind == "none":
        if variable.state:
            out.write(f"l_{name} = False")
        return
    assert value.record is not None
    for field, of in kinds_of(variable.record).items():
        write_part(out, name, field, of, value.record.fields[field])
    if variable.state:
        out.write(f"l_{name} = {value.record.linked}")


def write_part(out: Writer, name: str, field: str, of: FieldKind, value: Value) -> None:
    """Write the assignment of a value to one field of a variable."""
    if value.kind != "none":
        out.write(f"{part_name(name, field)} = {value.code}")
    if of.nullable:
        out.write(f"z{part_name(name, field)} = {value.null or 'False'}")


def declare_parts(out: Writer, name: str, variable: Variable) -> None:
    """Write the declaration of a variable without a value."""
    assert variable.record is not None
    for field, of in kinds_of(variable.record).items():
        out.write(f"{part_name(name, field)} = {ZEROS[of.kind]}")
        if of.nullable:
            out.write(f"z{part_name(name, field)} = True")
    if variable.state:
        out.write(f"l_{name} = False")


def new_record(out: Writer, alternatives: list[Value], null: str, line: int) -> Value:
    """Write the declaration of a variable without a name, which can have each of some values. Raise
    CannotCompile if they have different classes, or are objects with names."""
    records = [each.record for each in alternatives if each.record is not None]
    [cls, *others] = {record.cls for record in records}
    states = {record.state for record in records} - {""}
    if others or len(states) > 1:
        raise CannotCompile("one of several dataclasses or states cannot be compiled", line)
    if any(record.variable for record in records) and not is_frozen(cls):
        raise CannotCompile(f"a second name for an object of {cls.__name__} cannot be compiled", line)
    name, variable = out.name(), Variable("record", bool(null), None, cls, "".join(states))
    declare_parts(out, name, variable)
    value = variable_value(name, variable, null)
    assert value.record is not None
    return dataclasses.replace(value, code=name, record=dataclasses.replace(value.record, variable=""))


def write_record(out: Writer, variable: Value, value: Value) -> None:
    """Write the assignment of a value to a variable of `new_record`."""
    assert variable.record is not None
    of = Variable("record", bool(variable.null), None, variable.record.cls, variable.record.state)
    write_parts(out, variable.code, of, value)
