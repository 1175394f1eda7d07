"""Input and output types of the user's functions, read from their annotations.

    def parse(line: Line) -> LogEvent                       a map: record in, record out
    def words(text: Text) -> Iterator[Word]                 flat: the element type counts
    def process(self, records: list[Event], ctx) -> ...     a window function: the element type counts

The input record class is the dataclass that annotates the first parameter; without one, records
arrive as named rows. The output type is the annotation of the result, or `returns=`, which wins.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa

from rheos.core.annotations import resolved_annotations
from rheos.core.callables import function_name
from rheos.core.connectors.schemas import resolve, spelled
from rheos.core.errors import SchemaError
from rheos.core.graph.nodes import StreamType
from rheos.core.graph.types import canonical, canonical_schema, describe
from rheos.core.graph.validate import check_columns, unknown_column
from rheos.core.protocol.annotations import without_none
from rheos.core.protocol.types import schema_of

_MANY = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.Sequence,
    collections.abc.Collection,
    list,
    tuple,
    set,
)
_NOT_RECORDS = (dict, list, tuple, set, str, bytes, int, float, bool, complex)

UNSAID = object()
"""Placeholder for a missing annotation."""


class Signature:
    """The resolved annotations of a function: those of its parameters in order, and that of its
    result."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        hints = resolved_annotations(fn)
        try:
            names = list(inspect.signature(fn).parameters)
        except (TypeError, ValueError):
            names = []
        self.parameters = [hints.get(name, UNSAID) for name in names]
        self.result = hints.get("return", UNSAID)

    @property
    def first(self) -> Any:
        return self.parameters[0] if self.parameters else UNSAID


def input_record(
    fn: Callable[..., Any], schema: pa.Schema, *, many: bool = False, position: int = 0
) -> type | None:
    """Return the record class of a function's parameter, checked against the columns that fill it.

    With `many`, the parameter is an iterable of records. None means named rows.
    """
    parameters = Signature(fn).parameters
    annotation = parameters[position] if position < len(parameters) else UNSAID
    if many:
        annotation = _element_of(annotation)
    return record_class(annotation, schema, function_name(fn))


def record_class(annotation: Any, schema: pa.Schema, name: str) -> type | None:
    """Return the dataclass that annotates a parameter; see `input_record`."""
    if _says_columns(annotation):
        _check_fields(annotation, schema, name)
        record: type = annotation
        return record
    if annotation in _NOT_RECORDS or typing.get_origin(annotation) in _NOT_RECORDS:
        raise SchemaError(
            f"{name} takes {spelled(annotation)}, which is not a type of record",
            hint="annotate the parameter with a dataclass that has the columns as fields, or leave it "
            f"without annotation to get named rows; the columns are {describe(schema)}",
        )
    return None


def _check_fields(record: type, schema: pa.Schema, function: str) -> None:
    declared = schema_of(record)
    for field in fields(record):
        if not field.init:
            continue
        if field.name not in schema.names:
            raise unknown_column(
                field.name, schema, f": {function} takes {record.__name__}, which has it"
            )
        want, have = declared.field(field.name).type, schema.field(field.name).type
        if not _fits(have, want):
            raise SchemaError(
                f"{function} takes {record.__name__}, whose field {field.name!r} is {want}, but "
                f"the column is {have}",
                hint="correct the dataclass, or cast the column before: "
                f".with_columns(col({field.name!r}).cast(...))",
            )


def _fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Return whether a column of one type can fill a field of the other, regardless of width and
    unit."""
    if pa.types.is_floating(want) and pa.types.is_integer(have):
        return True
    return _family(canonical(have)) == _family(canonical(want))


def _family(kind: pa.DataType) -> str:
    for name in ("integer", "floating", "timestamp", "date", "time", "duration", "decimal", "binary"):
        if getattr(pa.types, f"is_{name}")(kind):
            return name
    for name in ("list", "struct", "map"):
        if getattr(pa.types, f"is_{name}")(kind):
            return name
    if pa.types.is_fixed_size_list(kind):
        return "list"
    return "binary" if pa.types.is_fixed_size_binary(kind) else str(kind)


class DeclaredOutput(typing.NamedTuple):
    """An output type: its columns, and the dataclass that declared it, if any."""

    schema: pa.Schema
    record: type | None

    def after(self, before: StreamType) -> StreamType:
        """Return the type of a function's results. They have the event time of the rows that it
        receives."""
        changed = before.time_changed
        return StreamType(self.schema, before.event_time, self.record, time_changed=changed)


NOTHING = DeclaredOutput(pa.schema([]), None)
"""Output type of a function that declares no output."""


def declared_type(annotation: Any) -> DeclaredOutput:
    """Return the row type that a dataclass, a pyarrow Schema or a dict declares. Raises SchemaError."""
    schema, record = resolve(annotation)
    check_columns(schema)
    return DeclaredOutput(canonical_schema(schema), record)


def output_type(fn: Callable[..., Any], returns: Any, *, method: str, many: bool) -> DeclaredOutput:
    """Return the output type of a function: `returns`, or else the annotation of its result.

    With `many` the function returns an iterable of records. Raises SchemaError with an example.
    """
    if returns is not None:
        return declared_type(_element_of(returns) if many and _is_many(returns) else returns)
    return result_type(fn, Signature(fn).result, method=method, many=many)


def result_type(fn: Any, annotation: Any, *, method: str, many: bool) -> DeclaredOutput:
    """Return the output type that the annotation of a result declares; see `output_type`."""
    name = function_name(fn)
    example = "Iterator[Alert]" if many else "Alert"
    if annotation in (UNSAID, Any):
        how = f".{method}({name}, returns=Alert)"
        if name == "<lambda>":
            raise SchemaError(
                "a lambda has no return type, so its output columns are unknown",
                hint=f"write .{method}(lambda ..., returns=Alert), where Alert is a dataclass, a "
                "pyarrow.Schema or a dict",
            )
        raise SchemaError(
            f"{name} has no return annotation, so its output columns are unknown",
            hint=f"annotate its return type (`-> {example}`, where Alert is a dataclass), or write "
            f"{how}",
        )
    if many:
        if annotation in (None, type(None)):
            return NOTHING
        annotation = without_none(annotation)[0]
        if not _is_many(annotation):
            raise SchemaError(
                f"{name} returns {spelled(annotation)}, but {method}() needs an iterable of records",
                hint=f"yield the records, and annotate the return type as `-> {example}`",
            )
        annotation = _element_of(annotation)
        if annotation in (UNSAID, Any):
            raise SchemaError(
                f"{name} does not declare the type of the records that it returns",
                hint=f"annotate its return type as `-> {example}`, where Alert is a dataclass",
            )
    elif _is_many(annotation) and typing.get_origin(annotation) is not tuple:
        raise SchemaError(
            f"{name} returns {spelled(annotation)}, but {method}() needs one record",
            hint=f"use .flat_map({name}) for any number of records",
        )
    if not _says_columns(annotation):
        raise SchemaError(
            f"{name} returns {spelled(annotation)}, which does not declare the columns of a record",
            hint=f"annotate its return type as `-> {example}`, where Alert is a dataclass, or pass "
            "returns=",
        )
    return declared_type(annotation)


def _says_columns(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)


def _is_many(annotation: Any) -> bool:
    return (typing.get_origin(annotation) or annotation) in _MANY


def _element_of(annotation: Any) -> Any:
    """Return X of Iterator[X], list[X], Generator[X, ...]; UNSAID if it is missing."""
    arguments = typing.get_args(annotation) if _is_many(annotation) else ()
    return arguments[0] if arguments else UNSAID
