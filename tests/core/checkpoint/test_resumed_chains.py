"""Chains of parts that a restored subtask may continue (CP11)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from rheos.core.checkpoint.log_entries import CheckpointCompleted, Origin
from rheos.core.checkpoint.resumed_chains import (
    LARGE_BYTES,
    is_written_again_soon,
    length_of,
    resumable_chains,
)
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import (
    IN_FLIGHT_INPUT,
    MAX_DELTAS,
    PartMode,
    StateHandle,
    StateKind,
    WrittenChain,
)
from tests.core.checkpoint.timelines import COUNT, completed, handle


def chain(
    subtask: int, *, state: str = "counts", kind: StateKind = StateKind.KEYED
) -> list[StateHandle]:
    """Return the handles of a chain: two pieces of a full part, and two deltas."""
    modes = [(PartMode.FULL, 50), (PartMode.FULL, 20), (PartMode.DELTA, 3), (PartMode.DELTA, 4)]
    return [
        handle(subtask=subtask, operator=COUNT, state=state, kind=kind, mode=mode, rows=rows)
        for mode, rows in modes
    ]


def checkpoint(
    handles: list[StateHandle], widths: Mapping[OperatorId, int] | None = None
) -> CheckpointCompleted:
    """Return a checkpoint at parallelism 2."""
    return msgspec.structs.replace(completed(1), handles=handles, widths=dict(widths or {}))


BOTH = [*chain(0), *chain(1)]


def test_a_subtask_continues_the_chain_of_its_own_number() -> None:
    chains = resumable_chains(Restore(entry=checkpoint(BOTH)), 1, 2)
    assert chains == {(COUNT, "counts"): chain(1)}
    assert length_of(chain(1)) == WrittenChain(70, 7, 2)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_rescaled_operator_continues_no_chain(parallelism: int) -> None:
    assert resumable_chains(Restore(entry=checkpoint(BOTH)), 0, parallelism) == {}
    narrow = checkpoint(chain(0), {COUNT: 1})
    assert resumable_chains(Restore(entry=narrow), 0, 2) == {}
    assert resumable_chains(Restore(entry=narrow), 0, 2, {COUNT: 1})


def test_a_chain_of_a_savepoint_is_not_continued() -> None:
    origin = Origin("s", "elsewhere")
    assert resumable_chains(Restore(entry=checkpoint(BOTH), origin=origin), 0, 2) == {}


@pytest.mark.parametrize(
    "handles",
    [
        chain(0, kind=StateKind.LIST),
        chain(0, state=f"{IN_FLIGHT_INPUT}0"),
        chain(0)[2:],
        [handle(subtask=0, operator=COUNT, state="files", mode=PartMode.FILE)],
    ],
)
def test_only_whole_chains_of_keyed_state_are_continued(handles: list[StateHandle]) -> None:
    assert resumable_chains(Restore(entry=checkpoint(handles)), 0, 2) == {}


def sized(full_bytes: int, full_rows: int, *delta_rows: int) -> list[StateHandle]:
    """Return the handles of a chain with a full part of this size."""
    full = handle(subtask=0, operator=COUNT, mode=PartMode.FULL, rows=full_rows)
    deltas = [handle(subtask=0, operator=COUNT, mode=PartMode.DELTA, rows=rows) for rows in delta_rows]
    return [msgspec.structs.replace(full, size_bytes=full_bytes), *deltas]


@pytest.mark.parametrize(
    ("handles", "expected"),
    [
        (sized(LARGE_BYTES, 1_000), False),
        (sized(LARGE_BYTES, 1_000, *[1] * (MAX_DELTAS - 4)), False),
        (sized(LARGE_BYTES, 1_000, *[1] * (MAX_DELTAS - 3)), True),
        (sized(LARGE_BYTES, 1_000, *[100] * 5), False),
        (sized(LARGE_BYTES, 1_000, *[100] * 6), True),
        # It is small, or written again after a few deltas anyway.
        (sized(LARGE_BYTES - 1, 1_000, *[1] * MAX_DELTAS), False),
        (sized(LARGE_BYTES, 1_000, *[400] * 2), False),
    ],
    ids=["full", "few deltas", "most deltas", "short deltas", "long deltas", "small", "always"],
)
def test_a_large_state_that_is_written_again_soon_is_foreseen(
    handles: list[StateHandle], expected: bool
) -> None:
    assert is_written_again_soon(checkpoint(handles)) is expected
