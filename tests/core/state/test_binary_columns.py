"""Columns of bytes that are encoded block by block."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rheos.core.state import binary_columns
from rheos.core.state.binary_columns import binary_column, chunks_of


@pytest.mark.parametrize("rows", [0, 1, 64, 65, 1000])
def test_a_column_has_each_value_in_its_order(rows: int) -> None:
    values = [bytes([row % 251]) * (row % 7) for row in range(rows)]
    column = binary_column(rows, lambda some: values[some])
    column.validate(full=True)
    assert column.type == pa.binary()
    assert column.to_pylist() == values


def test_later_values_may_be_much_longer_than_the_first() -> None:
    values = [b""] * 64 + [b"x" * 5_000] * 10 + [b"y" * 70_000]
    assert binary_column(len(values), lambda some: values[some]).to_pylist() == values


def test_values_beyond_the_size_of_an_array_are_converted_by_arrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binary_columns, "_MAX_ARRAY_BYTES", 100)
    values = [b"0123456789"] * 200
    column = binary_column(len(values), lambda some: values[some])
    assert [value for chunk in chunks_of(column) for value in chunk.to_pylist()] == values
