"""The key index compared with a dict."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.protocol.hashing import NullKeyError
from rheos.core.state.key_index import KeyIndex
from rheos.core.state.word_index import WordIndex

INTEGERS = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
BATCHES = st.lists(st.lists(st.tuples(INTEGERS, st.text("abc", max_size=3)), max_size=30), max_size=8)


@given(BATCHES, st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a", "a")]))
def test_slots_are_numbered_like_entries_of_a_dict(
    batches: list[list[tuple[int, str]]], names: tuple[str, ...]
) -> None:
    types = {"a": pa.int64(), "b": pa.string()}
    index = KeyIndex([types[name] for name in names])
    slot_of: dict[tuple[object, ...], int] = {}
    for rows in batches:
        columns = {"a": [a for a, _ in rows], "b": [b for _, b in rows]}
        arrays = [pa.array(columns[name], types[name]) for name in names]
        keys = list(zip(*(columns[name] for name in names), strict=True))
        assert index.find(arrays).tolist() == [slot_of.get(key, -1) for key in keys]
        slots = index.lookup_or_add(arrays)
        for key, slot in zip(keys, slots.tolist(), strict=True):
            assert slot_of.setdefault(key, slot) == slot
        assert sorted(slot_of.values()) == list(range(len(index)))
    stored = zip(*(column.to_pylist() for column in index.columns()), strict=True)
    assert {key: slot for slot, key in enumerate(stored)} == slot_of


@given(BATCHES)
def test_keys_within_others_have_the_slots_of_whole_keys(batches: list[list[tuple[int, str]]]) -> None:
    whole, within = KeyIndex([pa.string(), pa.int64()]), KeyIndex([pa.string(), pa.int64()])
    for rows in batches:
        texts, numbers = (
            pa.array([b for _, b in rows], pa.string()),
            pa.array([a for a, _ in rows], pa.int64()),
        )
        firsts = texts.dictionary_encode()
        of = firsts.indices.to_numpy().astype(np.int64)
        slots = within.lookup_or_add_within([firsts.dictionary], of, numbers)
        assert slots.tolist() == whole.lookup_or_add([texts, numbers]).tolist()
        assert slots.tolist() == within.find([texts, numbers]).tolist()
    assert within.columns() == whole.columns()


@pytest.mark.parametrize("stride", [1, 8, 1 << 32, 1 << 50, -(1 << 20), 0x9E3779B97F4A7C15])
def test_many_regular_keys(stride: int) -> None:
    index = WordIndex()
    words = (np.arange(50_000, dtype=np.uint64) * np.uint64(stride % 2**64))[
        np.random.default_rng(1).permutation(50_000)
    ]
    distinct = len(np.unique(words))
    slots = np.concatenate(
        [index.lookup_or_add(words[at : at + 1000]) for at in range(0, 50_000, 1000)]
    )
    assert len(index) == distinct
    assert len(np.unique(slots)) == distinct
    assert (index.lookup_or_add(words) == slots).all()


def test_keys_close_together_then_far_apart_then_close_together_again() -> None:
    """Check the table by address, by hash, and by address again after enough keys."""
    index, slot_of = WordIndex(), {}
    close, far = np.arange(2_000), np.array([90_000, 2**63 - 1, 3])
    draw = np.random.default_rng(1)
    for values in (close, far[:1], np.arange(95_000), far, draw.permutation(95_000)):
        words = values.astype(np.uint64)
        assert index.find(words).tolist() == [slot_of.get(word, -1) for word in words.tolist()]
        for part in np.array_split(words, 7):
            slots = index.lookup_or_add(part).tolist()
            for word, slot in zip(part.tolist(), slots, strict=True):
                assert slot_of.setdefault(word, slot) == slot
    assert sorted(slot_of.values()) == list(range(len(index)))
    for word in (0, 90_000, 94_999, 2**63 - 1):
        assert index.lookup_or_add(np.array([word], np.uint64)).tolist() == [slot_of[word]]


def test_keys_are_distinguished_by_value() -> None:
    index = KeyIndex([pa.float64()])
    slots = index.lookup_or_add([pa.array([0.0, -0.0, math.nan, -math.nan, 1.0])])
    assert slots[0] == slots[1]
    assert slots[2] == slots[3]
    assert len(index) == 3


def test_representation_may_change_between_batches() -> None:
    index = KeyIndex([pa.string()])
    first = index.lookup_or_add([pa.array(["x", "y"])])
    for column in (
        pa.array(["x", "y"]).dictionary_encode(),
        pa.array(["x", "y"], pa.string_view()),
        pa.array(["x", "y"], pa.large_string()),
    ):
        assert (index.lookup_or_add([column]) == first).all()
    assert len(index) == 2


def test_many_batches_of_new_keys_are_kept_by_slot() -> None:
    index = KeyIndex([pa.string_view()])
    for at in range(150):
        index.lookup_or_add([pa.array([f"key {at}", f"key {at}"], pa.string_view())])
    assert index.columns()[0].to_pylist() == [f"key {at}" for at in range(150)]


def test_a_null_is_refused() -> None:
    with pytest.raises(NullKeyError):
        KeyIndex([pa.int64()]).lookup_or_add([pa.array([1, None])])


def test_frozen_columns_do_not_change_and_are_not_copied() -> None:
    index = KeyIndex([pa.int64()])
    index.lookup_or_add([pa.array(range(10_000))])
    (first,) = index.freeze()
    for at in range(10_000, 10_300):
        index.lookup_or_add([pa.array([at])])
    (later,) = index.freeze()
    assert first.to_pylist() == list(range(10_000))
    assert later.to_pylist() == list(range(10_300))
    assert later.chunk(0).buffers()[1].address == first.chunk(0).buffers()[1].address
    assert later.num_chunks < 70
