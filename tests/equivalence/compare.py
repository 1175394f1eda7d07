"""Comparison of results: the multiset of a sink's rows equals that of the golden, value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa

from tests.equivalence.corpus.program import Golden, View

Counted = Counter[tuple[Any, ...]]


def difference(found: pa.Table, golden: Golden, view: View | None = None) -> str | None:
    """Return the difference of the rows, or None if they are equal."""
    wanted = _records(golden)
    if view is not None:
        kept = view(_frame(found))
        found = kept.to_arrow()
    names = found.column_names
    if wanted and set(wanted[0]) != set(names):
        return f"columns: found {names}, wanted {list(wanted[0])}"
    got = Counter(_row(row, names) for row in _python(found))
    expected = Counter(_row(row, names) for row in wanted)
    if got == expected:
        return None
    missing, surplus = expected - got, got - expected
    return (
        f"columns {names}: {missing.total()} of {expected.total()} rows missing, such as "
        f"{sorted(missing, key=repr)[:3]}; {surplus.total()} too many, such as "
        f"{sorted(surplus, key=repr)[:3]}"
    )


def _frame(table: pa.Table) -> pl.DataFrame:
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found


def _records(golden: Golden) -> list[Mapping[str, Any]]:
    return golden.to_dicts() if isinstance(golden, pl.DataFrame) else list(golden)


def _python(table: pa.Table) -> list[dict[str, Any]]:
    """Convert timestamps of ns to us: Python has no ns, and no program here needs them."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            cast = table.column(place).cast(pa.timestamp("us", tz=field.type.tz))
            table = table.set_column(place, field.name, cast)
    return table.to_pylist()


def _row(row: Mapping[str, Any], names: list[str]) -> tuple[Any, ...]:
    return tuple(_value(row[name]) for name in names)


def _value(value: Any) -> Any:
    """Return a comparable value: a float differs from an int, NaN is one value, an instant is in UTC,
    and a time without a zone is not an instant."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, datetime):
        at = value if value.tzinfo is None else value.astimezone(UTC)
        return at.replace(tzinfo=None).isoformat() + ("" if value.tzinfo is None else "Z")
    if isinstance(value, float):
        return f"float {value!r}"
    if isinstance(value, Decimal):
        return f"decimal {value.normalize()}"
    if isinstance(value, Mapping):
        return tuple((name, _value(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return ("list", *map(_value, value))
    return value
