from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rheos.connectors.generator import Block, GeneratorSource, generator
from rheos.core.errors import ProgramError, SchemaError, UserFunctionError
from tests.connectors.ports import Probe, assert_resumes_everywhere, pending_us, read, read_all


def numbers(block: Block) -> dict[str, Any]:
    return {"i": block.index(), "x": block.rng().random(block.rows)}


def source(**settings: Any) -> GeneratorSource:
    return generator(numbers, **{"count": 25, "splits": 2, "block_rows": 4, "seed": 7, **settings})


def test_the_count_is_distributed_over_the_splits() -> None:
    given = source()
    assert given.bounded
    assert [split.id for split in given.splits()] == ["00000", "00001"]
    per_split = [read(given.open(split, None, Probe().context())) for split in given.splits()]
    assert [[row["i"] for row in rows] for rows in per_split] == [list(range(13)), list(range(12))]
    assert per_split[0][0]["x"] != per_split[1][0]["x"]
    assert read_all(source(count=1, splits=4))[0]["i"] == 0
    assert not source(count=None).bounded


@pytest.mark.parametrize("splits", [1, 2, 4, 7])
def test_an_index_is_unique_per_split_and_a_number_over_all_splits(splits: int) -> None:
    made = generator(
        lambda block: {"i": block.index(), "n": block.number()}, count=25, splits=splits, block_rows=4
    )
    rows = read_all(made)
    assert sorted(row["n"] for row in rows) == list(range(25))
    assert [row["i"] for row in rows].count(0) == splits


def test_rows_depend_on_seed_split_and_number_alone() -> None:
    assert read_all(source(), max_rows=3) == read_all(source(), max_rows=1000)
    assert read_all(source(seed=8)) != read_all(source())
    for split in source().splits():
        assert_resumes_everywhere(source(), split)


def test_rows_are_emitted_when_they_are_due() -> None:
    given = source(count=None, rate_per_s=1000, due_column="due")
    splits = given.splits()
    probe = Probe()
    first, second = (given.open(split, None, probe.context()) for split in splits)
    start_ns = probe.clock.now_ns()
    assert [row["due"] - start_ns for row in read(first, limit=1)] == [0]
    assert pending_us(first.poll(10)) == 2000
    assert pending_us(second.poll(10)) == 1000
    probe.clock.us += 5000
    assert [row["due"] - start_ns for row in read(first, limit=2)] == [2_000_000, 4_000_000]
    assert [row["due"] - start_ns for row in read(second, limit=3)] == [1_000_000, 3_000_000, 5_000_000]
    assert pending_us(first.poll(10)) == 1000

    restored = given.open(splits[0], first.position(), probe.context())
    [row] = read(restored, limit=1)
    assert (row["i"], row["due"]) == (3, probe.clock.now_ns())
    assert pending_us(restored.poll(10)) == 2000


def test_at_full_speed_the_due_column_has_the_time_of_emission() -> None:
    probe = Probe()
    given = source(due_column="due")
    assert given.schema.names == ["i", "x", "due"]
    reader = given.open(given.splits()[0], None, probe.context())
    assert {row["due"] for row in read(reader, limit=4)} == {probe.clock.now_ns()}


def test_all_forms_of_rows_are_accepted() -> None:
    forms = [
        lambda b: {"s": ["x"] * b.rows, "n": pl.Series(b.index())},
        lambda b: pl.DataFrame({"s": ["x"] * b.rows, "n": b.index(), "more": b.index()}),
        lambda b: pa.RecordBatch.from_pydict({"n": b.index(), "s": ["x"] * b.rows}),
        lambda b: pa.table({"n": b.index(), "s": ["x"] * b.rows}),
    ]
    schema = pa.schema([("s", pa.string()), ("n", pa.int32())])
    for form in forms:
        assert read_all(generator(form, count=2, splits=1, schema=schema)) == [
            {"s": "x", "n": 0},
            {"s": "x", "n": 1},
        ]


def test_numbers_are_not_copied() -> None:
    array = np.arange(8)
    given = generator(lambda block: {"n": array[: block.rows]}, splits=1, block_rows=8)
    batch = given.open(given.splits()[0], None, Probe().context()).poll(5)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("n").buffers()[1].address == array.ctypes.data


def test_a_function_that_fails_or_returns_something_else_is_an_error() -> None:
    def broken(block: Block) -> dict[str, Any]:
        raise ValueError("no luck")

    with pytest.raises(UserFunctionError, match="broken raised ValueError: no luck") as caught:
        generator(broken)
    assert caught.value.detail is not None
    assert "in broken" in caught.value.detail
    with pytest.raises(UserFunctionError, match="returned 1 rows, not 16384"):
        generator(lambda block: {"n": [1]})
    schema = pa.schema([("m", pa.int64())])
    with pytest.raises(UserFunctionError, match="there is no column 'm'"):
        read_all(generator(numbers, count=1, schema=schema))
    with pytest.raises(UserFunctionError, match="do not fit"):
        generator(lambda block: {"n": [1], "m": [1, 2]}, count=1)
    with pytest.raises(UserFunctionError, match="do not fit"):
        generator(lambda block: 5, count=1)


def test_datetimes_with_a_zone_and_without_one_are_refused() -> None:
    noon = datetime(2026, 7, 1, 12)
    made = generator(
        lambda block: {"at": [None, noon, noon.replace(tzinfo=UTC)]},
        schema=pa.schema([("at", pa.timestamp("us", "UTC"))]),
        count=3,
        splits=1,
    )
    with pytest.raises(UserFunctionError, match="returned datetimes both with and without a time"):
        read_all(made)


def test_wrong_settings_are_refused() -> None:
    for wrong in ({"count": 0}, {"rate_per_s": -1}, {"splits": 0}, {"block_rows": 0}):
        with pytest.raises(ProgramError):
            source(**wrong)
    with pytest.raises(SchemaError, match="must be an int64"):
        source(due_column="x")
