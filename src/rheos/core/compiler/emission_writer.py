"""Writes the emission of records: their columns, and the code that fills them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rheos.core.compiler.expression_writer import Expressions
from rheos.core.compiler.record_calls import fields_of_call
from rheos.core.compiler.record_classes import only_sets_fields
from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.values import CannotCompile, EmittedType, Kind, Value, kind_of_column
from rheos.core.compiler.writer import OutputColumn, OutputColumns, Writer


class EmittedRecords:
    """A writer of emissions. `outputs` are the types of the outputs, by tag."""

    def __init__(
        self,
        out: Writer,
        scope: MethodScope,
        expressions: Expressions,
        outputs: Mapping[str, EmittedType | None],
        *,
        are_values: bool,
        copies: bool,
    ) -> None:
        """Create the writer. `copies` is whether the interpreted form copies an object when it is
        emitted, so that later changes of the object have no effect."""
        self.out = out
        self.scope = scope
        self.expressions = expressions
        self._outputs = outputs
        self._are_values = are_values
        self._copies = copies
        """Whether the method emits single values, of which the output has one column."""

    def write(self, tag: str, node: ast.expr) -> None:
        """Write the code that emits a record to the output of a tag."""
        line = node.lineno
        if tag not in self._outputs:
            declared = ", ".join(repr(one) for one in self._outputs if one) or "none"
            raise CannotCompile(
                f"{tag!r} is not a declared side output; declared are: {declared}", line
            )
        emitted = self._outputs[tag]
        if emitted is None:
            for part in self._record(node, EmittedType(pa.schema([]), None)).values():
                if self._unread_column(part, pa.field("", pa.null())) is None:
                    self._part(part)
            return
        schema = emitted.schema
        given: Mapping[str, ast.expr | Value] = (
            {schema.names[0]: node} if self._are_values else self._record(node, emitted)
        )
        columns: list[OutputColumn] = []
        taken: dict[str, str] = {}
        writes: list[tuple[str, str]] = []
        number = len(self.out.outputs)
        for at, field in enumerate(schema):
            part = given[field.name]
            column = self._unread_column(part, field)
            if column is not None:
                taken[field.name] = column
                columns.append(OutputColumn(field.name, field.type, "other", field.nullable))
                continue
            value = self._part(part)
            kind = self._fitting(value, field, line)
            columns.append(OutputColumn(field.name, field.type, kind, bool(value.null)))
            code = f"float({value.code})" if kind == "float" and value.kind == "int" else value.code
            writes.append((f"o{number}_{at}", code))
            if value.null:
                if not field.nullable:
                    what = f"TypeMismatch: field {field.name!r} should be {field.type}, but is None"
                    self.out.require_value(value, line, what)
                writes.append((f"z{number}_{at}", value.null))
        self._append(tag, number, columns, taken, writes)

    def _append(
        self,
        tag: str,
        number: int,
        columns: list[OutputColumn],
        taken: dict[str, str],
        writes: list[tuple[str, str]],
    ) -> None:
        """Write the code that emits a record. Each emitting place in the method has its own columns;
        they are merged later in the order of emission."""
        self.out.outputs[f"{number}"] = OutputColumns(tag, number, columns, taken, self.out.loops > 0)
        if self.out.loops:
            with self.out.block(f"if o{number} == len(o{number}_calls):"):
                for name in [f"o{number}_calls", f"o{number}_order", *(name for name, _ in writes)]:
                    self.out.write(f"{name} = grown({name})")
        self.out.write(f"o{number}_calls[o{number}] = i")
        self.out.write(f"o{number}_order[o{number}] = emitted")
        for name, code in writes:
            self.out.write(f"{name}[o{number}] = {code}")
        self.out.write(f"o{number} += 1")
        self.out.write("emitted += 1")

    def _part(self, part: ast.expr | Value) -> Value:
        return part if isinstance(part, Value) else self.expressions.value(part)

    def _unread_column(self, part: ast.expr | Value, field: pa.Field) -> str | None:
        """Return the column of the record that the part only passes on unread; None for other parts."""
        if isinstance(part, Value):
            return part.column if part.kind == "other" else None
        found = self.scope.field(part)
        if found is None:
            if isinstance(part, ast.Name) and self.scope.types.get(part.id) is not None:
                variable = self.scope.types[part.id]
                return variable.column if variable.kind == "other" else None
            return None
        same = found.kind == kind_of_column(field.type)
        plain = found.kind == "other" or (same and found.kind in ("str", "moment", "duration"))
        return found.column if plain else None

    def _fitting(self, value: Value, field: pa.Field, line: int) -> Kind:
        kind = kind_of_column(field.type)
        if pa.types.is_uint64(field.type):
            kind = "int"
        if value.kind == "none":
            if not field.nullable:
                raise CannotCompile(f"field {field.name!r} should be {field.type}, but is None", line)
            if kind == "other":
                raise CannotCompile(f"None for a column of {field.type} cannot be compiled", line)
            return kind
        if value.kind == kind or (value.kind, kind) == ("int", "float"):
            return kind
        raise CannotCompile(f"field {field.name!r} should be {field.type}, but is {value.shown}", line)

    def _record(self, node: ast.expr, emitted: EmittedType) -> dict[str, ast.expr | Value]:
        """Return the value that the code emits for each column of an output."""
        given: dict[str, ast.expr | Value] = {}
        schema, record = emitted.schema, emitted.record
        made: Any = self.expressions.names.object(node.func) if isinstance(node, ast.Call) else None
        if self.scope.is_record(node):
            made = self.scope.record
        value = self._record_value(node, made)
        if value is not None and value.record is not None:
            made = value.record.cls
        if record is not None and not (isinstance(made, type) and issubclass(made, record)):
            raise CannotCompile(f"a record should be {record.__name__}", node.lineno)
        match node:
            case ast.Name() if self.scope.is_record(node):
                given = {
                    name: ast.Attribute(node, name, ast.Load(), lineno=node.lineno)
                    for name in self.scope.fields
                }
            case ast.Dict(keys=keys, values=values):
                for key, part in zip(keys, values, strict=True):
                    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                        raise CannotCompile("the keys of a record must be literal strings", node.lineno)
                    given[key.value] = part
            case ast.Tuple(elts=parts) if emitted.takes_tuples and len(parts) == len(schema):
                given = dict(zip(schema.names, parts, strict=True))
            case ast.Call() if value is None:
                given = self._fields_of_call(node)
            case _ if value is not None and value.record is not None:
                if not self._copies:
                    self.scope.shared.share(value.record.cls, node.lineno)
                what = f"TypeMismatch: a record should be {value.record.cls.__name__}, but is None"
                self.out.require_value(value, node.lineno, what)
                given = dict(value.record.fields)
            case _:
                raise CannotCompile(
                    f"{ast.unparse(node)} as a record cannot be compiled",
                    node.lineno,
                    "emit a dataclass or a dict where it is created: yield Alert(...)",
                )
        for name, each in given.items():
            if name not in schema.names:
                self._part(each)  # It is evaluated, although no column takes its value.
        missing = [name for name in schema.names if name not in given]
        if missing:
            raise CannotCompile(f"the record lacks {', '.join(missing)}", node.lineno)
        return given

    def _record_value(self, node: ast.expr, made: Any) -> Value | None:
        """Write an expression whose value is a dataclass. Return None for an expression that creates
        the record, or is the record that the method receives. `made` is the class of such a record."""
        if isinstance(node, ast.Dict | ast.Tuple | ast.Constant) or self.scope.is_record(node):
            return None
        return None if isinstance(made, type) else self.expressions.value(node)

    def _fields_of_call(self, node: ast.Call) -> dict[str, ast.expr | Value]:
        """Return the arguments of a dataclass, by field."""
        cls: Any = self.expressions.names.object(node.func)
        name = ast.unparse(node.func)
        if not (isinstance(cls, type) and only_sets_fields(cls)):
            raise CannotCompile(
                f"{name}() cannot be compiled", node.lineno, "emit plain dataclasses or dicts"
            )
        return fields_of_call(cls, node, self.out.texts)
