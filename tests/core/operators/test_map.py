"""map and flat_map: records, timestamps, bounded outputs, errors with the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from rheos.core.errors import UserFunctionError
from rheos.core.graph.nodes import StreamType
from rheos.core.operators.contract import Operator, OutputType
from rheos.core.operators.map import FlatMapOperator, MapOperator, MapSpec
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.types import schema_of
from tests.core.operators.contexts import context


@dataclass
class Line:
    text: str


@dataclass
class Word:
    word: str
    length: int


INPUT = pa.schema([*schema_of(Line), (TS, pa.int64())])
OUTPUT = pa.schema([*schema_of(Word), (TS, pa.int64())])


def operator(
    fn: Callable[[Any], Any], *, flat: bool, batch_rows: int = 100, named: bool = True
) -> Operator:
    ctx = context(INPUT, OUTPUT, batch_rows=batch_rows)
    ctx.outputs = {"": OutputType(StreamType(visible(OUTPUT), True, Word), OUTPUT)}
    spec = MapSpec(fn, flat, Line if named else None)
    return FlatMapOperator(ctx, spec) if flat else MapOperator(ctx, spec)


def lines(*texts: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array(texts), pa.array(range(100, 100 + len(texts)))], schema=INPUT)


def run(op: Operator, *texts: str) -> list[list[dict[str, Any]]]:
    outs = list(op.on_batch(0, lines(*texts)))
    assert all(out.batch.schema == OUTPUT for out in outs)
    return [out.batch.to_pylist() for out in outs]


def measured(line: Any) -> Word:
    return Word(line.text, 10 // len(line.text))


def split(line: Line) -> Iterator[Word]:
    for word in line.text.split():
        yield Word(word, 10 // (len(word) - 1))


def test_map_emits_a_record_for_each_with_its_timestamp() -> None:
    expected = [[{"word": "a", "length": 10, TS: 100}, {"word": "bcd", "length": 3, TS: 101}]]
    assert run(operator(measured, flat=False), "a", "bcd") == expected
    assert run(operator(measured, flat=False, named=False), "a", "bcd") == expected
    assert run(operator(measured, flat=False)) == []


def test_flat_map_repeats_the_timestamp() -> None:
    [rows] = run(operator(split, flat=True), "ab cd", "", "ef")
    assert [(row["word"], row[TS]) for row in rows] == [("ab", 100), ("cd", 100), ("ef", 102)]


@pytest.mark.parametrize("result", [None, [], (), iter(())])
def test_flat_map_may_return_nothing(result: Any) -> None:
    assert run(operator(lambda line: result, flat=True), "a", "b") == []


def test_flat_map_emits_bounded_batches() -> None:
    def endless(line: Line) -> Iterator[Word]:
        for i in range(10**9):
            yield Word(line.text, i)

    outs = operator(endless, flat=True, batch_rows=4).on_batch(0, lines("a"))
    first = [next(outs).batch.to_pylist() for _ in range(3)]
    assert [[row["length"] for row in rows] for rows in first] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 4, 100])
def test_the_size_of_batches_changes_no_row(batch_rows: int) -> None:
    batches = run(operator(split, flat=True, batch_rows=batch_rows), "ab cd ef", "", "gh", "ij kl")
    assert [(r["word"], r[TS]) for rows in batches for r in rows] == [
        ("ab", 100), ("cd", 100), ("ef", 100), ("gh", 102), ("ij", 103), ("kl", 103),
    ]  # fmt: skip
    assert all(len(rows) <= batch_rows for rows in batches)


@pytest.mark.parametrize(("fn", "flat", "bad"), [(measured, False, ""), (split, True, "ab x cd")])
def test_an_error_of_the_function_names_line_and_record(
    fn: Callable[[Any], Any], flat: bool, bad: str
) -> None:
    with pytest.raises(UserFunctionError) as caught:
        run(operator(fn, flat=flat), "abc", bad, "abc")
    error = caught.value
    assert error.what.startswith("ZeroDivisionError")
    assert error.record == repr(Line(bad))
    assert error.site is not None
    assert error.site.file == __file__
    assert isinstance(error.__cause__, ZeroDivisionError)


@dataclass
class Short:
    text: str

    def __post_init__(self) -> None:
        if len(self.text) > 3:
            raise ValueError("too long")


@pytest.mark.parametrize("flat", [False, True])
def test_a_row_that_its_dataclass_refuses_is_named(flat: bool) -> None:
    op = operator(split if flat else measured, flat=flat)
    op._record = Short  # type: ignore[attr-defined]
    with pytest.raises(UserFunctionError) as caught:
        run(op, "abc", "abcd", "abc")
    assert caught.value.what == "Short cannot be created from a row: ValueError: too long"
    assert "abcd" in str(caught.value.record)


@pytest.mark.parametrize(
    ("result", "flat"),
    [(None, False), (Line("x"), False), ([Word("a", 1), Line("x")], True), ([3], True)],
)
def test_a_result_of_another_type_names_the_record(result: Any, flat: bool) -> None:
    def fn(line: Line) -> Any:
        good = Word("a", 1)
        if line.text != "bad":
            return [good, good] if flat else good
        return result

    with pytest.raises(UserFunctionError, match="should be Word") as caught:
        run(operator(fn, flat=flat), "good", "bad", "good")
    assert caught.value.record == repr(Line("bad"))


@pytest.mark.parametrize("result", [7, "text", {"word": "a", "length": 1}, Word("a", 1)])
def test_a_flat_map_that_returns_a_single_value_is_an_error(result: Any) -> None:
    with pytest.raises(UserFunctionError, match="but must yield its outputs") as caught:
        run(operator(lambda line: result, flat=True), "a")
    assert caught.value.record == repr(Line("a"))
