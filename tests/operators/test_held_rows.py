"""Rows that wait for the watermark, and the order in which they then come."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from rheos.operators.held import HeldRows
from rheos.operators.sorting import sort_rows
from rheos.protocol.elements import TS


def test_many_small_runs_are_merged_and_cut_right() -> None:
    rng = random.Random(1)
    held, left = HeldRows(), []
    for step in range(400):
        stamps = [step + rng.randrange(50) for _ in range(rng.randrange(4))]
        left += stamps
        held.add(pa.record_batch({TS: pa.array(stamps, pa.int64())}))
        if step % 7 == 0:
            taken = held.take(step)
            due = sorted(stamp for stamp in left if stamp <= step)
            left = [stamp for stamp in left if stamp > step]
            assert sorted([] if taken is None else taken[TS].to_pylist()) == due
        assert len(held.batches()) <= 64
    assert sorted(ts for batch in held.batches() for ts in batch[TS].to_pylist()) == sorted(left)


NESTED = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])
TIED = pa.schema(
    [
        ("f", pa.float64()),
        ("s", pa.string()),
        ("d", pa.dictionary(pa.int8(), pa.string())),
        ("b", pa.bool_()),
        ("took", pa.duration("s")),
        ("none", pa.null()),
        ("nested", NESTED),
        ("map", pa.map_(pa.string(), pa.int64())),
        (TS, pa.int64()),
    ]
)


def test_ties_are_broken_by_the_whole_row() -> None:
    base = {
        "f": 1.0,
        "s": "a",
        "d": "x",
        "b": False,
        "took": 1,
        "nested": None,
        "map": [("a", 1)],
        TS: 5,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"f": -0.0},
        {"f": 0.0},
        {"f": float("nan")},
        {"f": float("-inf")},
        {"f": None},
        {"s": "b"},
        {"s": None},
        {"d": "y"},
        {"b": True},
        {"took": -1},
        {"nested": {"x": 1.0, "tags": ["a"]}},
        {"nested": {"x": 1.0, "tags": ["b"]}},
        {"map": [("b", 1)]},
        {TS: 4},
        {TS: 6},
        {TS: 6, "s": "A"},
    ]
    batch = pa.RecordBatch.from_pylist([{**base, **change} for change in changes], TIED)
    expected = sort_rows(batch, TS)
    assert [str(x) for x in expected["f"].to_pylist()[1:6]] == ["-inf", "-0.0", "0.0", "1.0", "1.0"]
    assert expected["f"].to_pylist()[-3] is None
    assert expected[TS].to_pylist() == [4, *[5] * 14, 6, 6]
    assert expected["s"].to_pylist()[-2:] == ["A", "a"]
    for seed in range(5):
        order = list(range(len(changes)))
        random.Random(seed).shuffle(order)
        assert str(sort_rows(batch.take(pa.array(order)), TS).to_pylist()) == str(expected.to_pylist())
