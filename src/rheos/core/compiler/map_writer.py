"""Writes the use of states that are maps: `get`, `[]`, `in`, `del`, `clear` and `len`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.state_values import call_time, element_code
from rheos.core.compiler.values import KINDS, NONE, PYTHON_NAMES, CannotCompile, Kind, Value
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.graph.state import MapState
from rheos.core.state.columnar.map_column import OF_ENTRIES

_FOUND_BY = ("index", "owners", "items", "born", "versions", "present")
_NOTED_BY = ("changed", "journal", "counts")
_FLAGS = ("present", "changed")


class MapWriter:
    """A writer of accesses to maps. `value` writes items and values."""

    def __init__(self, out: Writer, scope: MethodScope, value: Callable[[ast.expr], Value]) -> None:
        self.out = out
        self.scope = scope
        self._value = value

    def contains(self, declared: MapState[Any, Any], item: Value, line: int) -> str:
        """Write `in`, and return the code of its result."""
        return f"({self._find(declared, item, line)} >= 0)"

    def item(self, declared: MapState[Any, Any], node: ast.Subscript) -> Value:
        """Write the access to an item. The row fails if the map does not have it."""
        entry = self._find(declared, self._value(node.slice), node.lineno)
        self._require(entry, node)
        return self._value_at(declared, entry)

    def get(self, declared: MapState[Any, Any], arguments: list[ast.expr], node: ast.Call) -> Value:
        """Write `get`."""
        item, *others = [self.out.held_value(self._value(each)) for each in arguments]
        default = others[0] if others else NONE
        entry = self._find(declared, item, node.lineno)
        value = self._value_at(declared, entry)
        return value_or_default(self.out, value, default, f"{entry} >= 0", node)

    def put(self, declared: MapState[Any, Any], node: ast.expr, value: Value) -> None:
        """Write the assignment to an item. Raise CannotCompile if a type differs from the declared
        one."""
        line, name = node.lineno, declared.name
        item = element_code(
            self.out, KINDS[declared.key_type], self._value(node), f"an item of state {name!r} is", line
        )
        given = element_code(
            self.out, KINDS[declared.value_type], value, f"a value of state {name!r} is", line
        )
        counts, items, index = (self._array(declared, part) for part in ("counts", "items", "index"))
        with self.out.block(f"if {counts}[0] == len({items}):"):
            for part in OF_ENTRIES:
                self._grow(declared, part, "grown({})")
        with self.out.block(f"if 2 * {counts}[0] >= len({index}):"):
            owners = self._array(declared, "owners")
            self._grow(declared, "index", f"larger_index({{}}, {owners}, {items})")
        self._room_in_journal(declared)
        now = "0" if declared.ttl is None else call_time(self.out, declared.ttl)
        arrays = self._arrays(declared, *_FOUND_BY, "lengths", *_NOTED_BY, "stamps", "values")
        self.out.write(f"put_entry({arrays}, slot, {item}, {given}, {now})")

    def delete(self, declared: MapState[Any, Any], node: ast.Subscript) -> None:
        """Write `del`. The row fails if the map does not have the item."""
        entry = self._find(declared, self._value(node.slice), node.lineno)
        self._require(entry, node)
        self._room_in_journal(declared)
        with self.out.block(f"if {entry} >= 0:"):
            self._drop(declared, entry)

    def clear(self, declared: MapState[Any, Any]) -> None:
        """Write `clear`."""
        self._room_in_journal(declared)
        arrays = self._arrays(declared, "versions", "lengths", "journal", "counts")
        self.out.write(f"clear_map({arrays}, slot)")

    def length(self, declared: MapState[Any, Any], line: int) -> Value:
        """Write `len`."""
        if declared.ttl is not None:
            raise CannotCompile(
                f"the length of state {declared.name!r}, whose entries expire, cannot be compiled", line
            )
        return Value("int", self.out.held(f"{self._array(declared, 'lengths')}[slot]"))

    # --- entries --------------------------------------------------------------------------------------

    def _find(self, declared: MapState[Any, Any], item: Value, line: int) -> str:
        """Return the variable with the number of an entry; -1 if the map lacks the item."""
        kind = KINDS[declared.key_type]
        if item.kind != kind and (item.kind, kind) != ("bool", "int"):
            raise CannotCompile(
                f"state {declared.name!r} is looked up by {item.shown}, but its items are "
                f"{PYTHON_NAMES[kind]}",
                line,
            )
        arrays = self._arrays(declared, *_FOUND_BY)
        entry = self.out.held(f"find_entry({arrays}, slot, {item.code})")
        if item.null:
            self.out.write(f"{entry} = -1 if {item.null} else {entry}")
        if declared.ttl is not None:
            self._room_in_journal(declared)
            stamps, now = self._array(declared, "stamps"), call_time(self.out, declared.ttl)
            with self.out.block(f"if {entry} >= 0 and {stamps}[{entry}] <= {now} - {declared.ttl.ms}:"):
                self._drop(declared, entry)
                self.out.write(f"{entry} = -1")
            if declared.ttl.renewed_on == "read_and_write":
                with self.out.block(f"elif {entry} >= 0 and {stamps}[{entry}] < {now}:"):
                    self.out.write(f"{stamps}[{entry}] = {now}")
                    self.out.write(f"note_entry({self._arrays(declared, *_NOTED_BY)}, {entry})")
        return entry

    def _value_at(self, declared: MapState[Any, Any], entry: str) -> Value:
        """Return the value of an entry; an arbitrary one if there is no entry."""
        values = self._array(declared, "values")
        return Value(KINDS[declared.value_type], self.out.held(f"{values}[max({entry}, 0)]"))

    def _require(self, entry: str, node: ast.Subscript) -> None:
        missing = f"KeyError: {ast.unparse(node.value)} has no such item"
        number = self.out.failure(node.lineno, missing)
        with self.out.block(f"if {entry} < 0:"):
            self.out.write(f"fail(failed, {number})")

    def _drop(self, declared: MapState[Any, Any], entry: str) -> None:
        arrays = self._arrays(declared, "present", "lengths", *_NOTED_BY)
        self.out.write(f"drop_entry({arrays}, slot, {entry})")

    # --- arrays ---------------------------------------------------------------------------------------

    def _room_in_journal(self, declared: MapState[Any, Any]) -> None:
        journal, counts = self._array(declared, "journal"), self._array(declared, "counts")
        with self.out.block(f"if {counts}[1] == len({journal}):"):
            self._grow(declared, "journal", "grown({})")

    def _grow(self, declared: MapState[Any, Any], part: str, code: str) -> None:
        array = self._array(declared, part)
        self.out.write(f"{array} = {code.format(array)}")
        self.out.replaced.add(array)

    def _arrays(self, declared: MapState[Any, Any], *parts: str) -> str:
        return ", ".join(self._array(declared, part) for part in parts)

    def _array(self, declared: MapState[Any, Any], part: str) -> str:
        types = {"items": declared.key_type, "values": declared.value_type}
        kind: Kind = "bool" if part in _FLAGS else "int"
        if part in types:
            kind = KINDS[types[part]]
        given = Parameter("map", declared.name, kind, part=part)
        return self.out.parameter(f"m_{declared.name}_{part}", given)


def value_or_default(out: Writer, value: Value, default: Value, found: str, node: ast.Call) -> Value:
    """Return the value if the condition `found` holds, and else the default. Raise CannotCompile if
    their types differ."""
    if default.kind not in ("none", value.kind):
        raise CannotCompile(
            f"{ast.unparse(node)} is {value.shown} or {default.shown}, but a compiled value "
            "has only one type",
            node.lineno,
        )
    name = value.code
    if default.kind != "none":
        name = out.held(f"{value.code} if {found} else {default.code}")
    if not (value.null or default.null):
        return Value(value.kind, name)
    null = out.held(f"{value.null or 'False'} if {found} else {default.null or 'False'}")
    return Value(value.kind, name, null)
