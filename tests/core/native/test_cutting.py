"""The native cut compared with its Python form, for drawn types, keys, nulls and slices."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rheos.core.errors import InputError
from rheos.core.native import library
from rheos.core.native.cutting import MOST_ROWS, NativeCut
from rheos.core.native.library import Kernels
from rheos.core.task.partition import Partitioner

KEYS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-3, 3)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.sampled_from([0.0, -0.0, float("nan"), 1.5])),
    (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 1e300, 0.1])),
    (pa.string(), st.text(max_size=40)),
    (pa.large_string(), st.text(max_size=9)),
    (pa.binary(), st.binary(max_size=300)),
    (pa.date32(), st.dates()),
    (pa.timestamp("ms"), st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))),
    (pa.timestamp("ns"), st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))),
    (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(6, 2), st.integers(-999, 999).map(lambda n: Decimal(n) / 4)),
]
"""Types of keys. The Python form cuts by those that the kernel does not know."""

VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *KEYS,
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.decimal256(50, 0), st.integers(-5, 5).map(Decimal)),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=2)),
    (pa.string_view(), st.text(max_size=20)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"])),
]


@contextmanager
def used(kernels: Kernels | None) -> Iterator[None]:
    before = library.current()
    library.use(kernels)
    try:
        yield
    finally:
        library.use(before)


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[str]]:
    """Draw a slice of a batch with one or two keys, and further columns with nulls."""
    rows = draw(st.integers(0, 40))
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2))
    others = draw(st.lists(st.sampled_from(VALUES), max_size=3))
    with_null = draw(st.integers(0, 9)) == 0
    columns: dict[str, pa.Array] = {}
    for number, (kind, values) in enumerate([*keys, *others]):
        is_key = number < len(keys)
        each = values if is_key and not with_null else st.none() | values
        columns[f"c{number}"] = pa.array(draw(st.lists(each, min_size=rows, max_size=rows)), kind)
    skip = draw(st.integers(0, min(rows, 9)))
    batch = pa.record_batch(columns).slice(skip, draw(st.integers(0, rows)))
    return batch, [f"c{number}" for number in range(len(keys))]


def bits(batch: pa.RecordBatch | None) -> list[bytes | None] | None:
    """Return a batch such that NaN equals NaN, and 0.0 does not equal -0.0."""
    return None if batch is None else [repr(row).encode() for row in batch.to_pylist()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(batches(), st.integers(2, 7), st.sampled_from([8, 100, 128, 32768]))
def test_both_forms_cut_alike(
    kernels: Kernels, drawn: tuple[pa.RecordBatch, list[str]], targets: int, groups: int
) -> None:
    batch, keys = drawn
    cut: dict[bool, Any] = {}
    for is_native in (False, True):
        with used(kernels if is_native else None):
            try:
                parts = Partitioner(keys, targets, groups).split(batch)
            except InputError as error:
                cut[is_native] = str(error)
                continue
        for part in parts:
            if part is not None:
                part.validate(full=True)
                assert part.schema.equals(batch.schema)
        cut[is_native] = [bits(part) for part in parts]
    assert cut[False] == cut[True]


def rows_of(count: int) -> pa.RecordBatch:
    texts = [None if n % 5 == 0 else "x" * (n % 9) for n in range(count)]
    return pa.record_batch({"k": pa.array(range(count)), "s": pa.array(texts, pa.string())})


def test_one_target_receives_the_batch_itself(kernels: Kernels) -> None:
    batch = rows_of(50).filter(pa.array([n == 7 for n in range(50)]))
    parts = NativeCut(batch.schema, ["k"], 3, 128).split(kernels, batch)
    assert parts is not None
    assert [part for part in parts if part is not None] == [batch]


def test_rows_outlive_the_batch_and_each_other(kernels: Kernels) -> None:
    cut = NativeCut(rows_of(1).schema, ["k"], 4, 128)
    parts = cut.split(kernels, rows_of(1000))
    assert parts is not None
    column = next(part for part in parts if part is not None).column("s")
    expected = column.to_pylist()
    del parts
    released = threading.Thread(target=cut.split, args=(kernels, rows_of(1000)))
    released.start()
    released.join()
    assert column.to_pylist() == expected


@pytest.mark.usefixtures("native")
def test_larger_batches_are_cut_in_python() -> None:
    batch = rows_of(MOST_ROWS + 1)
    parts = Partitioner(["k"], 2, 128).split(batch)
    assert sum(part.num_rows for part in parts if part is not None) == MOST_ROWS + 1


@pytest.mark.usefixtures("native")
def test_a_changed_schema_is_described_anew() -> None:
    cutter = Partitioner(["k"], 2, 128)
    for batch in (rows_of(9), rows_of(9).select(["k"]), rows_of(9)):
        parts = [part for part in cutter.split(batch) if part is not None]
        assert sorted(n for part in parts for n in part.column("k").to_pylist()) == list(range(9))
        assert all(part.schema.equals(batch.schema) for part in parts)
