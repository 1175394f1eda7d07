"""Joins that are refused, at their line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import RheosError

_ORDERS = pa.schema([("id", pa.int64()), ("note", pa.string()), ("at", pa.int64())])
_PAID = pa.schema(
    [("id", pa.int64()), ("order", pa.string()), ("note", pa.string()), ("paid", pa.int64())]
)


def streams(watermark: bool = True) -> tuple[rh.DataStream, rh.DataStream]:
    env = rh.Environment(2)
    by = [rh.Watermark.monotonic(on=on) if watermark else None for on in ("at", "paid")]
    return (
        env.from_source(rh.collection(_ORDERS.empty_table()), by[0], name="orders"),
        env.from_source(rh.collection(_PAID.empty_table()), by[1], name="paid"),
    )


def wrong(given: Callable[[rh.DataStream, Any], Any], *, watermark: bool = True) -> str:
    orders, paid = streams(watermark)
    with pytest.raises(RheosError) as raised:
        given(orders, paid)
    assert raised.value.site is not None
    assert Path(raised.value.site.file) == Path(__file__)
    assert raised.value.hint
    return str(raised.value)


BETWEEN = ("-1m", "1m")


def test_an_empty_interval_is_refused() -> None:
    text = wrong(lambda a, b: a.key_by("id").interval_join(b.key_by("id"), between=("5m", "-5m")))
    assert "is empty: '5m' is greater than '-5m'" in text
    assert "between=('-5m', '5m')" in text
    text = wrong(lambda a, b: a.key_by("id").interval_join(b.key_by("id"), between="5m"))
    assert "the smallest and the largest distance, not '5m'" in text
    text = wrong(lambda a, b: a.key_by("id").interval_join(b.key_by("id"), between=("5", "6m")))
    assert "'5' is not a duration" in text


def test_an_interval_beyond_the_range_of_times_is_refused() -> None:
    for_ever = ("0s", "106751991167d")
    text = wrong(lambda a, b: a.key_by("id").interval_join(b.key_by("id"), between=for_ever))
    assert "exceeds the maximum of a million years" in text


def test_columns_that_both_sides_have_are_refused() -> None:
    text = wrong(lambda a, b: a.key_by("id").interval_join(b.key_by("id"), between=BETWEEN))
    assert "both sides have a column 'note'" in text
    assert 'suffix="_right"' in text
    text = wrong(
        lambda a, b: (
            a.with_columns(note_r="note")
            .key_by("id")
            .interval_join(b.key_by("id"), between=BETWEEN, suffix="_r")
        )
    )
    assert "two columns are named 'note_r'" in text


def test_keys_of_different_types_are_refused() -> None:
    text = wrong(
        lambda a, b: a.key_by("id").interval_join(b.key_by("order"), between=BETWEEN, suffix="_r")
    )
    assert "(id: int64), but (order: string)" in text


def test_a_stream_without_event_time_is_refused() -> None:
    text = wrong(
        lambda a, b: a.key_by("id").interval_join(b.key_by("id"), between=BETWEEN, suffix="_r"),
        watermark=False,
    )
    assert "an interval join needs event time" in text


def test_other_values_than_keyed_streams_are_refused() -> None:
    assert "takes a keyed stream" in wrong(
        lambda a, b: a.key_by("id").interval_join(b, between=BETWEEN)
    )
    other = streams()[1].key_by("id")
    text = wrong(lambda a, b: a.key_by("id").interval_join(other, between=BETWEEN, suffix="_r"))
    assert "streams of one environment" in text
    assert 'call key_by() first: .key_by("user").' in wrong(
        lambda a, b: a.interval_join(b.key_by("id"), between=BETWEEN)  # type: ignore[attr-defined]
    )


def test_an_unknown_kind_of_join_is_refused() -> None:
    how: Any = "outer"
    text = wrong(lambda a, b: a.key_by("id").interval_join(b.key_by("id"), BETWEEN, how, suffix="_r"))
    assert '"inner", "left", "right", "full"' in text


def test_unsupported_windows_are_refused() -> None:
    for window in (rh.CountTumbling(3), rh.Tumbling("1m", time="processing_time"), "1m"):
        text = wrong(
            lambda a, b, window=window: a.key_by("id").window_join(b.key_by("id"), window, suffix="_r")
        )
        assert "window_join() takes windows in event time" in text


def test_a_function_with_the_wrong_arguments_is_refused() -> None:
    function: Any = lambda left, right: left  # noqa: E731
    text = wrong(lambda a, b: a.key_by("id").co_group(b.key_by("id"), rh.Tumbling("1m"), function))
    assert "takes a CoGroupFunction" in text


def test_the_resulting_columns() -> None:
    orders, paid = streams()
    wide = paid.with_columns(id=pl.col("id").cast(pl.Int32)).with_columns("id", much=pl.lit(1.5))
    found = orders.key_by("id").interval_join(
        wide.key_by("id"), between=BETWEEN, how="full", suffix="_paid"
    )
    assert [(field.name, field.type, field.nullable) for field in found.schema] == [
        ("id", pa.int64(), True),
        ("note", pa.string(), True),
        ("at", pa.int64(), True),
        ("order", pa.string(), True),
        ("note_paid", pa.string(), True),
        ("paid", pa.int64(), True),
        ("much", pa.float64(), True),
    ]
    assert found.side_output("late_left").schema == orders.schema
    assert found.side_output("late_right").schema == wide.schema
