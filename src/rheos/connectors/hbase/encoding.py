"""Bytes of row keys and of values.

A value has the bytes of HBase's own `Bytes.toBytes`, so other programs can read it. A row key has other
bytes, because HBase sorts rows by them: a smaller key must have smaller bytes. Integers have their sign
bit inverted, and a string ends with a zero byte unless it is the last part of the key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from rheos.core.errors import SchemaError

MOST_KEY_BYTES = 32_767
"""Maximum length of a row key in HBase."""
_END = b"\0"
_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}
_FLOATS = {32: "f", 64: "d"}
_SCALE = struct.Struct(">i")
_EXACT = Context(prec=100)
_HINT = "cast it to a string, bytes, a number, a date or a timestamp, or leave it out: select(...)"


class CellCodec(NamedTuple):
    """Encoding of the values of one column."""

    plain: pa.DataType
    """Type of the values that are encoded: integers in place of dates and timestamps."""
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    """Raises ValueError if the bytes are no value of the type."""


def cell_codec(field: pa.Field) -> CellCodec:
    """Return the encoding of a column's values. Raises SchemaError if its type cannot be stored."""
    kind, t = field.type, pa.types
    if t.is_string(kind) or t.is_large_string(kind):
        return CellCodec(kind, str.encode, bytes.decode)
    if t.is_binary(kind) or t.is_large_binary(kind):
        return CellCodec(kind, bytes, bytes)
    if t.is_boolean(kind):
        return CellCodec(kind, lambda value: b"\xff" if value else b"\0", _decode_boolean)
    if t.is_decimal128(kind):
        return CellCodec(kind, _encode_decimal, lambda value: _decode_decimal(value, kind))
    if t.is_floating(kind) and kind.bit_width in _FLOATS:
        return _packed(kind, _FLOATS[kind.bit_width])
    plain = _integers_of(kind)
    if plain is None:
        raise SchemaError(
            f"column {field.name!r} is {kind}, which has no encoding in HBase", hint=_HINT
        )
    return _packed(plain, _integer_code(plain))


def plain_values(array: pa.Array, codec: CellCodec) -> list[Any]:
    """Return the values of a column as its codec encodes them."""
    plain: list[Any] = array.cast(codec.plain).to_pylist()
    return plain


def array_of(values: Sequence[Any], codec: CellCodec, kind: pa.DataType) -> pa.Array:
    """Return decoded values as a column. Raises pyarrow.ArrowInvalid if a value is out of range."""
    return pa.array(values, codec.plain).cast(kind)


class RowKeyCodec:
    """Encoding of the row keys that some columns make.

    Args:
        fields: the columns, in the order of their bytes in the key.

    Raises:
        SchemaError: the type of a column has no encoding that preserves its order.
    """

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._fields = tuple(fields)
        last = len(self._fields) - 1
        self._parts = [_key_codec(field, number == last) for number, field in enumerate(fields)]

    def encode(self, rows: pa.RecordBatch) -> list[bytes | str]:
        """Return the row key of each row, or the reason why it cannot have one.

        Args:
            rows: rows with the columns of the key.

        Returns:
            Bytes, or a reason such as "the column 'id' is null".
        """
        names = [field.name for field in self._fields]
        columns = [
            plain_values(rows.column(name), codec)
            for name, (codec, _) in zip(names, self._parts, strict=True)
        ]
        return [self._encode_key(values) for values in zip(*columns, strict=True)]

    def decode(self, keys: Sequence[bytes]) -> list[pa.Array]:
        """Return the columns of some row keys. Raises ValueError if a key does not fit them."""
        columns: list[list[Any]] = [[] for _ in self._parts]
        for key in keys:
            at = 0
            for values, (codec, size) in zip(columns, self._parts, strict=True):
                part, at = _part_of(key, at, size)
                values.append(codec.decode(part))
            if at != len(key):
                raise ValueError(f"{len(key) - at} more bytes than the key's columns have")
        return [
            array_of(values, codec, field.type)
            for values, (codec, _), field in zip(columns, self._parts, self._fields, strict=True)
        ]

    def _encode_key(self, values: Sequence[Any]) -> bytes | str:
        key = b""
        for value, field, (codec, size) in zip(values, self._fields, self._parts, strict=True):
            if value is None:
                return f"the column {field.name!r} is null"
            part = codec.encode(value)
            if size == _TERMINATED:
                if _END in part:
                    return f"the column {field.name!r} has a zero byte, which ends strings in keys"
                part += _END
            key += part
        if not key:
            return "the row key is empty"
        if len(key) > MOST_KEY_BYTES:
            return f"the row key has {len(key):,} bytes, and HBase's limit is {MOST_KEY_BYTES:,}"
        return key


_TERMINATED = 0
"""Size of a part of a key that ends with a zero byte."""
_REST = -1
"""Size of a part of a key that ends with the key."""


def _key_codec(field: pa.Field, is_last: bool) -> tuple[CellCodec, int]:
    """Return the encoding of one column of a key, and the size of its bytes."""
    kind, t = field.type, pa.types
    if t.is_string(kind) or t.is_large_string(kind):
        return cell_codec(field), _REST if is_last else _TERMINATED
    if t.is_binary(kind) or t.is_large_binary(kind):
        if not is_last:
            raise SchemaError(
                f"column {field.name!r} of the row key is {kind}, and is not its last column",
                hint="make it the last one, or cast it to a string",
            )
        return cell_codec(field), _REST
    plain = _integers_of(kind)
    if plain is None:
        raise SchemaError(
            f"column {field.name!r} is {kind}, which cannot be part of a row key",
            hint="use strings, bytes, whole numbers, dates or timestamps",
        )
    size = plain.bit_width // 8
    offset = 0 if t.is_unsigned_integer(plain) else 1 << (plain.bit_width - 1)

    def encode(value: int) -> bytes:
        return (value + offset).to_bytes(size, "big")

    def decode(part: bytes) -> int:
        return int.from_bytes(part, "big") - offset

    return CellCodec(plain, encode, decode), size


def _part_of(key: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return the bytes of a part of a key, and where the next part begins."""
    if size == _REST:
        return key[at:], len(key)
    if size == _TERMINATED:
        end = key.find(_END, at)
        if end < 0:
            raise ValueError("a string in it has no zero byte at its end")
        return key[at:end], end + 1
    if len(key) < at + size:
        raise ValueError("fewer bytes than the key's columns have")
    return key[at : at + size], at + size


def _integers_of(kind: pa.DataType) -> pa.DataType | None:
    """Return the integer type with the values of a type; None if it has no such values."""
    t = pa.types
    if t.is_integer(kind):
        return kind
    if t.is_date32(kind):
        return pa.int32()
    return pa.int64() if t.is_timestamp(kind) else None


def _integer_code(plain: pa.DataType) -> str:
    code = _INTEGERS[plain.bit_width]
    return code.upper() if pa.types.is_unsigned_integer(plain) else code


def _packed(plain: pa.DataType, code: str) -> CellCodec:
    layout = struct.Struct(f">{code}")

    def decode(value: bytes) -> Any:
        if len(value) != layout.size:
            raise ValueError(f"{len(value)} bytes, and not {layout.size}")
        return layout.unpack(value)[0]

    return CellCodec(plain, layout.pack, decode)


def _decode_boolean(value: bytes) -> bool:
    if len(value) != 1:
        raise ValueError(f"{len(value)} bytes, and not 1")
    return value != b"\0"


def _encode_decimal(value: Decimal) -> bytes:
    """Return the scale, and then the digits as an integer of as few bytes as possible."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a decimal of Arrow is finite"
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = ((whole if whole >= 0 else ~whole).bit_length() // 8) + 1
    return _SCALE.pack(-exponent) + whole.to_bytes(size, "big", signed=True)


def _decode_decimal(value: bytes, kind: pa.DataType) -> Decimal:
    if len(value) <= _SCALE.size:
        raise ValueError(f"{len(value)} bytes, which are too few for a decimal")
    if len(value) > _SCALE.size + kind.byte_width:
        raise ValueError(f"{len(value)} bytes, which are too many for a {kind}")
    (scale,) = _SCALE.unpack_from(value)
    if abs(scale) > kind.precision:
        raise ValueError(f"a decimal of scale {scale}, which does not fit a {kind}")
    whole = int.from_bytes(value[_SCALE.size :], "big", signed=True)
    return Decimal(whole).scaleb(-scale, _EXACT)
