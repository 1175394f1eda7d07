"""Temporal joins: each row is joined with the version that was valid at its time."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.operators.joins.latest_rows import LEAST_ROWS, LatestRows
from rheos.core.operators.late_rows import LATE_OF_TWO
from rheos.core.protocol.snapshots import PartMode
from rheos.testing import OperatorExample, check_example
from tests.core.operators.joins.oracle import LEFT, RIGHT, drawn_script, parted
from tests.core.operators.joins.test_interval_join import joined
from tests.worlds.join_programs import RowInTime, temporal_joined


@pytest.mark.parametrize(
    ("how", "keys"), [pytest.param("inner", 3, marks=pytest.mark.slow), ("left", 8)]
)
def test_random_rows_join_the_version_of_their_time_in_any_arrival(how: Any, keys: int) -> None:
    script = drawn_script(Random(f"temporal {how} {keys}"), 36, keys)

    def build(left: rh.DataStream, right: rh.DataStream) -> dict[str, rh.DataStream]:
        found = left.key_by("k").temporal_join(right.key_by("k"), how)
        return {"out": found, **{tag: found.side_output(tag) for tag in LATE_OF_TWO}}

    came = check_example(OperatorExample(build, LEFT, script, "at", RIGHT, "then"))
    rows = parted(script)
    wanted = Counter(temporal_joined(rows.left, rows.right, how))
    assert joined(came["out"]) == wanted
    assert len(wanted) >= 8
    assert sorted(row["l"] for row in came["late_left"]) == rows.late_left
    assert sorted(row["r"] for row in came["late_right"]) == rows.late_right


def of_age(rows: list[RowInTime], by_ms: int, most_ms: int, others: list[RowInTime]) -> Counter[Any]:
    """Return the joined rows, if versions are valid from `by_ms` to `most_ms` after their time."""
    found: Counter[Any] = Counter()
    for row in rows:
        valid = [other for other in others if other.k == row.k and row.at - other.at >= by_ms]
        last = max(valid, key=lambda other: (other.at, other.n), default=None)
        is_fresh = last is not None and row.at - last.at <= most_ms
        found[row.k, row.n, last.n if last is not None and is_fresh else None, row.at] += 1
    return found


@pytest.mark.parametrize(("delay_ms", "most_ms"), [(0, 6), (7, 10**6), (5, 12)])
def test_a_version_is_valid_after_its_delay_until_its_greatest_age(delay_ms: int, most_ms: int) -> None:
    script = drawn_script(Random(f"ages {delay_ms} {most_ms}"), 60, 4)

    def build(left: rh.DataStream, right: rh.DataStream) -> dict[str, rh.DataStream]:
        versions, age = right.key_by("k"), f"{most_ms}ms"
        found = left.key_by("k").temporal_join(versions, "left", max_age=age, delay=f"{delay_ms}ms")
        return {"out": found}

    came = check_example(OperatorExample(build, LEFT, script, "at", RIGHT, "then"))
    rows = parted(script)
    wanted = of_age(rows.left, delay_ms, most_ms, rows.right)
    assert joined(came["out"]) == wanted
    assert wanted != of_age(rows.left, 0, 10**9, rows.right)


def test_a_version_that_would_be_valid_never_is_refused() -> None:
    env = rh.Environment()
    at = rh.Watermark.monotonic(on="at")
    rows = env.from_source(rh.collection([{"k": 1, "at": 1}]), at).key_by("k")
    with pytest.raises(rh.ProgramError, match="no version would be joined"):
        rows.temporal_join(rows, suffix="_then", max_age="1s", delay="2s")


_SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def test_replaced_versions_are_removed_and_deltas_contain_the_others() -> None:
    rng = np.random.default_rng(3)
    versions = LatestRows("versions", _SCHEMA, ("k",), 16)
    latest: dict[int, int] = {}
    chain: list[pa.Table] = []
    modes = set()
    for step in range(300):
        keys = rng.integers(0, 500, int(rng.integers(1, 100)))
        rows = pa.record_batch([keys, np.full(len(keys), step)], schema=_SCHEMA)
        versions.put(versions.slots_of(rows), rows)
        latest.update(dict.fromkeys(keys.tolist(), step))
        if step % 10 == 0:
            part = versions.part()
            modes.add(part.mode)
            chain = [] if part.mode is PartMode.FULL else chain
            made = part.write()
            assert isinstance(made, pa.Table)
            chain.append(made)
            again = LatestRows("versions", _SCHEMA, ("k",), 16)
            again.restore(chain)
            every = pa.record_batch([np.arange(600), np.arange(600)], schema=_SCHEMA)
            numbers = again.find(again.known(every, ("k",)))
            there = numbers[numbers >= 0]
            found = again.take(there, ["k", "v"]).to_pylist()
            assert {row["k"]: row["v"] for row in found} == latest
            assert len(found) == len(latest)
    assert modes == {PartMode.FULL, PartMode.DELTA}
    assert sum(rows.num_rows for _, rows in versions._parts) <= LEAST_ROWS + 100
