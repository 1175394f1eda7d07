"""The difference of two tables of rows: as multisets, and field by field if rows have a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from rheos.core.protocol.shown_rows import values_of

_OLD, _NEW = "old", "new"
_SIDE, _TURN, _SAME = "__side", "__turn", "__same"


@dataclass(frozen=True)
class OutputDifference:
    """The difference of one sink's rows. `rows` omits rows that both programs emit, as often as both
    emit them."""

    sink: str
    key: tuple[str, ...]
    """Columns by which rows of the two programs are compared. Without any, a changed row is shown as
    one row of the old program and one of the new."""
    old_rows: int
    new_rows: int
    same: int
    """Number of rows that both programs emit."""
    rows: pl.DataFrame
    """A row for each difference, in the order in which the rows were emitted. Its columns are
    `difference` ("only old", "only new" or "changed"), `fields` (the names of changed fields), `key` if
    there is one, and the rows as structs, `old` and `new`, of which one may be null."""
    columns_gone: tuple[str, ...] = ()
    """Columns that only the old program emits. They are not compared."""
    columns_added: tuple[str, ...] = ()
    cast: tuple[str, ...] = ()
    """Columns whose types differ, so that they are compared as strings."""

    @property
    def only_old(self) -> int:
        return self._count("only old")

    @property
    def only_new(self) -> int:
        return self._count("only new")

    @property
    def changed(self) -> int:
        return self._count("changed")

    @property
    def alike(self) -> bool:
        return not self.rows.height and not self.columns_gone and not self.columns_added

    @property
    def keys(self) -> int:
        """Number of keys with a difference; 0 if rows have no key."""
        return self.rows.get_column("key").n_unique() if self.key else 0

    @property
    def fields(self) -> dict[str, int]:
        """Return the number of rows in which each field changed, the largest first."""
        counts = self.rows.get_column("fields").explode().drop_nulls().value_counts(sort=True)
        return dict(counts.iter_rows())

    def _count(self, kind: str) -> int:
        return self.rows.filter(pl.col("difference") == kind).height


def difference(sink: str, key: Sequence[str], old: pa.Table, new: pa.Table) -> OutputDifference:
    """Return the difference. `key` names columns of both. Floats are equal if all bits are, or as
    NaN."""
    columns = [name for name in old.column_names if name in new.column_names]
    cast = tuple(name for name in columns if not _comparable(old, new, name))
    sides = [
        pl.DataFrame(pl.from_arrow(_as_text(table.select(columns), cast)))
        .with_columns(pl.lit(side).alias(_SIDE))
        .with_row_index(_TURN)
        for side, table in ((_OLD, old), (_NEW, new))
    ]
    both = pl.concat(sides, how="vertical_relaxed")
    # The n-th of equal rows on one side is paired with the n-th of them on the other.
    nth = pl.int_range(pl.len()).over([*columns, _SIDE])
    both = both.with_columns(nth.alias(_SAME)).with_columns(
        pl.len().over([*columns, _SAME]).alias(_SAME)
    )
    left = both.filter(pl.col(_SAME) == 1).drop(_SAME)
    return OutputDifference(
        sink,
        tuple(key),
        old.num_rows,
        new.num_rows,
        (both.height - left.height) // 2,
        _held_together(left, list(key), columns),
        tuple(name for name in old.column_names if name not in columns),
        tuple(name for name in new.column_names if name not in columns),
        cast,
    )


def _comparable(old: pa.Table, new: pa.Table, name: str) -> bool:
    was, now = old.schema.field(name).type, new.schema.field(name).type
    numbers = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (was, now)]
    return bool(was == now or all(numbers) or pa.types.is_null(was) or pa.types.is_null(now))


def _as_text(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    for name in columns:
        values = values_of(table.column(name))
        text = pa.array([None if value is None else str(value) for value in values], pa.string())
        table = table.set_column(table.column_names.index(name), name, text)
    return table


def _held_together(left: pl.DataFrame, key: list[str], columns: list[str]) -> pl.DataFrame:
    """Return the rows that are not in both tables, in the order of emission; rows with equal keys in
    pairs."""
    by = [*(key or columns), _SAME]
    turn = pl.int_range(pl.len()).over([*(key or columns), _SIDE])
    paired = left.with_columns(turn.alias(_SAME))
    halves = [
        paired.filter(pl.col(_SIDE) == side).select(
            *by, pl.col(_TURN).alias(_TURN + side), pl.struct(columns).alias(_SIDE + side)
        )
        for side in (_OLD, _NEW)
    ]
    joined = halves[0].join(
        halves[1],
        on=by,
        how="full",
        coalesce=True,
        nulls_equal=True,
        maintain_order="left_right",
    )
    here, there = (pl.col(_TURN + side).is_not_null() for side in (_OLD, _NEW))
    old, new = (pl.col(_SIDE + side) for side in (_OLD, _NEW))
    changed = [
        pl.when(old.struct.field(name).ne_missing(new.struct.field(name)) & here & there).then(
            pl.lit(name)
        )
        for name in columns
    ]
    kind = pl.when(here & there).then(pl.lit("changed")).when(here).then(pl.lit("only old"))
    return joined.sort(pl.coalesce(_TURN + _OLD, _TURN + _NEW), maintain_order=True).select(
        kind.otherwise(pl.lit("only new")).alias("difference"),
        pl.concat_list(changed).list.drop_nulls().alias("fields"),
        *([pl.struct(key).alias("key")] if key else []),
        old.alias(_OLD),
        new.alias(_NEW),
    )
