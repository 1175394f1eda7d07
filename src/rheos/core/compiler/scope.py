"""Names in a method: its parameters, its state, and its local variables."""

from __future__ import annotations

import ast
import dataclasses
import enum
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import pyarrow as pa

from rheos.core.compiler.constants import MISSING, Table, attribute_of
from rheos.core.compiler.keyed_states import KeyedStates
from rheos.core.compiler.record_values import (
    declare_parts,
    is_frozen,
    variable_value,
    write_parts,
)
from rheos.core.compiler.shared_records import SharedRecords
from rheos.core.compiler.state_values import read_state
from rheos.core.compiler.values import (
    NONE,
    PYTHON_NAMES,
    ZEROS,
    CannotCompile,
    Kind,
    Value,
    Variable,
    kind_of_column,
)
from rheos.core.compiler.writer import Parameter, Writer
from rheos.core.graph.state import BroadcastState, ListState, MapState, ValueState
from rheos.core.protocol.annotations import hints_of, without_none

Role = Literal["rows", "timers"]


@dataclasses.dataclass(frozen=True)
class RecordField:
    """A field of the record: the column from which it is read, and the kind of its values."""

    column: str
    kind: Kind
    nullable: bool
    row: str = "i"
    """Variable with the row of the record."""


def record_fields(schema: pa.Schema, record: type | None) -> dict[str, RecordField]:
    """Return the fields of a dataclass or of named rows, by name. `schema` has the visible columns."""
    columns = {
        field.name: RecordField(field.name, kind_of_column(field.type), field.nullable)
        for field in schema
    }
    if record is None:
        return columns
    hints = hints_of(record)
    found = {}
    for field in dataclasses.fields(record):
        if not field.init or field.name not in columns:
            continue
        column = columns[field.name]
        annotation = without_none(hints[field.name])[0]
        if annotation is float and column.kind == "int":
            column = dataclasses.replace(column, kind="float")
        elif isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            column = dataclasses.replace(column, kind="other")
        found[field.name] = column
    return found


def plain_method(classes: Sequence[type], name: str) -> types.FunctionType | None:
    """Return the method that the first class with such a name has; None if it is another attribute."""
    found = next((vars(each)[name] for each in classes if name in vars(each)), None)
    return found if isinstance(found, types.FunctionType) else None


class MethodScope:
    """The scope of one method, for all passes over it. Variables keep the types that earlier passes
    inferred."""

    def __init__(
        self,
        role: Role,
        arguments: Sequence[str],
        instance: object,
        states: KeyedStates,
        fields: Mapping[str, RecordField],
        keys: Sequence[tuple[str, Kind]],
        *,
        broadcast: Mapping[str, BroadcastState[Any, Any]],
        record: type | None,
        event_time: bool,
        shared: SharedRecords,
    ) -> None:
        self.role = role
        self.instance = instance
        self.states = states.values
        self._states = states
        self.fields = fields
        self.keys = keys
        self._broadcast = broadcast
        self.record = record
        self.event_time = event_time
        self.shared = shared
        self._self, self._given, self._context, self._earlier = arguments
        self._prefix = ""
        """Prefix of the variables of the function that is written in place of its call."""
        self.types: dict[str, Variable] = {}
        self.settled = True
        """Whether a pass has found no new types."""
        self.assigned: set[str] = set()
        """Variables that are certainly assigned at this point."""
        self._tables: dict[tuple[int, object], Table] = {}
        self._numbers: dict[int, int] = {}

    # --- local variables ------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        return self._prefix + name in self.types or name in self._arguments()

    def _arguments(self) -> tuple[str, ...]:
        return self._self, self._given, self._context, self._earlier

    @contextmanager
    def within(
        self, prefix: str, itself: str = "", given: str = "", context: str = ""
    ) -> Iterator[None]:
        """Resolve names as those of another function, whose variables have a prefix. The other
        arguments are its parameters that receive the object, the record and the context."""
        before = (*self._arguments(), self._prefix)
        self._self, self._given, self._context, self._earlier = itself, given, context, ""
        self._prefix += prefix
        try:
            yield
        finally:
            self._self, self._given, self._context, self._earlier, self._prefix = before

    def variable(self, name: str, line: int) -> Value:
        known = self._prefix + name
        if name == self._given and self.role == "timers" and known not in self.types:
            return Value("int", "timestamp")
        if known not in self.types:
            raise CannotCompile(f"{name} as a whole cannot be compiled", line, "use its fields")
        if known not in self.assigned:
            raise CannotCompile(
                f"{name} may be unassigned here", line, f"assign {name} on every path to this line"
            )
        variable = self.types[known]
        null = f"z_{known}" if variable.nullable else ""
        if variable.kind == "none":
            return NONE
        if variable.kind == "record":
            return variable_value(known, variable, null)
        return Value(variable.kind, f"v_{known}", null, variable.column)

    def variable_of(self, kind: Kind, name: str, line: int) -> Value | None:
        """Return the value of a variable, if it is of this kind."""
        known = self.types.get(self._prefix + name)
        return None if known is None or known.kind != kind else self.variable(name, line)

    def link(self, known: str, state: str, line: int) -> None:
        """Note that the value of a variable may be the object of a state."""
        variable = self.types[known]
        if variable.state not in ("", state):
            raise CannotCompile(f"an object of two states cannot be compiled: {state!r}", line)
        if variable.state != state:
            self.types[known] = dataclasses.replace(variable, state=state)
            self.settled = False

    def assign(self, out: Writer, name: str, value: Value, line: int) -> None:
        if name in self._arguments():
            raise CannotCompile(
                f"{name} is reassigned, which cannot be compiled", line, "use another name"
            )
        column = value.column if value.kind == "other" else None
        given = Variable(value.kind, bool(value.null), column)
        if value.record is not None:
            cls = value.record.cls
            if value.record.variable and not is_frozen(cls):
                raise CannotCompile(
                    f"a second name for an object of {cls.__name__} cannot be compiled", line
                )
            given = dataclasses.replace(given, record=cls, state=value.record.state)
        known = self._prefix + name
        before = self.types.get(known)
        joined = given if before is None else before.joined(given)
        if joined is None:
            assert before is not None
            raise CannotCompile(
                f"{name} is first {PYTHON_NAMES[before.kind]} and then "
                f"{PYTHON_NAMES[given.kind]}, but a compiled variable has only one type",
                line,
                "use another name, or convert: float(...)",
            )
        if joined != before:
            self.types[known] = joined
            self.settled = False
        if joined.kind == "record":
            write_parts(out, known, joined, value)
        elif value.kind not in ("none", "other"):
            out.write(f"v_{known} = {value.code}")
        if joined.nullable:
            out.write(f"z_{known} = {value.null or 'False'}")
        self.assigned.add(known)

    def declared(self, out: Writer) -> None:
        """Write the declarations of all variables."""
        for name, variable in self.types.items():
            if variable.kind == "record":
                declare_parts(out, name, variable)
            elif variable.kind in ZEROS:
                out.write(f"v_{name} = {ZEROS[variable.kind]}")
            if variable.nullable:
                out.write(f"z_{name} = True")

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """Mark variables that are assigned in the block as possibly unassigned afterwards."""
        before = set(self.assigned)
        yield
        self.assigned = before

    # --- arguments and state of the method ------------------------------------------------------------

    def field(self, node: ast.expr) -> RecordField | None:
        """Return the record field that the node reads; None if it reads something else."""
        match node:
            case ast.Attribute(value=ast.Name(id=of), attr=name):
                named = self.record is not None or not name.startswith("_")
            case ast.Subscript(value=ast.Name(id=of), slice=ast.Constant(value=str() as name)):
                named = self.record is None
            case _:
                return None
        is_argument = of in (self._given, self._earlier) and self._prefix + of not in self.types
        if self.role != "rows" or not is_argument:
            return None
        if name not in self.fields or not named:
            raise CannotCompile(f"the record has no field {name!r} that can be compiled", node.lineno)
        found = self.fields[name]
        return dataclasses.replace(found, row="kept_row") if of == self._earlier else found

    def is_record(self, node: ast.expr) -> bool:
        return self.role == "rows" and isinstance(node, ast.Name) and node.id == self._given

    def is_kept(self, node: ast.expr) -> bool:
        """Return whether the node is the record that an earlier call has returned."""
        return isinstance(node, ast.Name) and node.id == self._earlier

    def state(self, node: ast.expr) -> ValueState[Any] | None:
        """Return the state that `self.name` refers to; None if it is not state."""
        match node:
            case ast.Attribute(value=ast.Name(id=of), attr=name) if of == self._self:
                self._states.check(name)
                return self.states.get(name)
        return None

    def is_reducing(self, node: ast.expr) -> bool:
        """Return whether the node is a state that a function combines."""
        declared = self.state(node)
        return declared is not None and declared.name in self._states.reducers

    def list_state(self, node: ast.expr) -> ListState[Any] | None:
        """Return the list that `self.name` refers to; None if it is not a list."""
        match node:
            case ast.Attribute(value=ast.Name(id=of), attr=name) if of == self._self:
                self._states.check(name)
                return self._states.lists.get(name)
        return None

    def map_state(self, node: ast.expr) -> MapState[Any, Any] | None:
        """Return the map that `self.name` refers to; None if it is not a map."""
        match node:
            case ast.Attribute(value=ast.Name(id=of), attr=name) if of == self._self:
                self._states.check(name)
                return self._states.maps.get(name)
        return None

    def broadcast_state(self, node: ast.expr) -> BroadcastState[Any, Any] | None:
        """Return the broadcast state that `self.name` refers to; None if it is not broadcast state."""
        match node:
            case ast.Attribute(value=ast.Name(id=of), attr=name) if of == self._self:
                return self._broadcast.get(name)
        return None

    def is_instance(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._self

    def has_instance(self) -> bool:
        """Return whether the code is that of a method of the function's object."""
        return bool(self._self)

    def method(self, name: str) -> types.FunctionType | None:
        """Return a method of the function's object; None if the name is not that of a method."""
        if name in getattr(self.instance, "__dict__", ()):
            return None
        return plain_method(type(self.instance).__mro__, name)

    def inherited_method(self, below: Any, name: str) -> types.FunctionType | None:
        """Return the method that `super()` finds in a class `below` its own; None if it is not one."""
        classes = type(self.instance).__mro__
        if below not in classes:
            return None
        return plain_method(classes[classes.index(below) + 1 :], name)

    def is_context(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._context

    def attribute(self, out: Writer, node: ast.Attribute) -> Value | None:
        """Return the value of an attribute of record, state or context; None for other nodes."""
        field = self.field(node)
        if field is not None:
            return self.read_field(out, field)
        declared = self.state(node.value) if node.attr == "value" else None
        if declared is not None:
            return read_state(out, declared)
        if self.state(node) is not None:
            raise CannotCompile(f"{ast.unparse(node)} as a whole cannot be compiled", node.lineno)
        if not self.is_context(node.value):
            return None
        match node.attr:
            case "key":
                if len(self.keys) > 1:
                    raise CannotCompile(
                        "a key of several columns as a whole cannot be compiled",
                        node.lineno,
                        f"use its parts: {ast.unparse(node)}[0]",
                    )
                return self._key(out, 0, node.lineno)
            case "timestamp":
                if self.role == "timers":
                    return Value("int", "timestamp")
                return Value("int", out.held("stamps[i]")) if self.event_time else NONE
            case "watermark":
                code = "max(watermark, reached[i])" if self.role == "rows" else "watermark"
                return Value("int", out.held(code))
            case "is_late":
                late = "stamps[i] <= reached[i]" if self.role == "rows" and self.event_time else "False"
                return Value("bool", out.held(late))
            case "processing_time":
                return Value("int", "now")
        raise CannotCompile(f"{ast.unparse(node)} cannot be compiled", node.lineno)

    def key_part(self, out: Writer, node: ast.Subscript) -> Value | None:
        """Return the value of `ctx.key[0]` or `record["name"]`; None for other nodes."""
        field = self.field(node)
        if field is not None:
            return self.read_field(out, field)
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=of, attr="key"), slice=ast.Constant(value=int() as at)
            ) if self.is_context(of) and len(self.keys) > 1:
                if not 0 <= at < len(self.keys):
                    raise CannotCompile(f"the key has {len(self.keys)} parts", node.lineno)
                return self._key(out, at, node.lineno)
        return None

    def _key(self, out: Writer, at: int, line: int) -> Value:
        if not self.keys:
            raise CannotCompile("the context has no key here", line, "key the stream by key_by")
        name, kind = self.keys[at]
        if kind == "other":
            raise CannotCompile(f"the key {name!r} has a type that cannot be compiled", line)
        return Value(kind, out.held(f"{out.parameter(f'k{at}', Parameter('key', str(at), kind))}[i]"))

    def read_field(self, out: Writer, field: RecordField) -> Value:
        number, row = list(self.fields).index(field.column), field.row
        null = ""
        if field.nullable:
            nulls = out.parameter(f"n{number}", Parameter("nulls", field.column, "bool"))
            null = out.held(f"{nulls}[{row}]")
        if field.kind == "other":
            return Value("other", "0", null, field.column)
        column = out.parameter(f"c{number}", Parameter("column", field.column, field.kind))
        return Value(field.kind, out.held(f"{column}[{row}]"), null)

    def of_instance(self, name: str) -> Any:
        """Return an attribute of the function object; MISSING if it does not exist."""
        self._states.check(name)
        known = (self.states, self._states.lists, self._states.maps, self._broadcast)
        is_state = any(name in each for each in known)
        return MISSING if is_state else attribute_of(self.instance, name)

    # --- tables ---------------------------------------------------------------------------------------

    def table(self, given: Any, use: object, make: Callable[[], Table]) -> Table:
        """Return the table of an object for a use, which is made once. Each literal counts as an object
        of its own."""
        key = id(given), use
        if key not in self._tables:
            self._tables[key] = make()
            self._kept = [*getattr(self, "_kept", []), given]
        return self._tables[key]

    def number_of(self, table: Table) -> int:
        return self._numbers.setdefault(id(table), len(self._numbers))
