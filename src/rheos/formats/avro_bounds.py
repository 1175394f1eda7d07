"""Bounds for the number of values that an Avro payload expands to.

Most values of Avro use at least one byte, so the length of a payload bounds their number. Some use
none: nulls, empty `fixed` values, and records of such. Records that nest these double their number with
each level, so a few bytes could expand to billions of values. There are two bounds:

- `MAX_FREE_VALUES`: values without bytes of their own that one value of a type may contain. A schema
with a type that exceeds it is refused.
- `MAX_VALUES` (`contract`): values in one payload. If a payload of this length might exceed the bound,
    it is scanned first. The scan creates no values, and stops at the bound.

The time to read a decimal in `bytes` grows with the square of its length, which the payload determines.
So a payload that could contain a long decimal is scanned, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from rheos.core.formats.contract import MAX_VALUES
from rheos.formats.bad_rows import RowsError

MAX_DEPTH = 64
"""Maximum levels of nested types."""
MAX_FREE_VALUES = 1_000
"""Maximum number of values without bytes of their own that a value of any type may contain."""
MAX_DECIMAL_BYTES = 4096
"""Maximum bytes of one decimal. The longest decimal of a column needs 32."""
_MAX_VARINT_BYTES = 10


class UnfitSchemaError(Exception):
    """Raised if an Avro schema is missing, is invalid, or lets a payload expand without bound."""


class _Cost(NamedTuple):
    free: int
    """Upper bound of the values in one value of the type, minus the bytes that they use."""
    least_bytes: int


_Skip: TypeAlias = Callable[[bytes, int], int]
"""Function that returns the end of the value at this index."""


class _MalformedError(Exception):
    pass


class AvroBounds:
    """Bounds of one parsed schema. Raises UnfitSchemaError if some payload could exceed them.

    Args:
        schema: schema as fastavro has parsed it.
        named: named types that the schema may refer to.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._named = named
        self._costs: dict[str, _Cost] = {}
        self._skips: dict[str, _Skip] = {}
        self._left = 0
        """Number of values that the rest of the scanned payload may contain."""
        self._per_byte = 0.0
        """Number of values per byte, beyond one."""
        self._has_decimals = False
        self._free = max(0, self._cost(schema, ()).free)
        self._schema = schema

    def values_in(self, payload: bytes, begin: int) -> int:
        """Return an upper bound of the number of values from `begin` on. Raise RowsError if it is too
        high."""
        size = len(payload) - begin
        values = self._free + size + int(self._per_byte * size)
        if values <= MAX_VALUES and not (self._has_decimals and size > MAX_DECIMAL_BYTES):
            return values
        self._left = MAX_VALUES
        try:
            self._skip(self._schema)(payload, begin)
        except (_MalformedError, IndexError):
            raise RowsError("it is not a record of its Avro schema: it ends too early") from None
        return MAX_VALUES - self._left

    # --- by schema ------------------------------------------------------------------------------------

    def _cost(self, schema: Any, around: tuple[str, ...], depth: int = 0) -> _Cost:
        if depth > MAX_DEPTH:
            raise UnfitSchemaError(f"it is nested deeper than {MAX_DEPTH}")
        if isinstance(schema, str):
            if schema in around:
                raise UnfitSchemaError(f"{schema} contains itself, which no row can")
            if schema in self._costs:
                return self._costs[schema]
            if schema in self._named:
                return self._cost(self._named[schema], around, depth)
            return _SCALARS.get(schema, _Cost(0, 1))
        if isinstance(schema, list):
            of = [self._cost(each, around, depth + 1) for each in schema]
            return _Cost(
                max((each.free for each in of), default=0) - 1,
                min((each.least_bytes for each in of), default=0) + 1,
            )
        name = schema.get("name", "")
        match schema["type"]:
            case "record" | "error":
                found = [
                    self._cost(each["type"], (*around, name), depth + 1) for each in schema["fields"]
                ]
                cost = _Cost(1 + sum(c.free for c in found), sum(c.least_bytes for c in found))
                self._costs[name] = cost
            case "array":
                item = self._cost(schema["items"], around, depth + 1)
                if not item.least_bytes:
                    raise UnfitSchemaError("it has an array of values that occupy no bytes")
                self._per_byte = max(self._per_byte, item.free / item.least_bytes)
                cost = _Cost(0, 1)
            case "map":
                value = self._cost(schema["values"], around, depth + 1)
                self._per_byte = max(self._per_byte, value.free / (value.least_bytes + 1))
                cost = _Cost(0, 1)
            case "fixed":
                if schema.get("logicalType") == "decimal" and schema["size"] > MAX_DECIMAL_BYTES:
                    raise UnfitSchemaError(f"it has a decimal of more than {MAX_DECIMAL_BYTES} bytes")
                cost = self._costs[name] = _Cost(1 - schema["size"], schema["size"])
            case "enum":
                cost = self._costs[name] = _Cost(0, 1)
            case "bytes" if schema.get("logicalType") == "decimal":
                self._has_decimals = True
                cost = _Cost(0, 1)
            case inner:
                cost = self._cost(inner, around, depth + 1)
        if cost.free > MAX_FREE_VALUES:
            raise UnfitSchemaError(
                f"{name or 'a type'} contains more than {MAX_FREE_VALUES} values that occupy no bytes"
            )
        return cost

    # --- by payload -----------------------------------------------------------------------------------

    def _skip(self, schema: Any) -> _Skip:
        """Return a function that skips one value of this type, and counts its values against the
        limit."""
        if isinstance(schema, list):
            return self._union([self._skip(each) for each in schema])
        if isinstance(schema, str):
            if schema in self._named:
                return self._named_skip(schema, self._named[schema])
            return self._counting(_PLAIN[schema])
        match schema["type"]:
            case "record" | "error" | "fixed" | "enum":
                return self._named_skip(schema["name"], schema)
            case "array":
                return self._blocks(self._skip(schema["items"]))
            case "map":
                key, value = self._counting(_after_bytes), self._skip(schema["values"])
                return self._blocks(lambda data, at: value(data, key(data, at)))
            case "bytes" if schema.get("logicalType") == "decimal":
                return self._counting(_after_decimal)
            case inner:
                return self._skip(inner)

    def _named_skip(self, name: str, schema: Any) -> _Skip:
        if name not in self._skips:
            match schema["type"]:
                case "fixed":
                    size: int = schema["size"]
                    self._skips[name] = self._counting(lambda data, at: at + size)
                case "enum":
                    self._skips[name] = self._counting(_after_varint)
                case _:
                    self._skips[name] = self._record([self._skip(f["type"]) for f in schema["fields"]])
        return self._skips[name]

    def _counting(self, skip: _Skip) -> _Skip:
        def counted(data: bytes, at: int) -> int:
            self._count()
            return skip(data, at)

        return counted

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise RowsError(
                f"it expands to more than {MAX_VALUES} values: split it into several payloads"
            )

    def _record(self, fields: list[_Skip]) -> _Skip:
        def skip(data: bytes, at: int) -> int:
            self._count()
            for field in fields:
                at = field(data, at)
            return at

        return skip

    def _union(self, branches: list[_Skip]) -> _Skip:
        def skip(data: bytes, at: int) -> int:
            index, at = _varint(data, at)
            if not 0 <= index < len(branches):
                raise _MalformedError
            return branches[index](data, at)

        return skip

    def _blocks(self, item: _Skip) -> _Skip:
        def skip(data: bytes, at: int) -> int:
            self._count()
            while True:
                count, at = _varint(data, at)
                if count < 0:
                    count, (_, at) = -count, _varint(data, at)
                if count == 0:
                    return at
                for _ in range(count):
                    at = item(data, at)
                    if at > len(data):
                        raise _MalformedError

        return skip


_SCALARS = {"null": _Cost(1, 0), "float": _Cost(-3, 4), "double": _Cost(-7, 8)}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place in range(_MAX_VARINT_BYTES):
        byte = data[at + place]
        found |= (byte & 127) << 7 * place
        if byte < 128:
            return (found >> 1) ^ -(found & 1), at + place + 1
    raise _MalformedError


def _after_varint(data: bytes, at: int) -> int:
    return _varint(data, at)[1]


def _after_bytes(data: bytes, at: int) -> int:
    length, at = _varint(data, at)
    if not 0 <= length <= len(data) - at:
        raise _MalformedError
    return at + length


def _after_decimal(data: bytes, at: int) -> int:
    end = _after_bytes(data, at)
    if end - _varint(data, at)[1] > MAX_DECIMAL_BYTES:
        raise RowsError(f"it has a decimal of more than {MAX_DECIMAL_BYTES} bytes")
    return end


_PLAIN: Mapping[str, _Skip] = {
    "null": lambda data, at: at,
    "boolean": lambda data, at: at + 1,
    "int": _after_varint,
    "long": _after_varint,
    "float": lambda data, at: at + 4,
    "double": lambda data, at: at + 8,
    "bytes": _after_bytes,
    "string": _after_bytes,
}
