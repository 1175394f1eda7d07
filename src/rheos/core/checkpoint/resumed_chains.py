"""Selects the chains of parts that a restored subtask may continue with deltas (CP11). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import (
    IN_FLIGHT,
    PartMode,
    StateHandle,
    StateKind,
    WrittenChain,
)

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
