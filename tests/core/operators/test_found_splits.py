"""Splits that a source discovers at run time: all subtasks assign them alike, keep them, and read them
once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.connectors.contract import Pending, Split
from rheos.core.errors import InputError, TransportError
from rheos.core.operators.source import EndOfInput, SourceOperator
from rheos.core.operators.source_split import SPLITS
from rheos.core.protocol.control import SplitsFound
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, TS, WM
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.core.task.source_reports import DiscoveredSplits
from tests.core.operators.test_source import BOUNDED, Script, operator, saved


class Growing(Script):
    """Source that has all splits of its script; an operator begins with those passed to it."""

    bounded = False
    discovery_ms = 1000

    def endless(self, split: Split) -> bool:
        return False


def named(*names: str) -> list[Split]:
    return [Split(name, name.encode()) for name in names]


def subtasks(
    source: Script, parallelism: int, *first: str, restored: dict[str, Any] | None = None
) -> list[SourceOperator]:
    made = []
    for subtask in range(parallelism):
        op, _ = operator(
            source,
            strategy=BOUNDED,
            splits=named(*first),
            subtask=subtask,
            parallelism=parallelism,
            restored=restored,
        )
        made.append(op)
    return made


def find(operators: Sequence[SourceOperator], *names: str) -> None:
    for op in operators:
        op.found(named(*names))


def rows_of(op: SourceOperator) -> list[int]:
    """Return the rows that it can read now."""
    times: list[int] = []
    for _ in range(100):
        read = op.poll(100)
        op.watermark()
        assert not isinstance(read, EndOfInput), "there may be more"
        if isinstance(read, list):
            times += [at for out in read for at in out.batch.column("at").to_pylist()]
        elif read == Pending(None):
            return times
    raise AssertionError("it goes on for ever")


NAMES = "abcdefgh"


def script() -> Growing:
    return Growing(**{name: [[10 * n, 10 * n + 1]] for n, name in enumerate(NAMES, 1)})


@given(
    parallelism=st.integers(1, 4),
    cuts=st.lists(st.lists(st.sampled_from(NAMES), unique=True), max_size=5),
)
def test_each_split_is_read_once_however_it_is_found(parallelism: int, cuts: list[list[str]]) -> None:
    source = script()
    ops = subtasks(source, parallelism, "a", "b")
    for found in cuts:
        find(ops, *found)
    for op in ops:
        rows_of(op)
    assert sorted(source.opened) == sorted({"a", "b", *(name for found in cuts for name in found)})
    find(ops, *NAMES)
    for op in ops:
        rows_of(op)
    assert sorted(source.opened) == sorted(NAMES)


def test_splits_are_assigned_in_turn_and_evenly() -> None:
    source = script()
    ops = subtasks(source, 3, "a")
    for name in NAMES[1:]:
        find(ops, name)
    assert sorted(len(rows_of(op)) // 2 for op in ops) == [2, 3, 3]


@given(
    before=st.integers(1, 3),
    after=st.integers(1, 3),
    first=st.integers(0, 3),
    snapshot_at=st.integers(0, 8),
    again=st.permutations(NAMES),
)
def test_discovered_splits_are_kept_or_rediscovered_at_any_parallelism(
    before: int, after: int, first: int, snapshot_at: int, again: list[str]
) -> None:
    """Check that a snapshot contains the splits discovered before it. All others are discovered again,
    once, and those in the snapshot are not read again, listed or not."""
    source = script()
    ops = subtasks(source, before, *NAMES[:first])
    find(ops, *NAMES[first:snapshot_at])
    read = [at for op in ops for at in rows_of(op)]
    state = saved(*ops)
    find(ops, *NAMES[snapshot_at:])
    resumed = subtasks(source, after, *NAMES[:first], restored=state)
    find(resumed, *again)
    read += [at for op in resumed for at in rows_of(op)]
    assert sorted(read) == sorted(at for steps in source.steps.values() for at in steps[0])
    rows = [row["split"] for table in saved(*resumed)[SPLITS] for row in table.to_pylist()]
    assert sorted(rows) == list(NAMES)


def test_a_source_with_discovery_is_idle_without_splits_and_does_not_end() -> None:
    source = script()
    (op,) = subtasks(source, 1)
    assert op.poll(10) == Pending(None)
    assert op.idle()
    assert op.watermark() == MIN_TIMESTAMP_MS
    find([op], "b")
    assert not op.idle()
    rows_of(op)
    assert op.idle()
    assert MIN_TIMESTAMP_MS < op.watermark() < MAX_TIMESTAMP_MS


def test_a_split_discovered_late_has_its_own_watermark() -> None:
    source = Growing(a=[[100, 101]], b=[[10, 40, 20]])
    (op,) = subtasks(source, 1, "a")
    rows_of(op)
    reached = op.watermark()
    find([op], "b")
    assert op.watermark() == reached
    (out,) = op.poll(10)  # type: ignore[misc]
    assert out.batch.select([TS, WM]).to_pylist() == [
        {TS: 10, WM: MIN_TIMESTAMP_MS},
        {TS: 40, WM: 6},
        {TS: 20, WM: 36},
    ]
    assert op.watermark() == reached


def test_a_discovered_split_holds_the_watermark_until_it_has_caught_up() -> None:
    source = Growing(a=[[100], None, [200], None], b=[[110], None, [300], None])
    (op,) = subtasks(source, 1, "a")
    op.poll(10)
    op.watermark()
    find([op], "b")
    held = op.watermark()
    for _ in range(20):
        op.poll(10)
    assert held == 96
    assert op.watermark() == 196 or op.idle()


class Sent:
    """Messages of the driver to one slot."""

    def __init__(self) -> None:
        self.source = script()
        (self.op,) = subtasks(self.source, 1)
        self.slot = DiscoveredSplits(0, {OperatorId("op"): self.op})

    def hear(self, before: int, *names: str) -> int:
        message = SplitsFound(
            attempt=Attempt(1), operator=OperatorId("op"), before=before, splits=named(*names)
        )
        return self.slot.take(message).taken


def test_repeated_messages_are_processed_once() -> None:
    sent = Sent()
    assert sent.hear(0, "a", "b") == 2
    assert sent.hear(0, "a", "b") == 2
    assert sent.hear(2, "c") == 3
    assert sent.hear(0, "a", "b") == 3
    rows_of(sent.op)
    assert sent.source.opened == ["a", "b", "c"]


def test_a_gap_in_messages_ends_the_attempt() -> None:
    sent = Sent()
    sent.hear(0, "a")
    with pytest.raises(TransportError, match="splits 1 to 2"):
        sent.hear(2, "c")


# --- what is forgotten -------------------------------------------------------------------------------

DAY_MS = 86_400_000


class Aging(Growing):
    """Source with the day of creation in the names of its splits."""

    forget_ms = 2 * DAY_MS

    def made_ms(self, split: Split) -> int | None:
        return int(split.id.removeprefix("day-")) * DAY_MS


def days(*numbers: int) -> list[str]:
    return [f"day-{number}" for number in numbers]


def aging() -> Aging:
    return Aging(**{name: [[at]] for at, name in enumerate(days(*range(30)))})


def gone(operators: Sequence[SourceOperator], *names: str, whole: bool = False) -> None:
    for op in operators:
        op.gone(list(names), whole=whole)


def remembered(operators: Sequence[SourceOperator]) -> list[str]:
    [tables] = saved(*operators).values()
    names = [row["split"] for table in tables for row in table.to_pylist()]
    return sorted(names, key=lambda name: int(name.removeprefix("day-")))


def test_only_read_deleted_and_old_splits_are_forgotten() -> None:
    both = subtasks(aging(), 2, *days(1, 2))
    find(both, *days(3, 4))
    gone(both, *days(1, 2))
    assert remembered(both) == days(1, 2, 3, 4), "they are not read yet"
    read = sorted(at for op in both for at in rows_of(op))
    assert read == [1, 2, 3, 4]
    assert remembered(both) == days(2, 3, 4), "2 is no older than 2 days before 4"
    find(both, *days(5, 6))
    assert remembered(both) == days(2, 3, 4, 5, 6)
    gone(both, *days(4, 5))
    assert remembered(both) == days(3, 4, 5, 6), "3 is not gone, 4 and 5 are not old enough"
    find(both, *days(4))
    find(both, *days(9))
    assert sorted(at for op in both for at in rows_of(op)) == [5, 6, 9]
    gone(both)
    assert remembered(both) == days(3, 4, 6, 9), "4 has come back before it was old, and 5 has not"


def test_a_too_old_split_is_an_error_and_not_read() -> None:
    both = subtasks(aging(), 2, *days(7))
    find(both, *days(5, 9))
    for op in both:
        with pytest.raises(InputError, match="day-6 is older than the files that") as late:
            op.found(named("day-6"))
        assert late.value.site is not None
    assert sorted(at for op in both for at in rows_of(op)) == [5, 7, 9]


def test_forgotten_splits_stay_forgotten_in_the_next_attempt() -> None:
    """Check that the driver begins each attempt with its first listing. Splits deleted since are not
    read again; those that returned, or arrived while the job was down, are an error after the next
    listing."""
    first = subtasks(aging(), 1, *days(1, 2, 8))
    rows_of(first[0])
    gone(first, *days(1, 2))
    assert remembered(first) == days(8)
    for came_back in ((), days(2)):
        again = subtasks(aging(), 2, *days(1, 2, 8), restored=saved(*first))
        gone(again, *(name for name in days(1, 2) if name not in came_back))
        if came_back:
            with pytest.raises(InputError, match="day-2 is older than the files"):
                gone(again, whole=True)
        gone(again[:0] if came_back else again, whole=True)
        assert [rows_of(op) for op in again] == [[], []]
        assert remembered(again) == days(8)


def test_splits_deleted_between_attempts_are_forgotten_after_the_first_listing() -> None:
    first = subtasks(aging(), 1, *days(1, 2, 8))
    rows_of(first[0])
    again = subtasks(aging(), 2, *days(8), restored=saved(*first))
    find(again, *days(2, 9))
    assert remembered(again) == days(1, 2, 8, 9)
    gone(again, whole=True)
    assert remembered(again) == days(2, 8, 9)
    assert sorted(at for op in again for at in rows_of(op)) == [9]
