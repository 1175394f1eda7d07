"""Selects the chains of parts that a restored subtask may continue with deltas (CP11). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import (
    IN_FLIGHT,
    PartMode,
    StateHandle,
    StateKind,
    WrittenChain,
)

LARGE_BYTES = 64 << 20
"""Least size of a full part for which a handover waits."""
_SOON = 4
"""Number of checkpoints that a handover may take part in: its own, the first one of the successor, and
those that are completed meanwhile."""

Chains: TypeAlias = Mapping[tuple[OperatorId, str], list[StateHandle]]
"""Handles of chains in the order of application, by operator and state."""


def resumable_chains(
    restore: Restore,
    subtask: int,
    parallelism: int,
    widths: Mapping[OperatorId, int] = MappingProxyType({}),
) -> Chains:
    """Return the chains that contain exactly the state that this subtask restores.

    Such a chain was written by the subtask of the same number, for the same key groups. So the operator
    must be as wide as in the checkpoint. A chain of a savepoint is in another folder, which the user
    may delete, so it is not continued.
    """
    entry = restore.entry
    if restore.origin is not None:
        return {}
    chains: dict[tuple[OperatorId, str], list[StateHandle]] = {}
    for handle in entry.handles:
        now = min(widths.get(handle.operator, parallelism), parallelism)
        is_part = handle.kind is StateKind.KEYED and handle.mode is not PartMode.FILE
        is_own = handle.subtask == subtask and entry.width(handle.operator) == now
        if is_part and is_own and not handle.state.startswith(IN_FLIGHT):
            chains.setdefault((handle.operator, handle.state), []).append(handle)
    return {key: chain for key, chain in chains.items() if chain[0].mode is PartMode.FULL}


def length_of(chain: list[StateHandle]) -> WrittenChain:
    """Return the lengths of a chain."""
    deltas = [handle.rows for handle in chain if handle.mode is PartMode.DELTA]
    return WrittenChain(sum(handle.rows for handle in chain) - sum(deltas), sum(deltas), len(deltas))


def is_written_again_soon(entry: CheckpointCompleted) -> bool:
    """Return whether one of the next checkpoints probably contains a large state again as a full part.

    A handover at such a checkpoint would restore the whole state during its pause. It is better to wait
    for the full part, after which deltas follow. If a state needs a full part after a few deltas
    anyway, waiting does not help.
    """
    chains: defaultdict[tuple[OperatorId, str, int], list[StateHandle]] = defaultdict(list)
    for handle in entry.handles:
        if handle.kind is StateKind.KEYED and handle.mode is not PartMode.FILE:
            chains[handle.operator, handle.state, handle.subtask].append(handle)
    return any(map(_ends_soon, chains.values()))


def _ends_soon(chain: list[StateHandle]) -> bool:
    full_bytes = sum(handle.size_bytes for handle in chain if handle.mode is PartMode.FULL)
    written = length_of(chain)
    if full_bytes < LARGE_BYTES or not written.deltas:
        return False
    soon_rows = _SOON * written.delta_rows // written.deltas
    if 2 * soon_rows >= written.full_rows:
        return False
    return replace(written, deltas=written.deltas + _SOON - 1).next_is_full(soon_rows)
