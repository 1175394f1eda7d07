"""The position up to which a fork reads its input."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rheos.core.graph.watermark import Watermark
from rheos.core.operators.source_split import SPLIT_ROWS, SPLITS
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.ops.forks.recording import Extent, reached_ms


def state(**splits: tuple[int, bool]) -> Any:
    """Return state of a source: for each split its event time, and whether it is read to its end."""
    rows = [
        {
            "split": name,
            "payload": b"",
            "position": None,
            "max_ts": max_ts,
            "finished": finished,
            "phase": 0,
        }
        for name, (max_ts, finished) in splits.items()
    ]
    return {SPLITS: [pa.Table.from_pylist(rows, schema=SPLIT_ROWS)]}


@pytest.mark.parametrize(
    ("splits", "reached"),
    [
        ({"a": (50, False), "b": (90, False), "c": (10, True)}, 50),
        ({"a": (50, True), "b": (90, True)}, 90),
        ({"a": (MIN_TIMESTAMP_MS, False), "b": (90, False)}, 90),
        ({"a": (MIN_TIMESTAMP_MS, False)}, None),
    ],
)
def test_the_event_time_of_a_job_is_its_slowest_splits(
    splits: dict[str, tuple[int, bool]], reached: int | None
) -> None:
    assert reached_ms(state(**splits)) == reached


def test_a_split_that_is_ahead_is_read_equally_far_beyond() -> None:
    restored = state(slow=(100, False), ahead=(500, False), begun=(40, False))
    until = Extent(100, 10).until(Watermark.monotonic(on="at"), restored)
    assert until is not None
    assert [until(split) for split in ("slow", "ahead", "begun", "new")] == [110, 510, 110, 110]


@pytest.mark.parametrize("watermark", [None, Watermark.ingestion_time()])
def test_rows_without_event_time_are_limited_by_processing_time_alone(
    watermark: Watermark | None,
) -> None:
    assert Extent(100, 10).until(watermark, state(a=(100, False))) is None
    assert Extent(None, 10).until(Watermark.monotonic(on="at"), {}) is None
