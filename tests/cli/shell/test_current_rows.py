"""Current rows of a query, and their display."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from rheos.cli.shell.current_rows import CurrentRows, drawn
from rheos.core.errors import InputError
from rheos.core.graph.changelog import Changes
from rheos.sql.first_rows import ORDER


def changes(*rows: tuple[str, str, int]) -> pa.Table:
    ops, names, counts = zip(*rows, strict=True)
    return pa.table({"name": names, "n": counts, "op": ops})


def current(of: Changes | None, *tables: pa.Table, most: int = 10) -> list[tuple[Any, ...]]:
    rows = CurrentRows(tables[0].column_names, of, most)
    for table in tables:
        rows.add(table)
    assert rows.count == len([*rows])
    return [*rows]


def test_upserts_replace_the_row_of_a_key() -> None:
    first = changes(("insert", "a", 1), ("insert", "b", 1))
    then = changes(("update_after", "a", 2), ("delete", "b", 1))
    assert current(Changes(("name",), retracts=False), first, then) == [("a", 2)]


def test_rows_in_order_are_never_a_part_of_the_result() -> None:
    rows = pa.table({"n": [1, 2, 3], ORDER: ["c", "a", "b"]})
    assert current(None, rows) == [(2,), (3,), (1,)]
    with pytest.raises(InputError, match="more than 2 rows") as caught:
        current(None, rows, most=2)
    assert caught.value.hint == "add LIMIT, or leave out ORDER BY to see the last rows"


def test_retractions_remove_the_row_of_a_key() -> None:
    first = changes(("insert", "a", 1))
    then = changes(("update_before", "a", 1), ("update_after", "a", 2))
    assert current(Changes(("name",), retracts=True), first, then) == [("a", 2)]


def test_rows_without_a_key_are_counted() -> None:
    first = changes(("insert", "a", 1), ("insert", "a", 1), ("insert", "b", 1))
    then = changes(("delete", "a", 1), ("update_before", "b", 1), ("update_after", "b", 2))
    assert current(Changes((), retracts=True), first, then) == [("a", 1), ("b", 2)]


def test_only_the_last_append_only_rows_are_kept() -> None:
    rows = CurrentRows(["n"], None, most=3)
    rows.add(pa.table({"n": range(5)}))
    rows.add(pa.table({"n": [5]}))
    assert ([*rows], rows.count) == ([(3,), (4,), (5,)], 6)
    assert drawn(rows, height=2)[-3:] == ["4", "5", "(6 rows, the last 2 shown)"]


def test_a_table_that_grows_too_large_is_an_error_with_a_hint() -> None:
    rows = CurrentRows(["name", "n"], Changes(("name",), retracts=False), most=1)
    with pytest.raises(InputError, match="more than 1 rows") as caught:
        rows.add(changes(("insert", "a", 1), ("insert", "b", 1)).select(["name", "n", "op"]))
    assert caught.value.hint == "aggregate, filter, or INSERT INTO a table"


def test_lines_are_aligned_and_cut_to_the_width() -> None:
    rows = CurrentRows(["at", "n", "what"], None)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows.add(pa.table({"at": [at, None], "n": [7, 10], "what": ["a\nb", "x" * 40]}))
    assert drawn(rows, width=40) == [
        "at                    n  what",
        "-------------------  --  ------------...",
        "2026-03-01 12:00:00   7  a\\nb",
        "null                 10  xxxxxxxxxxxx...",
        "(2 rows)",
    ]
    assert all(len(line) <= 40 for line in drawn(rows, width=40))
