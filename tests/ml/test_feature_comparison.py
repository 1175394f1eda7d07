"""The comparison of served features with training rows finds leaks, late rows and changed functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.ml.feature_comparison import DifferenceKind, FeatureComparison
from rheos.testing import simulate

START = datetime(2026, 1, 1, tzinfo=UTC)
NO_LATENESS = rh.Watermark.monotonic(on="at")


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


PURCHASES: list[dict[str, Any]] = [
    {"user": "ab"[n % 2], "amount": n, "at": at(10 * n)} for n in range(20)
]
MOMENTS = [(user, 15 + 30 * n) for n in range(6) for user in "ab"]


def spend(rows: rh.DataStream, factor: int = 1) -> rh.ml.Features:
    totals = rows.with_columns(amount=rh.col("amount") * factor).key_by("user")
    stream = totals.running(total=rh.agg.sum("amount"), n=rh.agg.count())
    return rh.ml.features("spend", stream, "user", columns=["n", "total"])


def trained(
    moments: list[tuple[str, int]],
    purchases: list[dict[str, Any]] = PURCHASES,
    *,
    factor: int = 1,
    leak_ms: int = 0,
) -> pa.Table:
    """Return training rows of these users and moments.

    Args:
        moments: The users and the moments in ms.
        purchases: The purchases, of which late ones are dropped.
        factor: Factor of the amounts.
        leak_ms: Time by which the labels are moved, so that their rows have later values.
    """
    labels = [{"user": user, "then": at(ms), "at": at(ms + leak_ms)} for user, ms in moments]

    def build(env: rh.Environment) -> rh.DataStream:
        rows = env.from_source(rh.collection(purchases), NO_LATENESS, name="purchases")
        given = env.from_source(rh.collection(labels), NO_LATENESS, name="labels")
        joined = rh.ml.training_rows(given, spend(rows, factor))
        return joined.select("user", "n", "total", "spend_at", asked_at="then")

    return simulate(build).out


def served(**other: Any) -> pa.Table:
    """Return answers at the moments, as a job with these differences returns them."""
    rows = trained(MOMENTS, **other)
    missing = rows.column("spend_at").is_null().to_pylist()
    status = ["missing" if each else "fresh" for each in missing]
    return rows.append_column("spend_status", pa.array(status))


def compared(answers: pa.Table, training: pa.Table, **arguments: Any) -> FeatureComparison:
    return rh.ml.compare_features(answers, training, name="spend", keys="user", **arguments)


def test_the_same_function_over_the_same_rows_is_equal() -> None:
    found = compared(served(), trained(MOMENTS))
    assert (found.answers, found.equal, found.share, found.ok) == (12, 12, 1.0, True)
    assert str(found) == "12 of 12 answers are equal (100.00%)"


def test_a_value_from_the_future_is_found() -> None:
    found = compared(served(), trained(MOMENTS, leak_ms=20))
    assert not found.ok
    assert found.counts == {DifferenceKind.FUTURE: 12}
    assert found.first is not None
    assert found.first.key == {"user": "a"}
    assert (found.first.feature, found.first.served, found.first.trained) == ("n", 1, 2)
    assert (found.first.moment, found.first.served_at, found.first.trained_at) == (
        at(15),
        at(0),
        at(20),
    )
    assert "training used a value from after the moment" in str(found)


def test_a_late_row_that_serving_dropped_is_found() -> None:
    late = {"user": "a", "amount": 100, "at": at(41)}
    in_order = sorted([*PURCHASES, late], key=lambda row: row["at"])
    # The late row arrives after all others.
    found = compared(served(purchases=[*PURCHASES, late]), trained(MOMENTS, in_order))
    assert found.equal == 7
    assert found.counts == {DifferenceKind.OLDER: 1, DifferenceKind.CHANGED: 4}
    assert found.first is not None
    assert found.first.kind is DifferenceKind.OLDER
    assert (found.first.moment, found.first.served_at, found.first.trained_at) == (
        at(45),
        at(40),
        at(41),
    )
    opposite = compared(served(purchases=in_order), trained(MOMENTS, [*PURCHASES, late]))
    assert opposite.counts == {DifferenceKind.NEWER: 1, DifferenceKind.CHANGED: 4}


def test_a_changed_function_is_found() -> None:
    found = compared(served(), trained(MOMENTS, factor=2))
    # The first purchase of `a` has the amount 0.
    assert found.equal == 1
    assert found.counts == {DifferenceKind.CHANGED: 11}
    assert found.first is not None
    assert (found.first.feature, found.first.key) == ("total", {"user": "b"})
    assert found.first.served_at == found.first.trained_at


def test_versions_that_could_not_be_served_yet_are_within_the_tolerance() -> None:
    answers = served()
    older = trained([(user, ms - 12) for user, ms in MOMENTS])
    moments = answers.sort_by([("asked_at", "ascending"), ("user", "ascending")]).column("asked_at")
    older = older.sort_by([("asked_at", "ascending"), ("user", "ascending")])
    position = older.schema.get_field_index("asked_at")
    older = older.set_column(position, "asked_at", moments)
    found = compared(answers, older)
    assert set(found.counts) == {DifferenceKind.NEWER}
    tolerated = compared(answers, older, tolerance="12ms")
    assert tolerated.ok
    assert tolerated.lagging == found.counts[DifferenceKind.NEWER]
    assert "differ within the tolerance" in str(tolerated)


def test_answers_without_a_training_row_are_found() -> None:
    found = compared(served(), trained(MOMENTS[:-1]))
    assert found.counts == {DifferenceKind.UNMATCHED: 1}


def test_floats_may_differ_by_a_relative_tolerance() -> None:
    answers, training = served(), trained(MOMENTS)
    position = training.schema.get_field_index("total")
    floats = training.column("total").cast(pa.float64())
    answers = answers.set_column(position, "total", floats)
    shifted = pa.array([value * (1 + 1e-12) for value in floats.to_pylist()])
    training = training.set_column(position, "total", shifted)
    assert compared(answers, training).counts == {DifferenceKind.CHANGED: 11}
    assert compared(answers, training, relative=1e-9).ok


def test_no_answers_are_not_ok() -> None:
    assert not compared(served().slice(0, 0), trained(MOMENTS)).ok


@pytest.mark.parametrize("column", ["user", "n", "spend_at", "asked_at"])
def test_a_missing_column_is_named(column: str) -> None:
    training = trained(MOMENTS).drop_columns([column])
    with pytest.raises(rh.SchemaError, match=f"the training rows have no column '{column}'"):
        compared(served(), training)
