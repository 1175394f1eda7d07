"""Assignment of keys to groups: golden vectors, independence of Arrow's representation, ranges of
groups."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import InputError, Site
from rheos.core.protocol.elements import FEW_ROWS
from rheos.core.protocol.hashing import NullKeyError, hash_keys
from rheos.core.protocol.key_groups import group_range, owner_of
from rheos.core.state.key_groups import (
    HASH_VERSION,
    groups_of_columns,
    is_key_type,
    key_groups,
    refuse_null_keys,
    subtask_of,
)

NOON = dt.datetime(2020, 1, 1, 12)
MIDNIGHT = dt.datetime(2020, 1, 1)


def hashes(*columns: pa.Array) -> list[int]:
    return hash_keys(list(columns)).tolist()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            [pa.array([0, 1, -1, 2**62])],
            [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1, 0xE4D971771B652C20, 0xAA50EA8E0FA9EB],
        ),
        (
            [pa.array([0.0, 1.5, math.nan, -math.inf])],
            [0xE220A8397B1DCDAF, 0xD6DAB18E1392608A, 0xC72971D82E15BB46, 0x8CE2CA027CDA7FFE],
        ),
        (
            [pa.array(["", "a", "abcdefgh", "abcdefghi"])],
            [0xA706DD2F4D197E6F, 0xE07741460F47BE58, 0x97E942AAE56C35E2, 0x4F16190CED69DED8],
        ),
        ([pa.array(["grüße" * 10, "x" * 300])], [0xF49BA7FA38BE7697, 0x376BF25258D19EAE]),
        ([pa.array([NOON])], [0x4AB11E9E4A6F6B39]),
        ([pa.array([Decimal("1.50"), Decimal("-10.00")])], [0x9C4519250D119C19, 0x3B61AD00C2E423E1]),
        (
            [pa.array(["a", "b"]), pa.array([1, 2]), pa.array([True, False])],
            [0x5511B684E6BB9FE8, 0x1F225EFF6191BA87],
        ),
    ],
)
def test_golden_vectors(columns: list[pa.Array], expected: list[int]) -> None:
    """Compare with stored vectors, on which stored snapshots rely: they change only together with
    HASH_VERSION."""
    assert HASH_VERSION == 1
    assert hashes(*columns) == expected


def test_groups_are_computed_from_the_hash() -> None:
    column = pa.array(range(-500, 500))
    high = [value >> 33 for value in hashes(column)]
    for max_parallelism in (1, 2, 100, 128, 32768):
        expected = [bits * max_parallelism >> 31 for bits in high]
        assert groups_of_columns([column], max_parallelism).tolist() == expected


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats()), min_size=FEW_ROWS + 1))
def test_few_rows_are_hashed_as_many_are(rows: list[tuple[int, float]]) -> None:
    columns = [pa.array([n for n, _ in rows]), pa.array([x for _, x in rows], pa.float64())]
    singly = [hashes(*(column.slice(row, 1) for column in columns))[0] for row in range(len(rows))]
    assert singly == hashes(*columns)


SAME_INTEGERS = st.lists(st.integers(0, 127), min_size=1, max_size=40)


@given(SAME_INTEGERS)
def test_integers_of_all_widths_are_one_key(values: list[int]) -> None:
    expected = hashes(pa.array(values, pa.int64()))
    for kind in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"):
        assert hashes(pa.array(values, kind)) == expected
    assert hashes(pa.array(values, pa.int32()).dictionary_encode()) == expected
    assert hashes(pa.array([0, *values, 0]).slice(1, len(values))) == expected


TEXTS = st.lists(st.text(max_size=40) | st.text("ab", max_size=400), min_size=1, max_size=20)


@given(TEXTS)
def test_texts_are_one_key_in_every_layout(values: list[str]) -> None:
    expected = hashes(pa.array(values, pa.string()))
    raw = [value.encode() for value in values]
    for column in (
        pa.array(values, pa.large_string()),
        pa.array(values, pa.string_view()),
        pa.array(raw, pa.binary()),
        pa.array(raw, pa.large_binary()),
        pa.array(raw, pa.binary_view()),
        pa.array(values).dictionary_encode(),
        pa.array(["other", *values, ""]).slice(1, len(values)),
        pa.RunEndEncodedArray.from_arrays(list(range(1, len(values) + 1)), pa.array(values)),
    ):
        assert hashes(column) == expected
    # Each text by itself, so that the length of its neighbours does not matter.
    assert [hashes(pa.array([value]))[0] for value in values] == expected


@given(st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_floats_are_hashed_by_value(values: list[float]) -> None:
    wide = hashes(pa.array(values, pa.float64()))
    assert hashes(pa.array(values, pa.float32())) == wide
    negated = [-value if value == 0 or math.isnan(value) else value for value in values]
    assert hashes(pa.array(negated, pa.float64())) == wide


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([NOON], pa.timestamp("s")), pa.array([NOON], pa.timestamp("ns", tz="UTC"))),
        (pa.array([MIDNIGHT], pa.timestamp("us")), pa.array([MIDNIGHT.date()], pa.date32())),
        (pa.array([MIDNIGHT.date()], pa.date64()), pa.array([MIDNIGHT.date()], pa.date32())),
        (pa.array([NOON.time()], pa.time32("s")), pa.array([NOON.time()], pa.time64("ns"))),
        (pa.array([5], pa.duration("s")), pa.array([5_000_000], pa.duration("us"))),
        (pa.array([True]), pa.array([1])),
        (
            pa.array([Decimal("-1.50")], pa.decimal128(5, 2)),
            pa.array([Decimal("-1.5")], pa.decimal256(50, 20)),
        ),
        (pa.array([b"abc"], pa.binary(3)), pa.array(["abc"])),
    ],
)
def test_equal_values_are_one_key(left: pa.Array, right: pa.Array) -> None:
    assert hashes(left) == hashes(right)


def test_different_values_are_different_keys() -> None:
    texts = ["", "\0", "\0\0", "a", "a\0", "ab", "ba", "x" * 8, "x" * 9, "x" * 16, "x" * 300, "x" * 301]
    texts += [
        "abcdefgh12345678",
        "12345678abcdefgh",
        "abcdefgh\0" + "y" * 300,
        "y" * 300 + "abcdefgh\0",
    ]
    assert len(set(hashes(pa.array(texts)))) == len(texts)
    one, two = pa.array([1, 2]), pa.array([2, 1])
    assert hashes(one, two)[0] != hashes(two, one)[0]
    assert len(set(hashes(one, one) + hashes(two, one) + hashes(one))) == 6


@pytest.mark.parametrize(
    "column",
    [
        pa.array(np.arange(20_000)),
        pa.array(np.arange(20_000) << 40),
        pa.array(np.arange(20_000) * -128),
        pa.array(np.arange(20_000) / 7),
        pa.array([f"user-{i}" for i in range(20_000)]),
        pa.array([f"https://example.org/a/long/path/{i}/index.html" for i in range(20_000)]),
    ],
)
@pytest.mark.parametrize("max_parallelism", [100, 128])
def test_groups_are_filled_evenly(column: pa.Array, max_parallelism: int) -> None:
    filled = np.bincount(groups_of_columns([column], max_parallelism), minlength=max_parallelism)
    mean = len(column) / max_parallelism
    assert (abs(filled - mean) < 6 * math.sqrt(mean)).all()


def test_a_null_key_is_refused_with_its_place() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, 3]), "b": pa.array(["x", None, None])})
    with pytest.raises(NullKeyError) as caught:
        key_groups(batch, ["a", "b"], 128)
    assert (caught.value.column, caught.value.row) == (1, 1)
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None]))
    with pytest.raises(NullKeyError):
        hash_keys([hidden])


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", None]),
        pa.array(["x", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", None])),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["x", None])),
    ],
)
def test_a_null_key_is_found_however_it_is_encoded(column: pa.Array) -> None:
    with pytest.raises(InputError, match="'k' is null") as caught:
        refuse_null_keys(pa.record_batch({"k": column, "n": [1, 2]}), ["k"], Site("job.py", 4))
    assert caught.value.record == "{'k': None, 'n': 2}"
    assert (caught.value.site, caught.value.operator) == (Site("job.py", 4), "key_by")
    refuse_null_keys(pa.record_batch({"k": column, "n": [1, 2]}).slice(0, 1), ["k"], None)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())]
)
def test_nested_types_are_refused_as_keys(kind: pa.DataType) -> None:
    assert not is_key_type(kind)
    with pytest.raises(TypeError, match="a key cannot be of type"):
        hash_keys([pa.array([], kind)])


def test_every_key_type_hashes_an_empty_column() -> None:
    kinds: list[Any] = [
        pa.int8(),
        pa.string(),
        pa.float16(),
        pa.bool_(),
        pa.timestamp("s"),
        pa.binary(4),
    ]
    kinds += [pa.decimal128(5, 1), pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.date32()]
    for kind in kinds:
        assert is_key_type(kind)
        assert hashes(pa.array([], kind)) == []


@given(st.integers(1, 64), st.integers(1, 300))
def test_group_ranges_agree_with_subtask_of(parallelism: int, max_parallelism: int) -> None:
    parallelism = min(parallelism, max_parallelism)
    groups = np.arange(max_parallelism, dtype=np.uint16)
    owners = subtask_of(groups, parallelism, max_parallelism)
    for subtask in range(parallelism):
        owned = np.flatnonzero(owners == subtask).tolist()
        assert owned == list(group_range(subtask, parallelism, max_parallelism))
        assert {owner_of(group, parallelism, max_parallelism) for group in owned} == {subtask}
