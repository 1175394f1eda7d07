"""The error for a sum or a mean that its type cannot hold."""

from __future__ import annotations

from collections.abc import Iterable

from rheos.core.aggregates.contract import Agg


class SumTooLarge(ValueError):  # noqa: N818 - operators turn it into an InputError
    """A sum of integers beyond 64 bits, or a sum or mean of decimals beyond its type."""

    def __init__(
        self, row: int, column: str = "", *, what: str = "sum", limit: str = "64 bits"
    ) -> None:
        super().__init__(f"the {what} of {column!r} exceeds {limit} in row {row}")
        self.row = row
        """Row of the batch or frame."""
        self.column = column
        self.what, self.limit = what, limit

    def of(self, column: str, row: int | None = None) -> SumTooLarge:
        """Return the same error for another column and row."""
        row = self.row if row is None else row
        return SumTooLarge(row, column, what=self.what, limit=self.limit)

    def text(self, aggregates: Iterable[object]) -> tuple[str, str]:
        """Return the message and the hint. They name a call in SQL as the user wrote it."""
        calls = (each for each in aggregates if isinstance(each, Agg) and each.column == self.column)
        written = next((each.written for each in calls if each.written is not None), None)
        if written is not None:
            return self.in_sql(written)
        to = "to pl.Float64 if 15 digits are enough"
        if self._of_integers:
            to = f"to pl.Decimal(38, 0), or {to}"
        kind = "pl.Decimal(38, 0)" if self._of_integers else "pl.Float64"
        return (
            f"the {self.what} of {self.column!r} exceeds {self.limit}",
            f"cast the column first, {to}: .with_columns(pl.col({self.column!r}).cast({kind}))",
        )

    def in_sql(self, written: str) -> tuple[str, str]:
        """Return the message and the hint for a call in SQL."""
        to = "to DOUBLE if 15 digits are enough"
        if self._of_integers:
            to = f"to DECIMAL(38, 0), or {to}"
        return f"{written}: the {self.what} exceeds {self.limit}", f"CAST its argument {to}"

    @property
    def _of_integers(self) -> bool:
        return self.limit == "64 bits"
