"""Keys of nested values in GROUP BY, DISTINCT and PARTITION BY, where operators take single values.

A key is the string of `order_keys`. So it is equal for equal values, and the value can be read from it:
with NaN and 0.0 in the one form in which all equal values are grouped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np
import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.order_keys import (
    DIGITS_OF_BIGINT,
    END_OF_LIST,
    END_OF_TEXT,
    digits_from_nine,
    is_nested,
    is_ordered,
    order_key,
)
from rheos.sql.expressions.table import Typed
from rheos.sql.text import SqlText

_HALF = 1 << 63
_WHOLE = pl.Decimal(types.MOST_DIGITS, 0)


def as_key(value: Typed) -> Typed:
    """Return a value as a key: a nested one becomes a string, which is equal for equal values. Others
    are unchanged. `check_key` has allowed the type."""
    expr, kind = key_of(value.expr, value.type)
    return replace(value, expr=expr, type=kind)


def check_key(sql: SqlText, kind: pl.DataType, where: str, at: exp.Expr | None) -> None:
    """Raise SchemaError if values of the type cannot be compared for equality, such as maps."""
    if is_nested(kind) and not is_ordered(kind):
        raise sql.wrong_type(
            f"{types.name(kind)} cannot be a key of {where}: its values cannot be compared",
            at,
            "use its fields or elements, or TO_JSON",
        )


def key_of(value: pl.Expr, kind: pl.DataType) -> tuple[pl.Expr, pl.DataType]:
    """Return a value as a key, and the type of the key. See `as_key`."""
    return (order_key(value, kind), types.TEXT) if is_nested(kind) else (value, kind)


def value_of_key(key: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return the values of a type from the strings of `order_key`; null for null."""
    return of_columns(partial(_values_of_columns, kind=kind), [key], kind)


def _values_of_columns(columns: Sequence[pl.Series], kind: pl.DataType) -> pl.Series:
    [keys] = columns
    return _values(keys, kind)


def _form(kind: pl.DataType) -> str:
    """Return the regular expression of the keys of a type."""
    match kind:
        case pl.List():
            return f"(?:{_form_of_part(kind.inner)})*{END_OF_LIST}"
        case pl.Struct():
            return "".join(f"(?:{_form_of_part(each.dtype)})" for each in kind.fields)
        case pl.String() | pl.Binary():
            return f"[0-9a-f]*{END_OF_TEXT}"
        case pl.Decimal() if not _is_narrow(kind):
            return f"[0-9.]{{{kind.precision + 3}}}"
    return "[0-9]{20}"


def _form_of_part(kind: object) -> str:
    assert isinstance(kind, pl.DataType)
    return f"0|1{_form(kind)}"


def _is_narrow(kind: pl.DataType) -> bool:
    """Return whether a decimal's digits are those of a whole number of 64 bits."""
    return isinstance(kind, pl.Decimal) and kind.precision <= DIGITS_OF_BIGINT


def _values(keys: pl.Series, kind: pl.DataType) -> pl.Series:
    match kind:
        case pl.List():
            return _lists(keys, kind)
        case pl.Struct():
            return _structs(keys, kind)
        case pl.String():
            return keys.str.strip_suffix(END_OF_TEXT).str.decode("hex").cast(types.TEXT)
        case pl.Binary():
            return keys.str.strip_suffix(END_OF_TEXT).str.decode("hex")
        case pl.Decimal() if not _is_narrow(kind):
            return _wide_decimals(keys, kind)
    half = pl.Series([_HALF], dtype=_WHOLE)
    number = (keys.cast(_WHOLE) - half).cast(types.BIGINT)
    if types.is_floating(kind):
        bits = number.fill_null(0).to_numpy()
        floats = np.where(bits < 0, bits ^ (_HALF - 1), bits).view(np.float64)
        return pl.Series(keys.name, floats).set(keys.is_null(), None).cast(kind)
    if isinstance(kind, pl.Decimal):
        wide = pl.Decimal(types.MOST_DIGITS, kind.scale)
        unit = pl.Series([Decimal(1).scaleb(-kind.scale)], dtype=wide)
        return (number.cast(wide) * unit).cast(kind)
    if kind == types.DATE:
        return number.cast(types.INT).cast(kind)
    if isinstance(kind, pl.Datetime):
        return number.cast(pl.Datetime("us", kind.time_zone)).cast(kind)
    if isinstance(kind, pl.Duration):
        return number.cast(pl.Duration("us")).cast(kind)
    return number.cast(kind)


def _wide_decimals(keys: pl.Series, kind: pl.Decimal) -> pl.Series:
    of = pl.col("key")
    digits = of.str.slice(1)
    signed = pl.when(of.str.starts_with("1")).then(pl.lit("-") + digits_from_nine(digits))
    made = signed.otherwise(digits).cast(kind)
    return keys.alias("key").to_frame().select(made.alias(keys.name)).to_series()


def _values_of_parts(parts: pl.Series, kind: object) -> pl.Series:
    """Return the values within others, whose keys begin with "1"; "0" is a null."""
    assert isinstance(kind, pl.DataType)
    if kind == types.NULL:
        return pl.Series(parts.name, [None] * len(parts), dtype=kind)
    return _values(parts.str.slice(1).set(parts == "0", None), kind)


def _structs(keys: pl.Series, kind: pl.Struct) -> pl.Series:
    form = "".join(f"({_form_of_part(each.dtype)})" for each in kind.fields)
    parts = keys.str.extract_groups(f"^{form}$").struct
    fields = [
        _values_of_parts(parts.field(parts.fields[place]), each.dtype).alias(each.name)
        for place, each in enumerate(kind.fields)
    ]
    return pl.DataFrame(fields).to_struct(keys.name).set(keys.is_null(), None)


def _lists(keys: pl.Series, kind: pl.List) -> pl.Series:
    parts = keys.str.extract_all(_form_of_part(kind.inner))
    rows = pl.DataFrame({"row": pl.arange(0, len(keys), eager=True), "part": parts})
    each = rows.filter(pl.col("part").list.len() > 0).explode("part")
    values = each.with_columns(_values_of_parts(each["part"], kind.inner).alias("part"))
    lists = values.group_by("row", maintain_order=True).agg("part")
    found = rows.select("row").join(lists, on="row", how="left", maintain_order="left")["part"]
    empty = pl.Series([[]], dtype=kind)
    return found.cast(kind).zip_with(found.is_not_null() | keys.is_null(), empty).rename(keys.name)
