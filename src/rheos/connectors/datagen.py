"""Source of generated rows for SQL: random values and sequences, by the options of each column."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.generator import Block, GeneratorSource, generator
from rheos.connectors.registration import ConnectorRegistration
from rheos.connectors.sql_options import SqlOption
from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import duration_ms

_KINDS = ("random", "sequence")
_OPTIONS = ("kind", "min", "max", "length", "start", "end", "null-rate", "max-past")
_LENGTH = 100
"""Default number of characters of a random string."""
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True)
class GeneratedColumn:
    """Generator of the values of one column."""

    field: pa.Field
    options: Mapping[str, str]
    place: int
    """Number of the column. It makes the random values of columns independent of each other."""

    def values(self, block: Block, now_ms: int) -> pa.Array:
        """Return the values of a block of rows."""
        made = self._values(block, now_ms)
        rate = float(self.options.get("null-rate", 0))
        if rate and self.field.nullable:
            made = pa.array(
                made.to_pylist(), made.type, mask=self._rng(block).random(block.rows) < rate
            )
        return made

    def _values(self, block: Block, now_ms: int) -> pa.Array:
        kind, rng, rows = self.field.type, self._rng(block), block.rows
        if self.options.get("kind") == "sequence":
            numbers = pa.array(block.number() + int(self.options["start"]))
            return numbers.cast(kind)
        if pa.types.is_string(kind):
            length = int(self.options.get("length", _LENGTH))
            digits = _HEX[rng.integers(0, 16, (rows, length))]
            return pa.array(digits.view(f"S{length}").ravel()).cast(kind) if length else _empty(rows)
        if pa.types.is_boolean(kind):
            return pa.array(rng.random(rows) < 0.5)
        if pa.types.is_timestamp(kind):
            past = duration_ms(self.options["max-past"]) if "max-past" in self.options else 0
            return pa.array(now_ms - rng.integers(0, past + 1, rows)).cast(kind)
        if pa.types.is_integer(kind):
            least, most = _range(kind)
            low, high = int(self.options.get("min", least)), int(self.options.get("max", most))
            return pa.array(rng.integers(low, high, rows, endpoint=True)).cast(kind)
        numbers = self._floats(rng.random(rows))
        return pa.array(numbers).cast(kind, safe=False)

    def _rng(self, block: Block) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([block.seed, self.place, block.start]))

    def _floats(self, random: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        kind = self.field.type
        most = 10.0 ** (kind.precision - kind.scale) - 1 if pa.types.is_decimal(kind) else 1e38
        low, high = float(self.options.get("min", -most)), float(self.options.get("max", most))
        return low + random * (high - low)


def _empty(rows: int) -> pa.Array:
    return pa.array([""] * rows)


def _range(kind: pa.DataType) -> tuple[int, int]:
    most = 1 << (kind.bit_width - 1)
    return -most, most - 1


@dataclass(frozen=True)
class GeneratedRows:
    """Function that generates the rows of a block."""

    columns: tuple[GeneratedColumn, ...]
    start_ms: int
    rate_per_s: float

    def __call__(self, block: Block) -> dict[str, Any]:
        # Times of a block are those at which its first row is due.
        now_ms = self.start_ms + int(block.start * block.splits / self.rate_per_s * 1000)
        return {each.field.name: each.values(block, now_ms) for each in self.columns}


def source(
    *,
    schema: pa.Schema,
    rows_per_second: float = 10_000,
    number_of_rows: int | None = None,
    fields: Mapping[str, str] | None = None,
) -> GeneratorSource:
    """Generate rows, each column by its own options.

    Args:
        schema: The columns: numbers, strings, booleans and timestamps.
        rows_per_second: Number of rows per second.
        number_of_rows: Number of rows after which the source ends; None never ends. A sequence with an
            end also ends it.
        fields: Options of columns by "column.option": kind ("random" or "sequence"), min and max,
            length of strings, start and end of sequences, null-rate, max-past of timestamps.

    Returns:
        The source. The same rows are generated again after a failure.

    Raises:
        ProgramError: An option is unknown or its value is invalid, or a type cannot be generated.
    """
    by_column: dict[str, dict[str, str]] = {name: {} for name in schema.names}
    for option, value in (fields or {}).items():
        column, _, what = option.rpartition(".")
        if column not in by_column or what not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise ProgramError(
                f"'fields.{option}' is not an option of a column",
                hint=f"name a column and one of {known}",
            )
        by_column[column][what] = value
    columns = tuple(
        GeneratedColumn(schema.field(name), of, place)
        for place, (name, of) in enumerate(by_column.items())
    )
    count = number_of_rows
    for each in columns:
        _check(each)
        if each.options.get("kind") == "sequence":
            length = int(each.options["end"]) - int(each.options["start"]) + 1
            count = length if count is None else min(count, length)
    start_ms = math.floor(datetime.now(UTC).timestamp() * 1000)
    rows = GeneratedRows(columns, start_ms, rows_per_second)
    return generator(
        rows, count=count, rate_per_s=rows_per_second, splits=1, schema=schema, block_rows=1000
    )


def _check(column: GeneratedColumn) -> None:
    """Raise ProgramError if the options of a column do not fit its type."""
    kind, name, options = column.field.type, column.field.name, column.options
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_string)
    if not any(is_one(kind) for is_one in (*known, pa.types.is_boolean, pa.types.is_timestamp)):
        raise ProgramError(
            f"the column {name!r} is {kind}, which cannot be generated",
            hint="declare it as a number, STRING, BOOLEAN or TIMESTAMP, or compute it",
        )
    if options.get("kind", "random") not in _KINDS:
        raise ProgramError(
            f"'fields.{name}.kind' is {options['kind']!r}", hint=f"write one of {', '.join(_KINDS)}"
        )
    needed = ("start", "end") if options.get("kind") == "sequence" else ()
    for what in needed:
        if what not in options:
            raise ProgramError(
                f"the sequence {name!r} has no {what}", hint=f"add 'fields.{name}.{what}'"
            )
    for what in ("start", "end", "min", "max", "length", "null-rate"):
        try:
            float(options.get(what, 0))
        except ValueError:
            raise ProgramError(
                f"'fields.{name}.{what}' is {options[what]!r}", hint="write a number"
            ) from None


CONNECTOR = ConnectorRegistration(
    name="datagen",
    title="generated rows",
    module=__name__,
    source="source",
    sql_options={"fields.": SqlOption("fields")},
    docs="sql-scripts.md",
)
