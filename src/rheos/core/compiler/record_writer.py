"""Writes the use of dataclasses: their creation, their fields, and states that store them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from rheos.core.compiler.constants import constant_of
from rheos.core.compiler.record_calls import fields_of_call
from rheos.core.compiler.record_values import FieldKind, is_frozen, kinds_of, part_name, write_part
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.shared_records import record_constant
from rheos.core.compiler.values import PYTHON_NAMES, CannotCompile, RecordParts, Value
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.graph.state import ValueState


class RecordWriter:
    """A writer of dataclasses. `value` writes the arguments of their creation."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        value: Callable[[ast.expr], Value],
    ) -> None:
        self.out = out
        self.scope = scope
        self._value = value

    def create(self, cls: type, node: ast.Call) -> Value:
        """Write the creation of a dataclass, of which `field_kinds` knows the fields."""
        kinds, parts = kinds_of(cls), {}
        for name, part in fields_of_call(cls, node, self.out.texts).items():
            value = part if isinstance(part, Value) else self._value(part)
            parts[name] = self.out.held_value(self._fitting(cls, name, kinds[name], value, node.lineno))
        return Value("record", "", "", None, RecordParts(cls, parts))

    def constant(self, given: Any, line: int) -> Value | None:
        """Return a constant that is a dataclass; None for other constants."""
        found = record_constant(given, self.out.texts, line)
        if found is not None:
            self.scope.shared.share(type(given), line)
        return found

    def read(self, node: ast.Attribute) -> Value | None:
        """Write the access to a state that stores a dataclass, or to a field of a dataclass. Return
        None for other nodes."""
        declared = self._state_value(node)
        if declared is not None:
            return self._read_state(declared)
        of = self._owner(node.value)
        if of is None:
            return None
        assert of.record is not None
        if node.attr not in of.record.fields:
            raise CannotCompile(
                f"{of.record.cls.__name__} has no field {node.attr!r} that can be compiled", node.lineno
            )
        self._require(of, node)
        return of.record.fields[node.attr]

    def set_field(self, node: ast.expr, value: Value) -> bool:
        """Write an assignment to a field. Return False for other targets."""
        if not isinstance(node, ast.Attribute):
            return False
        of = self._owner(node.value)
        if of is None:
            return False
        record, line = of.record, node.lineno
        assert record is not None
        kind = kinds_of(record.cls).get(node.attr)
        if kind is None or is_frozen(record.cls):
            raise CannotCompile(f"an assignment to {ast.unparse(node)} cannot be compiled", line)
        self.scope.shared.change(record.cls, line)
        self._require(of, node)
        given = self.out.held_value(self._fitting(record.cls, node.attr, kind, value, line))
        if record.variable:
            write_part(self.out, record.variable, node.attr, kind, given)
        if record.state:
            with self.out.block(f"if {record.linked}:"):
                declared = self.scope.states[record.state]
                self._set_part(declared, node.attr, kind, given)
                for name in self._linked(record.state):
                    if name != record.variable:
                        with self.out.block(f"if l_{name}:"):
                            write_part(self.out, name, node.attr, kind, given)
        return True

    # --- states ---------------------------------------------------------------------------------------

    def is_stored(self, declared: ValueState[Any]) -> bool:
        """Return whether a state stores a dataclass."""
        return dataclasses.is_dataclass(declared.type)

    def set_state(self, declared: ValueState[Any], value: Value, line: int) -> None:
        """Write the assignment of a value to a state."""
        name = declared.name
        if value.kind == "none" and declared.default is None:
            self.clear_state(declared)
            return
        record = value.record
        if record is None or record.cls is not declared.type:
            raise CannotCompile(
                f"state {name!r} is declared as {declared.type.__name__}, but is assigned "
                f"{value.shown}",
                line,
            )
        if record.state not in ("", name):
            raise CannotCompile(f"an object of two states cannot be compiled: {name!r}", line)
        if record.variable and not is_frozen(record.cls):
            self.scope.link(record.variable, name, line)
        if value.null and declared.default is None:
            with self.out.block(f"if {value.null}:"):
                self.clear_state(declared)
            head = "else:"
        else:
            what = f"StateAccessError: state {name!r} was assigned None"
            self.out.require_value(value, line, what)
            head = "if True:"
        with self.out.block(head):
            for field, kind in kinds_of(record.cls).items():
                self._set_part(declared, field, kind, record.fields[field])
            self._mark(declared)
            same = self.out.held(record.linked)
            for each in self._linked(name):
                is_same = "True" if each == record.variable else f"l_{each} and {same}"
                self.out.write(f"l_{each} = {is_same}")

    def clear_state(self, declared: ValueState[Any]) -> None:
        """Write the removal of the value of a state."""
        present, changed = self._flags(declared)
        with self.out.block(f"if {present}[slot]:"):
            self.out.write(f"{present}[slot] = False")
            self.out.write(f"{changed}[slot] = True")
        for each in self._linked(declared.name):
            self.out.write(f"l_{each} = False")

    def _read_state(self, declared: ValueState[Any]) -> Value:
        """Write the read of a state. As in Python, a read of an object that may change counts as a
        change, and stores the default."""
        cls, default = declared.type, declared.default
        present, changed = self._flags(declared)
        frozen, null = is_frozen(cls), ""
        kinds = kinds_of(cls)
        if default is None:
            null = self.out.held(f"not {present}[slot]")
            if not frozen:
                with self.out.block(f"if {present}[slot]:"):
                    self.out.write(f"{changed}[slot] = True")
        elif not frozen:
            with self.out.block(f"if not {present}[slot]:"):
                for field, kind in kinds.items():
                    self._set_part(declared, field, kind, self._default(declared, field))
            self._mark(declared)
        parts = {}
        for field, kind in kinds.items():
            values, there = self._part(declared, field, kind)
            part = Value(
                kind.kind,
                self.out.held(f"{values}[slot]"),
                self.out.held(f"not {there}[slot]") if kind.nullable else "",
            )
            if frozen and default is not None:
                other = self._default(declared, field)
                self.out.write(f"{part.code} = {part.code} if {present}[slot] else {other.code}")
                if part.null:
                    missing = other.null or "False"
                    self.out.write(f"{part.null} = {part.null} if {present}[slot] else {missing}")
            parts[field] = part
        if frozen:
            return Value("record", "", null, None, RecordParts(cls, parts))
        linked = f"(not {null})" if null else "True"
        return Value("record", "", null, None, RecordParts(cls, parts, declared.name, linked))

    def _default(self, declared: ValueState[Any], field: str) -> Value:
        return constant_of(getattr(declared.default, field), self.out.texts, declared.site.line)

    def _flags(self, declared: ValueState[Any]) -> tuple[str, str]:
        name = declared.name
        return (
            self.out.parameter(f"p_{name}", Parameter("present", name, "bool")),
            self.out.parameter(f"h_{name}", Parameter("changed", name, "bool")),
        )

    def _part(self, declared: ValueState[Any], field: str, kind: FieldKind) -> tuple[str, str]:
        """Return the array with the values of a field, and that with whether they are not None, which
        is empty if they never are."""
        path, name = f"{declared.name}.{field}", part_name(declared.name, field)
        return (
            self.out.parameter(f"s{name}", Parameter("state", path, kind.kind)),
            self.out.parameter(f"p{name}", Parameter("present", path, "bool")) if kind.nullable else "",
        )

    def _set_part(self, declared: ValueState[Any], field: str, kind: FieldKind, value: Value) -> None:
        values, there = self._part(declared, field, kind)
        if value.kind != "none":
            self.out.write(f"{values}[slot] = {value.code}")
        if there:
            self.out.write(f"{there}[slot] = {f'not {value.null}' if value.null else 'True'}")

    def _mark(self, declared: ValueState[Any]) -> None:
        for flags in self._flags(declared):
            self.out.write(f"{flags}[slot] = True")

    # --- variables ------------------------------------------------------------------------------------

    def _linked(self, state: str) -> Iterator[str]:
        """Yield the variables whose value may be the object of a state."""
        for name, variable in list(self.scope.types.items()):
            if variable.kind == "record" and variable.state == state:
                yield name

    # --- parts of expressions -------------------------------------------------------------------------

    def _state_value(self, node: ast.expr) -> ValueState[Any] | None:
        """Return the state of `self.name.value`, if it stores a dataclass."""
        match node:
            case ast.Attribute(value=of, attr="value"):
                declared = self.scope.state(of)
                if declared is not None and self.is_stored(declared):
                    return declared
        return None

    def _owner(self, node: ast.expr) -> Value | None:
        """Write the dataclass of a field; None if the node has no dataclass as its value."""
        declared = self._state_value(node)
        if declared is not None:
            return self._read_state(declared)
        if isinstance(node, ast.Name):
            return self.scope.variable_of("record", node.id, node.lineno)
        return None

    def _require(self, of: Value, node: ast.Attribute) -> None:
        what = f"AttributeError: 'NoneType' object has no attribute {node.attr!r}"
        self.out.require_value(of, node.lineno, what)

    def _fitting(self, cls: type, name: str, kind: FieldKind, value: Value, line: int) -> Value:
        """Return the value if it is exactly of the kind of a field. Raise CannotCompile otherwise."""
        fits = value.kind == kind.kind and (kind.nullable or not value.null)
        if not fits and not (value.kind == "none" and kind.nullable):
            raise CannotCompile(
                f"field {name!r} of {cls.__name__} is {PYTHON_NAMES[kind.kind]}, but is assigned "
                f"{value.shown}",
                line,
                "assign a value of the declared type",
            )
        return value
