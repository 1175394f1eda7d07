"""Comparison of the rows of two programs."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan
from typing import Any

import pyarrow as pa
import pytest

from rheos.ops.forks.difference import OutputDifference, difference


def compared(old: list[Any], new: list[Any], key: str = "") -> OutputDifference:
    """Compare rows (key, n) of two programs."""
    tables = [
        pa.table(
            {
                "k": pa.array([row[0] for row in rows], pa.string()),
                "n": pa.array([row[1] for row in rows]) if rows else pa.array([], pa.int64()),
            }
        )
        for rows in (old, new)
    ]
    return difference("out", key.split(), *tables)


def test_duplicate_rows_are_counted() -> None:
    found = compared([("a", 1), ("a", 1), ("b", 2)], [("a", 1), ("b", 2), ("c", 3)])
    assert (found.old_rows, found.new_rows, found.same) == (3, 3, 2)
    assert found.rows.rows() == [
        ("only old", [], {"k": "a", "n": 1}, None),
        ("only new", [], None, {"k": "c", "n": 3}),
    ]
    assert (found.only_old, found.only_new, found.changed, found.keys) == (1, 1, 0, 0)


def test_a_changed_row_shows_its_fields_before_and_after() -> None:
    found = compared([("a", 1), ("b", 2), ("d", 4)], [("a", 1), ("b", 3), ("c", 4)], "k")
    assert found.rows.columns == ["difference", "fields", "key", "old", "new"]
    assert found.rows.rows() == [
        ("changed", ["n"], {"k": "b"}, {"k": "b", "n": 2}, {"k": "b", "n": 3}),
        ("only old", [], {"k": "d"}, {"k": "d", "n": 4}, None),
        ("only new", [], {"k": "c"}, None, {"k": "c", "n": 4}),
    ]
    assert (found.fields, found.keys) == ({"n": 1}, 3)


def test_rows_of_one_key_are_paired_in_order() -> None:
    found = compared([("a", 1), ("a", 2), ("a", 3)], [("a", 2), ("a", 5)], "k")
    assert [(kind, old["n"]) for kind, _, _, old, _ in found.rows.rows()] == [
        ("changed", 1),
        ("only old", 3),
    ]


def test_null_and_nan_equal_themselves_alone() -> None:
    assert compared([(None, nan), ("a", None)], [("a", None), (None, nan)]).alike
    found = compared([(None, 1.0)], [(None, nan)], "k")
    assert found.fields == {"n": 1}


@pytest.mark.parametrize(
    "value",
    [[1, None], {"x": 1}, b"\x00", datetime(2026, 1, 1, tzinfo=UTC), [{"x": [2]}]],
)
def test_values_of_any_type_are_compared(value: object) -> None:
    assert compared([("a", value)], [("a", value)]).alike
    found = compared([("a", value)], [("a", None)], "k")
    assert found.rows.rows()[0][:3] == ("changed", ["n"], {"k": "a"})


def test_numbers_are_compared_by_value_and_others_as_strings() -> None:
    assert compared([("a", 1)], [("a", 1.0)]).alike
    found = compared([("a", 1)], [("a", "1")], "k")
    assert (found.same, found.cast) == (1, ("n",))


def test_columns_of_only_one_program_are_named_not_compared() -> None:
    old = pa.table({"k": ["a"], "gone": [1]})
    new = pa.table({"k": ["a"], "added": [2]})
    found = difference("out", ["k"], old, new)
    assert (found.same, found.columns_gone, found.columns_added) == (1, ("gone",), ("added",))
    assert not found.alike


def test_empty_outputs_are_alike() -> None:
    assert compared([], []).alike
    assert compared([], [], "k").alike


def test_columns_may_have_any_names() -> None:
    """Even the names of the difference's own columns."""
    row = {"key": "a", "old": 1, "new": 2, "difference": 3, "fields": 4}
    old, new = (pa.Table.from_pylist([each]) for each in (row, {**row, "old": 5}))
    found = difference("out", ["key"], old, new)
    assert found.fields == {"old": 1}
    assert found.rows["new"].to_list() == [{**row, "old": 5}]
