"""`compare_features`: what serving returned, against the rows for training at the same moments.

The training rows are computed for the keys and moments of the recorded answers. Each answer is compared
with its training row. If they differ, the event times of both values tell the kind of difference:

    moment ──────────────────────────────────────────────► time of the look-up
    trained_at after the moment                             future: training used a later value
    served_at  < trained_at                                 older: serving used an earlier version
    trained_at < served_at                                  newer: training lacks the version
    served_at  = trained_at, but other values               changed: another function computed them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.known_names import names_hint
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.feature_terms import ASKED_AT, status_column, time_column
from rheos.core.site import located_at_call

_TRAINED = "__trained "
_NUMBER, _KIND, _MOMENT = "__number", "__kind", "__moment"


class DifferenceKind(StrEnum):
    """Kind of difference between an answer and its training row."""

    FUTURE = "future"
    """The training row has a value from after the moment, so it leaks the future."""
    OLDER = "older"
    """Serving returned an earlier version, or none: it lagged, or had dropped a late row."""
    NEWER = "newer"
    """Serving returned a later version than the training row has."""
    CHANGED = "changed"
    """Both are the same version, but with other values: the functions differ."""
    UNMATCHED = "unmatched"
    """The training rows lack the key and the moment."""


_MEANINGS = {
    DifferenceKind.FUTURE: "training used a value from after the moment",
    DifferenceKind.OLDER: "serving used an earlier version than training",
    DifferenceKind.NEWER: "training lacks the version that serving used",
    DifferenceKind.CHANGED: "the same version has other values",
    DifferenceKind.UNMATCHED: "the training rows lack the key and moment",
}


@dataclass(frozen=True)
class FeatureDifference:
    """One feature of one answer that differs from the training row."""

    kind: DifferenceKind
    key: Mapping[str, Any]
    feature: str
    served: Any
    trained: Any
    moment: datetime
    """Time of the look-up."""
    served_at: datetime | None
    """Event time of the served value."""
    trained_at: datetime | None
    """Event time of the value in the training row."""

    def __str__(self) -> str:
        key = ", ".join(f"{name}={value!r}" for name, value in self.key.items())
        return (
            f"{self.kind}: {_MEANINGS[self.kind]}\n"
            f"  {key} at {self.moment}, feature {self.feature!r}\n"
            f"  served  {self.served!r} of {self.served_at}\n"
            f"  trained {self.trained!r} of {self.trained_at}"
        )


@dataclass(frozen=True)
class FeatureComparison:
    """The result of `compare_features`.

    ```python
    print(comparison.share, comparison.counts, comparison.first)
    ```
    """

    answers: int
    """Number of recorded answers."""
    equal: int
    """Number of answers whose features all equal the training row."""
    lagging: int
    """Number of answers that differ only by a version that was younger than the tolerance."""
    counts: Mapping[DifferenceKind, int]
    """Number of the other answers by kind of difference."""
    first: FeatureDifference | None
    """The earliest difference that is not tolerated."""

    @property
    def share(self) -> float:
        """Share of equal answers, from 0 to 1."""
        return self.equal / self.answers if self.answers else 1.0

    @property
    def ok(self) -> bool:
        """Whether answers exist, and all are equal or tolerated."""
        return self.answers > 0 and self.first is None

    def __str__(self) -> str:
        lines = [f"{self.equal} of {self.answers} answers are equal ({self.share:.2%})"]
        if self.lagging:
            lines.append(f"{self.lagging} differ within the tolerance")
        lines += [f"{count} {kind}: {_MEANINGS[kind]}" for kind, count in self.counts.items()]
        return "\n".join(lines if self.first is None else [*lines, "", f"first {self.first}"])


@located_at_call
def compare_features(
    served: pa.Table,
    training: pa.Table,
    *,
    name: str,
    keys: str | Sequence[str],
    tolerance: Duration = "0s",
    relative: float = 0.0,
) -> FeatureComparison:
    """Compare recorded answers of serving with training rows at the same keys and moments.

    ```python
    comparison = rh.ml.compare_features(served, training, name="user_spend", keys="user")
    print(comparison)
    assert comparison.ok
    ```

    Args:
        served: Tables of `get_many`, concatenated.
        training: Results of `rh.ml.training_rows`, whose labels have the keys and `asked_at`, which is
            their event time.
        name: Name of the features.
        keys: The key columns.
        tolerance: Two versions may differ if the newer one is at most this much older than the moment:
            the time that values take until they can be served.
        relative: Relative difference of floating-point numbers that counts as equal.

    Returns:
        The comparison.

    Raises:
        ProgramError: The tolerance is not a duration.
        SchemaError: A table lacks a column.
    """
    key = [keys] if isinstance(keys, str) else [*keys]
    at, status = time_column(name), status_column(name)
    _check_columns(served, [*key, at, status, ASKED_AT], "served")
    known = {*key, at, status, ASKED_AT}
    values = [column for column in served.column_names if column not in known]
    _check_columns(training, [*key, *values, at, ASKED_AT], "training")
    rows = _pairs(
        pl.DataFrame(pl.from_arrow(served)),
        pl.DataFrame(pl.from_arrow(training)),
        key,
        values,
        at,
        status,
    )
    compared = rows.with_columns(_kind(rows, values, at, duration_ms(tolerance), relative).alias(_KIND))
    by_kind = dict(compared.group_by(_KIND).len().iter_rows())
    found = compared.filter(~pl.col(_KIND).is_in(["equal", "lagging"])).sort(_MOMENT, _NUMBER)
    counts = {kind: by_kind[kind.value] for kind in DifferenceKind if kind.value in by_kind}
    first = None
    if len(found):
        first = _difference(found.head(1), key, values, at, relative)
    return FeatureComparison(
        len(compared), by_kind.get("equal", 0), by_kind.get("lagging", 0), counts, first
    )


def _check_columns(table: pa.Table, names: Sequence[str], which: str) -> None:
    for name in names:
        if name not in table.column_names:
            raise SchemaError(
                f"the {which} rows have no column {name!r}",
                hint=names_hint(name, table.column_names, "the columns are"),
            )


def _pairs(
    served: pl.DataFrame,
    training: pl.DataFrame,
    keys: Sequence[str],
    values: Sequence[str],
    at: str,
    status: str,
) -> pl.DataFrame:
    """Return each answer with the columns of its training row, which have the prefix `_TRAINED`."""
    moment = pl.col(ASKED_AT).dt.epoch("ms").alias(_MOMENT)
    # A stale value was not returned, so its time does not count.
    fresh = pl.when(pl.col(status) == "fresh").then(pl.col(at)).alias(at)
    trained = training.select(
        *keys, moment, *(pl.col(name).alias(_TRAINED + name) for name in [*values, at])
    )
    trained = trained.with_columns(pl.lit(value=True).alias(_TRAINED)).unique([*keys, _MOMENT])
    answers = served.with_row_index(_NUMBER).with_columns(moment, fresh)
    return answers.join(
        trained, on=[*keys, _MOMENT], how="left", nulls_equal=True, maintain_order="left"
    )


def _kind(
    rows: pl.DataFrame, values: Sequence[str], at: str, tolerance_ms: int, relative: float
) -> pl.Expr:
    """Return the kind of each answer: a `DifferenceKind`, "equal" or "lagging"."""
    served, trained = pl.col(at).dt.epoch("us"), pl.col(_TRAINED + at).dt.epoch("us")
    same = pl.all_horizontal(*(_is_same(rows, name, relative) for name in values))
    newest_ms = pl.max_horizontal(pl.col(at).dt.epoch("ms"), pl.col(_TRAINED + at).dt.epoch("ms"))
    young = (newest_ms <= pl.col(_MOMENT)) & (pl.col(_MOMENT) - newest_ms <= tolerance_ms)
    other = served.ne_missing(trained)
    older = trained.is_not_null() & (served.is_null() | (served < trained))
    return (
        pl.when(pl.col(_TRAINED).is_null())
        .then(pl.lit(DifferenceKind.UNMATCHED.value))
        .when((pl.col(_TRAINED + at).dt.epoch("ms") > pl.col(_MOMENT)).fill_null(value=False))
        .then(pl.lit(DifferenceKind.FUTURE.value))
        .when(same)
        .then(pl.lit("equal"))
        .when((other & young & (tolerance_ms > 0)).fill_null(value=False))
        .then(pl.lit("lagging"))
        .when(~other)
        .then(pl.lit(DifferenceKind.CHANGED.value))
        .when(older)
        .then(pl.lit(DifferenceKind.OLDER.value))
        .otherwise(pl.lit(DifferenceKind.NEWER.value))
    )


def _is_same(rows: pl.DataFrame, name: str, relative: float) -> pl.Expr:
    one, other = pl.col(name), pl.col(_TRAINED + name)
    same = one.eq_missing(other)
    if relative and rows.schema[name].is_float() and rows.schema[_TRAINED + name].is_float():
        most = relative * pl.max_horizontal(one.abs(), other.abs())
        same = same | ((one - other).abs() <= most).fill_null(value=False)
    return same


def _difference(
    one: pl.DataFrame, keys: Sequence[str], values: Sequence[str], at: str, relative: float
) -> FeatureDifference:
    """Return the first feature of an answer that differs; the first of all if only the time does."""
    row = one.row(0, named=True)
    different = (name for name in values if not one.select(_is_same(one, name, relative)).item())
    feature = next(different, values[0])
    return FeatureDifference(
        DifferenceKind(row[_KIND]),
        {name: row[name] for name in keys},
        feature,
        row[feature],
        row[_TRAINED + feature],
        row[ASKED_AT],
        row[at],
        row[_TRAINED + at],
    )
