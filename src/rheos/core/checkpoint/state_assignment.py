"""Which state each subtask of an attempt gets, of that which those of an earlier one wrote (CP12).

Pure: the entry in, a list of handles out. What is assigned here is read by `restored_state`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.snapshots import IN_FLIGHT_OUTPUT, PartMode, StateHandle, StateKind


@dataclass(frozen=True, slots=True)
class Share:
    """What one subtask takes of one handle."""

    handle: StateHandle
    groups: range | None = None
    """Of a KEYED part: these key groups; None takes all there are."""
    every: int = 1
    offset: int = 0
    """Of a LIST part: the rows offset, offset + every, ..."""
    receiver: int | None = None
    """Of rows that waited in the output of a broadcast edge: those for this old subtask."""


def shares(
    entry: CheckpointCompleted,
    subtask: int,
    parallelism: int,
    widths: Mapping[OperatorId, int] = MappingProxyType({}),
) -> list[Share]:
    """What subtask `subtask` of `parallelism` takes, in the order in which it applies (CP12). `widths`
    has the operators that are narrower than the job now; the entry knows those that were.

    KEYED: the rows of its key groups, from every old subtask whose groups overlap them; of a set of
    files, every file of such a subtask. LIST: its own rows where the parallelism is as it was (of
    those in the output of a sender beyond a narrower operator, what falls to it in turn), else every
    n-th of all. UNION: all. BROADCAST: those of one old subtask (EX17).
    """
    handles = sorted(entry.handles, key=lambda handle: (handle.operator, handle.state, handle.subtask))
    result = []
    for _, parts in groupby(handles, key=lambda handle: (handle.operator, handle.state)):
        dealt = 0
        for handle in parts:
            before = entry.width(handle.operator)
            now = min(widths.get(handle.operator, parallelism), parallelism)
            match handle.kind:
                case StateKind.UNION:
                    result.append(Share(handle))
                case StateKind.BROADCAST:
                    if subtask < now:
                        result.extend(_broadcast_share(handle, subtask % before))
                case StateKind.KEYED:
                    result.extend(_keyed_share(handle, entry, subtask, now))
                case StateKind.LIST if parallelism == entry.parallelism and now == before:
                    # What waited in an output was written by its sender, which may be wider.
                    result.extend([Share(handle)] if handle.subtask % now == subtask else [])
                case StateKind.LIST:
                    assert handle.mode is PartMode.FULL, "only keyed state has deltas"
                    offset = (subtask - dealt) % now
                    dealt += handle.rows
                    if subtask < now and offset < handle.rows:
                        result.append(Share(handle, every=now, offset=offset))
    return result


def _broadcast_share(handle: StateHandle, source: int) -> Iterator[Share]:
    if handle.state.startswith(IN_FLIGHT_OUTPUT):
        # EX13: every sender wrote the copies that it had for any subtask.
        yield Share(handle, receiver=source)
    elif handle.subtask == source:
        yield Share(handle)


def _keyed_share(
    handle: StateHandle, entry: CheckpointCompleted, subtask: int, parallelism: int
) -> Iterator[Share]:
    old = group_range(handle.subtask, entry.width(handle.operator), entry.max_parallelism)
    if handle.state.startswith(IN_FLIGHT_OUTPUT):
        # EX13: the sender wrote them, and the rows are on their way to all subtasks.
        old = range(entry.max_parallelism)
    new = group_range(subtask, parallelism, entry.max_parallelism)
    common = range(max(old.start, new.start), min(old.stop, new.stop))
    if common:
        yield Share(handle, groups=None if common == old else common)
