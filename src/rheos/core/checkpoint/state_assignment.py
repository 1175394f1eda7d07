"""Assigns the state that subtasks of an earlier attempt wrote to the subtasks of a new one (CP12).

Pure: it maps an entry to a list of handles. `restored_state` reads what is assigned here.
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
class HandleShare:
    """The share of one handle that one subtask takes."""

    handle: StateHandle
    groups: range | None = None
    """Key groups of a KEYED part; None takes all."""
    every: int = 1
    offset: int = 0
    """First row of a LIST part: the share has the rows offset, offset + every, ..."""
    receiver: int | None = None
    """Number of the old subtask to which rows in the output of a broadcast edge were to be sent."""


def shares(
    entry: CheckpointCompleted,
    subtask: int,
    parallelism: int,
    widths: Mapping[OperatorId, int] = MappingProxyType({}),
) -> list[HandleShare]:
    """Return what subtask `subtask` of `parallelism` takes, in the order in which it applies (CP12).
    `widths` has the operators that are narrower than the job now; the entry has those that were.

    KEYED: the rows of its key groups, from every old subtask whose groups overlap them; from a set of
    files, every file of such a subtask. LIST: its own rows if the parallelism is unchanged, otherwise
    every n-th row of all subtasks. (In the first case, outputs of senders beyond a narrower operator
    are assigned in turn.) UNION: all rows. BROADCAST: the rows of one old subtask (EX17).
    """
    handles = sorted(entry.handles, key=lambda handle: (handle.operator, handle.state, handle.subtask))
    result = []
    for _, parts in groupby(handles, key=lambda handle: (handle.operator, handle.state)):
        assigned = 0
        for handle in parts:
            before = entry.width(handle.operator)
            now = min(widths.get(handle.operator, parallelism), parallelism)
            match handle.kind:
                case StateKind.UNION:
                    result.append(HandleShare(handle))
                case StateKind.BROADCAST:
                    if subtask < now:
                        result.extend(_broadcast_share(handle, subtask % before))
                case StateKind.KEYED:
                    result.extend(_keyed_share(handle, entry, subtask, now))
                case StateKind.LIST if parallelism == entry.parallelism and now == before:
                    # Rows in an output were stored by its sender, which may be wider.
                    result.extend([HandleShare(handle)] if handle.subtask % now == subtask else [])
                case StateKind.LIST:
                    assert handle.mode is PartMode.FULL, "only keyed state has deltas"
                    offset = (subtask - assigned) % now
                    assigned += handle.rows
                    if subtask < now and offset < handle.rows:
                        result.append(HandleShare(handle, every=now, offset=offset))
    return result


def _broadcast_share(handle: StateHandle, source: int) -> Iterator[HandleShare]:
    if handle.state.startswith(IN_FLIGHT_OUTPUT):
        # EX13: every sender stored its copies for each subtask.
        yield HandleShare(handle, receiver=source)
    elif handle.subtask == source:
        yield HandleShare(handle)


def _keyed_share(
    handle: StateHandle, entry: CheckpointCompleted, subtask: int, parallelism: int
) -> Iterator[HandleShare]:
    old = group_range(handle.subtask, entry.width(handle.operator), entry.max_parallelism)
    if handle.state.startswith(IN_FLIGHT_OUTPUT):
        # EX13: the sender stored them, and the rows may be for any subtask.
        old = range(entry.max_parallelism)
    new = group_range(subtask, parallelism, entry.max_parallelism)
    common = range(max(old.start, new.start), min(old.stop, new.stop))
    if common:
        yield HandleShare(handle, groups=None if common == old else common)
