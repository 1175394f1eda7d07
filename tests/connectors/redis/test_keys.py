"""Keys of different rows are never equal; keys that could not collide are unchanged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.connectors.redis.keys import KeyPattern
from rheos.core.errors import InputError, ProgramError

PATTERNS = ["v:{a}:{b}", "{a}::{b}", "v%{a}aa{b}x", "{a}:{b}:", "{a}1{b}", "é{a}é{b}"]
ESCAPED = ["v:{a}:{b}", "{a}::{b}", "{a}:{b}:", "é{a}é{b}", "{a}|{b}"]
parts = st.text("a:%1é|", max_size=4)


def rows(*pairs: tuple[Any, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"a": a, "b": b} for a, b in pairs], pa.schema([("a", pa.string()), ("b", pa.string())])
    )


def key(pattern: KeyPattern, row: tuple[str, str]) -> bytes | None:
    try:
        [found] = pattern.keys(rows(row)).to_pylist()
    except InputError:
        return None
    assert found is not None
    return bytes(found)


@pytest.mark.parametrize(
    ("pattern", "separators"),
    [*((p, "refuse") for p in PATTERNS), *((p, "escape") for p in ESCAPED)],
)
@given(pairs=st.lists(st.tuples(parts, parts), unique=True, max_size=8))
def test_rows_that_differ_have_keys_that_differ(
    pattern: str, separators: str, pairs: list[tuple[str, str]]
) -> None:
    made = KeyPattern.of(pattern, separators)
    found = [each for pair in pairs if (each := key(made, pair)) is not None]
    assert len(set(found)) == len(found)
    if separators == "escape":
        assert len(found) == len(pairs)


@given(pairs=st.lists(st.tuples(parts, parts), min_size=1, max_size=8))
def test_unambiguous_keys_are_the_same_as_before(pairs: list[tuple[str, str]]) -> None:
    """So a job that goes on overwrites and deletes what it has written before."""
    kept = KeyPattern.of("v:{a}:{b}", "keep")
    for pair in pairs:
        was = key(kept, pair)
        assert was == f"v:{pair[0]}:{pair[1]}".encode()
        assert key(KeyPattern.of("v:{a}:{b}"), pair) in (was, None)
        if not set(pair[0]) & {":", "%"}:
            assert key(KeyPattern.of("v:{a}:{b}"), pair) == was
            assert key(KeyPattern.of("v:{a}:{b}", "escape"), pair) == was


def test_one_column_holds_anything_and_nulls_stay_nulls() -> None:
    assert KeyPattern.of("v:{a}").keys(rows(("x:y", "b"))).to_pylist() == [b"v:x:y"]
    assert KeyPattern.of("{a}:{b}").keys(rows((None, "b"), ("a", None))).to_pylist() == [None, None]


def test_a_row_whose_key_could_collide_is_an_error_with_a_hint() -> None:
    with pytest.raises(InputError, match="the value of 'a' contains ':', which also") as caught:
        KeyPattern.of("v:{a}:{b}").keys(rows(("x", "y"), ("de:a", "b")))
    assert caught.value.record == "{'a': 'de:a', 'b': 'b'}"
    assert caught.value.hint is not None
    assert 'separators="keep"' in caught.value.hint
    numbers = pa.record_batch({"a": [112, -1], "b": [3, 4]})
    with pytest.raises(InputError, match="the value of 'a' contains '1', which also separates it"):
        KeyPattern.of("{a}1{b}").keys(numbers)


@pytest.mark.parametrize(
    ("pattern", "separators", "what"),
    [
        ("{a}{b}", "refuse", "has no text between 'a' and 'b': different rows could get the same"),
        ("{a}{b}", "escape", "has no text between 'a' and 'b': different rows could get the same"),
        ("{a}2{b}", "escape", "has '2' after 'a'"),
        ("{a}:{b}", "drop", "separators='drop' is not known"),
    ],
)
def test_a_pattern_whose_keys_must_collide_is_refused(pattern: str, separators: str, what: str) -> None:
    with pytest.raises(ProgramError, match=what):
        KeyPattern.of(pattern, separators)
    assert KeyPattern.of("{a}{b}", "keep").keys(rows(("x", "y"))).to_pylist() == [b"xy"]
