"""`reduce`: the combined record so far for each input record, and its state."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import InputError, UserFunctionError
from rheos.core.operators.contract import Operator
from rheos.core.operators.reduce import ReduceOperator, ReduceSpec
from rheos.core.protocol.elements import TS, WM
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.types import schema_of
from rheos.core.state.format import decode, encode
from rheos.core.state.key_groups import key_groups, subtask_of
from tests.core.operators.contexts import context

HIDDEN = [pa.field(TS, pa.int64(), nullable=False), pa.field(WM, pa.int64(), nullable=False)]


@dataclass
class Total:
    user: str
    n: int
    parts: list[int] = field(default_factory=list)


PLAIN = schema_of(Total)
MARKED = pa.schema([*PLAIN, *HIDDEN])


def joined(left: Total, right: Total) -> Total:
    return Total(left.user, left.n + right.n, [*left.parts, *right.parts])


def grown(left: Total, right: Total) -> Total:
    """Combine by changing the first argument."""
    left.n += right.n
    left.parts += right.parts
    return left


Fn = Callable[[Any, Any], Any]
Chains = dict[str, list[Any]]


def operator(
    fn: Fn,
    schema: pa.Schema = PLAIN,
    *,
    record: type | None = Total,
    restored: Chains | None = None,
    subtask: int = 0,
    parallelism: int = 1,
) -> Operator:
    ctx = context(schema, schema, keys=("user",), subtask=subtask, parallelism=parallelism)
    made = ReduceOperator(ctx, ReduceSpec(fn, record))
    made.open(restored or {})
    return made


def batch(*rows: tuple[Any, ...], schema: pa.Schema = PLAIN) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema
    )


def rows(reduce: Operator, given: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for out in reduce.on_batch(0, given) for row in out.batch.to_pylist()]


@pytest.mark.parametrize("fn", [joined, grown])
def test_each_record_emits_the_reduced_record_so_far(fn: Fn) -> None:
    reduce = operator(fn)
    assert rows(reduce, batch(("a", 1, [1]), ("b", 5, []), ("a", 2, [2]))) == [
        ("a", 1, [1]),
        ("b", 5, []),
        ("a", 3, [1, 2]),
    ]
    assert rows(reduce, batch(("a", 4, [4]))) == [("a", 7, [1, 2, 4])]


def test_outputs_have_time_and_watermark_of_the_input_record() -> None:
    given = batch(("a", 1, [], 10, 5), ("a", 2, [], 7, 6), schema=MARKED)
    assert rows(operator(joined, MARKED), given) == [("a", 1, [], 10, 5), ("a", 3, [], 7, 6)]


@pytest.mark.parametrize("form", ["dict", "row"])
def test_records_without_a_dataclass_are_named_rows(form: str) -> None:
    def fn(left: Any, right: Any) -> Any:
        if form == "row":
            return left._replace(n=left.n + right.n)
        return {"user": left.user, "n": left.n + right.n, "parts": left.parts}

    assert rows(operator(fn, record=None), batch(("a", 1, []), ("a", 2, []), ("a", 3, []))) == [
        ("a", 1, []),
        ("a", 3, []),
        ("a", 6, []),
    ]


def test_an_exception_names_line_record_and_key() -> None:
    def fn(left: Total, right: Total) -> Total:
        raise ValueError("no")

    with pytest.raises(UserFunctionError, match="ValueError: no") as raised:
        rows(operator(fn), batch(("a", 1, []), ("b", 1, []), ("b", 2, [])))
    assert raised.value.site is not None
    assert raised.value.site.file == __file__
    assert raised.value.key == "'b'"
    assert raised.value.record == "Total(user='b', n=2, parts=[])"


@pytest.mark.parametrize("wrong", [None, 7, {"user": "b"}, Total("b", "x")])  # type: ignore[arg-type]
def test_other_records_are_refused(wrong: Any) -> None:
    with pytest.raises(UserFunctionError, match="the function returned an invalid output") as raised:
        rows(operator(lambda left, right: wrong), batch(("a", 1, []), ("b", 1, []), ("b", 2, [])))
    assert raised.value.key == "'b'"


def test_a_null_key_is_refused() -> None:
    nullable = pa.schema([pa.field("user", pa.string()), *list(PLAIN)[1:]])
    with pytest.raises(InputError, match="'user' is null"):
        rows(operator(joined, nullable), batch((None, 1, []), schema=nullable))


events = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-5, 5)), min_size=1, max_size=8)


@given(st.lists(st.tuples(events, st.integers(1, 3)), max_size=8), st.sampled_from([joined, grown]))
def test_state_survives_restarts_at_any_parallelism(
    steps: list[tuple[list[tuple[str, int]], int]], fn: Fn
) -> None:
    """Check this with a parallelism per step, from the snapshot of the previous step."""
    totals: dict[str, list[Total]] = {}
    states: list[Chains] = []
    for number, (drawn, parallelism) in enumerate(steps):
        given = batch(*((user, n, [n]) for user, n in drawn))
        owners = subtask_of(key_groups(given, ["user"], 128), parallelism, 128)
        found, next_states = [], []
        for subtask in range(parallelism):
            reduce = operator(fn, subtask=subtask, parallelism=parallelism)
            groups = reduce.ctx.key_groups
            restored = {
                name: [decode(encoded, groups) for state in states for encoded in state.get(name, ())]
                for name in {name for state in states for name in state}
            }
            reduce = operator(fn, restored=restored, subtask=subtask, parallelism=parallelism)
            found += rows(reduce, given.filter(pa.array(owners == subtask)))
            parts = reduce.snapshot(CheckpointId(number + 1)).parts
            next_states.append(
                {part.state: [encode(part.write(), part.kind, part.mode)] for part in parts}
            )
        states = next_states
        expected = []
        for user, n in drawn:
            totals.setdefault(user, []).append(Total(user, n, [n]))
            total = functools.reduce(joined, totals[user])
            expected.append((user, total.n, total.parts))
        assert sorted(found) == sorted(expected)


def test_a_snapshot_does_not_contain_later_records() -> None:
    reduce = operator(grown)
    rows(reduce, batch(("a", 1, [1])))
    (part,) = reduce.snapshot(CheckpointId(1)).parts
    rows(reduce, batch(("a", 2, [2])))
    again = operator(grown, restored={part.state: [part.write()]})
    assert rows(again, batch(("a", 5, [5]))) == [("a", 6, [1, 5])]
