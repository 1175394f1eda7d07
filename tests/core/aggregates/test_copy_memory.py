"""Copies of large arrays use the memory of earlier copies that no longer exist."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa

from rheos.core.aggregates.cells import SlotArray
from rheos.core.aggregates.copy_memory import LEAST_BYTES, CopyMemory

ROWS = LEAST_BYTES // 8
KIND = np.dtype(np.int64)


def test_the_next_copy_uses_the_memory_of_a_copy_that_is_gone() -> None:
    memory = CopyMemory()
    first = memory.array(ROWS, KIND)
    address = first.ctypes.data
    del first
    gc.collect()
    assert memory.array(ROWS, KIND).ctypes.data == address


def test_a_copy_that_arrow_reads_keeps_its_memory() -> None:
    memory = CopyMemory()
    first = memory.array(ROWS, KIND)
    first[:] = 1
    read = pa.table({"n": pa.array(first)}).slice(5, 10).to_batches()[0].column(0)
    del first
    gc.collect()
    memory.array(ROWS, KIND)[:] = 2
    assert read.to_pylist() == [1] * 10
    assert read.to_numpy().tolist() == [1] * 10


def test_small_copies_have_memory_of_their_own() -> None:
    memory = CopyMemory()
    small = [memory.array(10, KIND) for _ in range(3)]
    assert len({each.ctypes.data for each in small}) == 3


def test_frozen_slots_of_a_large_array_do_not_change() -> None:
    slots = SlotArray(np.int64, 0)
    slots.grow(2 * ROWS)
    slots.values[:] = np.arange(len(slots.values))
    whole = slots.freeze(slice(0, 2 * ROWS))
    some = slots.freeze(np.arange(0, 2 * ROWS, 2))
    few = slots.freeze(np.array([3, 1]))
    slots.values[:] = -1
    again = slots.freeze(slice(0, 2 * ROWS))
    assert whole().equals(pa.array(np.arange(2 * ROWS)))
    assert some().equals(pa.array(np.arange(0, 2 * ROWS, 2)))
    assert few().to_pylist() == [3, 1]
    assert set(again()[:10].to_pylist()) == {-1}
