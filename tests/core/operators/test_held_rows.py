"""Rows that are buffered until the watermark, and the order in which they are emitted."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from rheos.core.operators.buffered_rows import HELD, HELD_WATERMARKS, BufferedRows
from rheos.core.operators.sorting import sort_rows
from rheos.core.protocol.elements import TS
from rheos.core.protocol.snapshots import PartMode

SCHEMA = pa.schema([("user", pa.string()), (TS, pa.int64())])


def held_rows() -> BufferedRows:
    return BufferedRows(SCHEMA, ("user",), range(16), 16)


def rows(stamps: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([f"user {ts % 7}" for ts in stamps]), stamps], schema=SCHEMA)


def test_many_small_runs_are_merged_split_and_restored() -> None:
    rng = random.Random(1)
    held, left = held_rows(), []
    chains: dict[str, list[pa.Table]] = {}
    modes = set()
    for step in range(600):
        stamps = [step + rng.randrange(50) for _ in range(rng.randrange(4))]
        left += stamps
        held.add(rows(stamps))
        if step % 7 == 0:
            taken = held.take(step)
            due = sorted(stamp for stamp in left if stamp <= step)
            left = [stamp for stamp in left if stamp > step]
            assert sorted([] if taken is None else taken[TS].to_pylist()) == due
        if step % 5 == 0:
            for part in held.parts(step - step % 7):
                modes.add(part.mode)
                if part.mode is PartMode.FULL:
                    chains[part.state] = []
                chains[part.state].append(part.write())
        if step % 100 == 99:
            # The chain holds also what was delivered since; the watermark says which rows these are.
            for part in held.parts(step - step % 7):
                chains.setdefault(part.state, []).append(part.write())
            held = held_rows()
            held.restore(chains[HELD], chains[HELD_WATERMARKS])
        whole = held.savepoint(step)[0].write()
        assert sorted(whole[TS].to_pylist()) == sorted(left)
        groups = whole["key_group"].to_pylist()
        assert groups == sorted(groups)
    assert modes == {PartMode.FULL, PartMode.DELTA}


def test_each_key_group_waits_for_the_watermark_of_its_subtask() -> None:
    held = held_rows()
    table = pa.table(
        [pa.array([1, 1, 2, 2], pa.uint16()), ["a", "b", "c", "d"], [5, 9, 5, 9]],
        schema=pa.schema([("key_group", pa.uint16()), *SCHEMA]),
    )
    behind = pa.table({"key_group": pa.array([1, 2], pa.uint16()), "watermark": [5, 9]})
    held.restore([table], [behind])
    assert held.savepoint(-1)[0].write()["user"].to_pylist() == ["b"]


def test_a_chain_of_snapshots_is_bounded() -> None:
    held = held_rows()
    held.add(rows(list(range(100))))
    modes = []
    for _ in range(200):
        held.add(rows([100]))
        modes.append(held.parts(-1)[0].mode)
    assert 1 < modes.count(PartMode.FULL) < 5


def test_without_input_the_chain_is_kept_unless_most_of_it_is_delivered() -> None:
    held = held_rows()
    held.add(rows(list(range(100))))
    assert held.parts(-1)[0].mode is PartMode.FULL
    for watermark in (-1, 20, 40, 49):
        held.take(watermark)
        assert held.parts(watermark)[0].unchanged
    held.take(50)
    part = held.parts(50)[0]
    assert (part.mode, part.write().num_rows) == (PartMode.FULL, 49)
    assert held.parts(50)[0].unchanged


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
