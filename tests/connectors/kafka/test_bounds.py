"""Start and end of reading: values that users may set, and the resulting offsets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from rheos.connectors.kafka.bounds import (
    CommittedBound,
    Offsets,
    OffsetsBound,
    Partition,
    TimeBound,
    TopicEdge,
    end_of,
    resolved_ends,
    resolved_starts,
    start_of,
)
from rheos.core.errors import InputError, ProgramError

A, B = ("orders", 0), ("orders", 1)


class Brokers:
    """Cluster with two partitions: offsets 5 to 20, and 0 to 7. A record's time is ten times its
    offset."""

    def earliest(self, partitions: Sequence[Partition]) -> Offsets:
        return {A: 5, B: 0}

    def latest(self, partitions: Sequence[Partition]) -> Offsets:
        return {A: 20, B: 7}

    def at(self, partitions: Sequence[Partition], ms: int) -> Offsets:
        offset = -(-ms // 10)
        first, end = self.earliest(partitions), self.latest(partitions)
        return {p: max(offset, first[p]) for p in partitions if offset < end[p]}

    def committed(self, partitions: Sequence[Partition], group: str) -> Offsets:
        return {A: 11}


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        ("earliest", {A: 5, B: 0}),
        ("latest", {A: 20, B: 7}),
        ("group", {A: 11, B: 0}),
        (datetime.fromtimestamp(0.061, UTC), {A: 7, B: 7}),
        (datetime(1970, 1, 1), {A: 5, B: 0}),
        (1000, {A: 20, B: 7}),
        (datetime(1969, 1, 1), {A: 5, B: 0}),
        ({"orders": {0: 17}}, {A: 17, B: 0}),
    ],
)
def test_starts_are_resolved_to_offsets(start: Any, offsets: Offsets) -> None:
    assert (
        resolved_starts(start_of(start, "the group"), [A, B], Brokers(), Brokers().earliest([A, B]))
        == offsets
    )


@pytest.mark.parametrize(
    ("end", "offsets"),
    [
        ("latest", {A: 20, B: 7}),
        (61, {A: 7, B: 7}),
        ({"orders": {0: 17, 1: 100}}, {A: 17, B: 100}),
    ],
)
def test_ends_are_resolved_to_offsets(end: Any, offsets: Offsets) -> None:
    bound = end_of(end)
    assert bound is not None
    assert resolved_ends(bound, [A, B], Brokers()) == offsets


def test_a_source_without_an_end_has_no_bound() -> None:
    assert end_of(None) is None


def test_configured_bounds_are_kept() -> None:
    assert start_of("group", "g") == CommittedBound("g")
    assert start_of("latest", None) is TopicEdge.LATEST
    assert start_of(datetime(1970, 1, 2), None) == TimeBound(86_400_000)
    assert end_of({"b": {1: 3}, "a": {0: 2}}) == OffsetsBound(((("a", 0), 2), (("b", 1), 3)))


@pytest.mark.parametrize(
    "given",
    [
        "newest",
        1.5,
        True,
        {0: 17},
        {"orders": 17},
        {"orders": {0: -1}},
        {"orders": {"0": 1}},
        ["earliest"],
    ],
)
def test_an_invalid_position_is_refused(given: Any) -> None:
    with pytest.raises(ProgramError, match="is not a position in a topic"):
        start_of(given, None)
    with pytest.raises(ProgramError, match="is not a position in a topic"):
        end_of(given)


def test_start_group_requires_a_group() -> None:
    with pytest.raises(ProgramError, match='start="group" needs group='):
        start_of("group", None)


def test_an_end_at_the_beginning_is_refused() -> None:
    with pytest.raises(ProgramError, match="would read nothing"):
        end_of("earliest")


def test_an_end_is_needed_for_each_partition() -> None:
    bound = end_of({"orders": {0: 17}})
    assert bound is not None
    with pytest.raises(InputError, match=r"end= has no offset for orders\[1\]"):
        resolved_ends(bound, [A, B], Brokers())


def test_missing_partitions_are_refused() -> None:
    with pytest.raises(InputError, match=r"orders\[7\] is not among the partitions that are read"):
        resolved_starts(start_of({"orders": {7: 1}}, None), [A, B], Brokers(), {A: 0, B: 0})
