"""Writes accesses to collections of constants and to broadcast state, which become arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from rheos.core.compiler.constants import (
    MISSING,
    Table,
    broadcast_table,
    by_number,
    places_of,
    table_of,
    unchanged,
)
from rheos.core.compiler.map_writer import value_or_default
from rheos.core.compiler.name_resolver import NameResolver
from rheos.core.compiler.record_values import kinds_of, new_record, write_record
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.shared_records import class_of_records
from rheos.core.compiler.values import (
    NONE,
    PYTHON_NAMES,
    CannotCompile,
    Kind,
    RecordParts,
    Value,
)
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.graph.state import BroadcastState


class ConstantTables:
    """A writer of accesses to collections of constants and to broadcast state. `value` writes the
    keys."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        names: NameResolver,
        value: Callable[[ast.expr], Value],
    ) -> None:
        self.out = out
        self.scope = scope
        self._names = names
        self._value = value

    def has(self, node: ast.expr) -> bool:
        """Return whether the node refers to broadcast state, or to an object from outside other than a
        string."""
        given = self.collection(node)
        return given is not MISSING and not isinstance(given, str)

    def collection(self, node: ast.expr) -> Any:
        """Return the collection of constants to which the node refers; another object, or MISSING, if
        it refers to something else."""
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [self._literal(each) for each in elements]
            case ast.Set(elts=elements):
                return {self._literal(each) for each in elements}
        declared = self.scope.broadcast_state(node)
        return declared if declared is not None else self._names.object(node)

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise CannotCompile(f"{ast.unparse(node)} is not a constant", node.lineno) from None

    def find(
        self,
        key: Value | list[Value],
        of: ast.expr,
        line: int,
        as_dict: Callable[[Any], Any] = unchanged,
        field: str = "",
    ) -> tuple[Table, str]:
        """Return the table of a dict, and the name of the variable with the key's position in it.
        `as_dict` makes a dict of other collections. If the values are dataclasses, the table has one
        `field` of them."""
        given, name = self.collection(of), ast.unparse(of)
        if not self.has(of):
            raise CannotCompile(
                f"{name} cannot be compiled", line, "look up values in dicts and sets of constants"
            )
        if isinstance(given, BroadcastState):
            table = self.scope.table(given, "entries", lambda: broadcast_table(given, line))
        else:
            table = self._table(given, name, line, as_dict, field)
        parts = key if isinstance(key, list) else [key]
        if len(parts) != len(table.kinds):
            raise CannotCompile(f"the keys of {name} have a different number of parts", line)
        place, steps = "0", []
        for at, (part, kind, known) in enumerate(zip(parts, table.kinds, table.parts, strict=True)):
            numbers = {part.kind, kind} <= {"int", "bool"}
            if part.kind != kind and not numbers:
                raise CannotCompile(
                    f"{name} is looked up by {part.shown}, but its keys are {PYTHON_NAMES[kind]}", line
                )
            column = self._array(table, f"p{at}", "int", f"parts {at}")
            code = part.code if part.kind in ("int", "str") else f"int64({part.code})"
            step = self.out.held(f"place({column}, {code})")
            if part.null:
                self.out.write(f"{step} = -1 if {part.null} else {step}")
            steps.append(step)
            place = step if place == "0" else f"({place} * {len(known)} + {step})"
        places = self._array(table, "places", "int")
        there = " and ".join(f"{step} >= 0" for step in steps)
        return table, self.out.held(f"{places}[{place}] if {there} else -1")

    def _table(
        self, given: Any, name: str, line: int, as_dict: Callable[[Any], Any], field: str = ""
    ) -> Table:
        """Return the table of a collection, or of one field of the dataclasses that are its values."""

        def made() -> Table:
            members = as_dict(given)
            if field:
                members = {key: getattr(each, field) for key, each in members.items()}
            return table_of(members, name, self.out.texts, line)

        return self.scope.table(given, (as_dict, field), made)

    def _fields(self, of: ast.expr) -> tuple[type, list[str]] | None:
        """Return the class of dataclasses that are the values of a collection, and the fields that are
        not always None. Return None for other values."""
        given = self.collection(of)
        cls = class_of_records(given)
        if cls is None:
            return None
        self.scope.shared.share(cls, of.lineno)
        members = list(given.values() if hasattr(given, "values") else given)
        return cls, [
            name for name in kinds_of(cls) if any(getattr(each, name) is not None for each in members)
        ]

    def _record_at(
        self,
        fields: tuple[type, list[str]],
        of: ast.expr,
        found: str,
        as_dict: Callable[[Any], Any],
    ) -> Value:
        """Return the dataclass at the position in a collection; an arbitrary one if the position is
        missing."""
        cls, names = fields
        given, line = self.collection(of), of.lineno
        parts = dict.fromkeys(kinds_of(cls), NONE)
        for name in names:
            table = self._table(given, ast.unparse(of), line, as_dict, name)
            parts[name] = self.value_at(table, found)
        return Value("record", "", "", None, RecordParts(cls, parts))

    def value_at(self, table: Table, found: str) -> Value:
        """Return the value at the position; an arbitrary value if the position is missing."""
        values = self._array(table, "values", table.kind)
        name = self.out.held(f"{values}[max({found}, 0)]")
        null = ""
        if table.nulls is not None:
            nulls = self._array(table, "nulls", "bool")
            null = self.out.held(f"{nulls}[max({found}, 0)]")
        return Value(table.kind, name, null)

    def _array(self, table: Table, name: str, kind: Kind, part: str = "") -> str:
        """Return the name of an array of the table. `part` is its attribute, if that differs."""
        number = self.scope.number_of(table)
        source: Literal["table", "broadcast"] = "broadcast" if table.state else "table"
        given = Parameter(source, table.state or f"{number}", kind, table, part or name)
        return self.out.parameter(f"d{number}_{name}", given)

    def item(self, node: ast.Subscript) -> Value:
        """Write the access to an element of a collection of constants."""
        fields = self._fields(node.value)
        table, found = self.find(
            self._key(node.slice), node.value, node.lineno, places_of, _first(fields)
        )
        missing = f"KeyError: {ast.unparse(node.value)} has no such key"
        if isinstance(self.collection(node.value), list | tuple):
            missing = f"IndexError: index out of range of {ast.unparse(node.value)}"
        number = self.out.failure(node.lineno, missing, None)
        with self.out.block(f"if {found} < 0:"):
            self.out.write(f"fail(failed, {number})")
        if fields is not None:
            return self._record_at(fields, node.value, found, places_of)
        return self.value_at(table, found)

    def items(self, node: ast.expr) -> tuple[str, Callable[[str], Value]]:
        """Return the number of elements of a list or tuple of constants, and a function that writes one
        by its position."""
        given = self.collection(node)
        if type(given) not in (list, tuple):
            raise CannotCompile(
                f"a loop over {ast.unparse(node)} cannot be compiled",
                node.lineno,
                "loop over range(), a list or tuple of constants, or a string",
            )
        if not given:
            return "0", lambda at: Value("int", "0")
        fields = self._fields(node)
        if fields is not None:
            return f"{len(given)}", lambda at: self._record_at(fields, node, at, by_number)
        table = self._table(given, ast.unparse(node), node.lineno, by_number)
        return f"{len(given)}", lambda at: self.value_at(table, at)

    def get(self, of: ast.expr, arguments: list[ast.expr], node: ast.Call) -> Value:
        """Write the code for dict.get."""
        fields = self._fields(of)
        table, found = self.find(self._key(arguments[0]), of, node.lineno, field=_first(fields))
        if fields is not None:
            value = self._record_at(fields, of, found, unchanged)
            return self._record_or(value, arguments[1:], found, node)
        value = self.value_at(table, found)
        default = self._value(arguments[1]) if len(arguments) > 1 else NONE
        return value_or_default(self.out, value, default, f"{found} >= 0", node)

    def _record_or(self, value: Value, default: list[ast.expr], found: str, node: ast.Call) -> Value:
        """Return the dataclass that dict.get returns: that at the position, or the default."""
        other = self._value(default[0]) if default else NONE
        if other.kind == "none":
            return replace(value, null=self.out.held(f"{found} < 0"))
        if other.record is None:
            raise CannotCompile(
                f"{ast.unparse(node)} is {value.shown} or {other.shown}, but a compiled value "
                "has only one type",
                node.lineno,
            )
        null = self.out.held(f"{found} < 0 and {other.null}") if other.null else ""
        chosen = new_record(self.out, [value, other], null, node.lineno)
        for head, each in ((f"if {found} >= 0:", value), ("else:", other)):
            with self.out.block(head):
                write_record(self.out, chosen, each)
        return chosen

    def _key(self, node: ast.expr) -> Value | list[Value]:
        return (
            [self._value(each) for each in node.elts]
            if isinstance(node, ast.Tuple)
            else self._value(node)
        )


def _first(fields: tuple[type, list[str]] | None) -> str:
    """Return a field of dataclasses, by which keys are found; an empty string for other values."""
    if fields is None:
        return ""
    cls, names = fields
    return names[0] if names else next(iter(kinds_of(cls)))
