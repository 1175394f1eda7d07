"""Checks sources whose splits have phases, or are discovered: the splits that they open, and those in
checkpoints.

The numbers are those of docs/protocols/checkpoints.md. The watch learns what was read from the readers,
and from the checkpoint from which an attempt starts, not from the engine's own records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rheos.connectors.source_wrapper import WrappedReader, WrappedSource
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import EndOfSplit, Polled, ReaderContext, Split, SplitReader
from rheos.core.operators.source import SourceSpec
from rheos.core.operators.source_split import SPLITS
from rheos.core.plan.physical import Chain, PhysicalPlan
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.state import format as state_format


class SplitWatch:
    """The watch of the splits of one attempt. `splits` are the initial ones of the watched sources.
    `broken` is called with a description of each violation."""

    def __init__(
        self,
        splits: Mapping[OperatorId, Sequence[Split]],
        restore: Restore | None,
        files: Mapping[str, bytes],
        broken: Callable[[str], None],
    ) -> None:
        self._splits = splits
        self._read: dict[OperatorId, set[str]] = {id: set() for id in self._splits}
        self._opened: dict[OperatorId, set[str]] = {id: set() for id in self._splits}
        self._broken = broken
        if restore is not None and self._splits:
            origin = restore.origin
            folder = "" if origin is None else f"{origin.directory}/"
            for id, rows in split_rows(restore.entry.handles, files, folder).items():
                if id in self._read:
                    self._read[id] |= {row["split"] for row in rows if row["finished"]}

    def watched(self, plan: PhysicalPlan) -> PhysicalPlan:
        """Return the plan in which these sources are watched."""
        return replace(plan, chains=tuple(self._chain(chain) for chain in plan.chains))

    def _chain(self, chain: Chain) -> Chain:
        head = chain.operators[0]
        if head.id not in self._splits or not isinstance(head.spec, SourceSpec):
            return chain
        spec = replace(head.spec, source=_WatchedSource(head.spec.source, head.id, self))
        return replace(chain, operators=(replace(head, spec=spec), *chain.operators[1:]))

    def opened(self, operator: OperatorId, split: Split, after: frozenset[str]) -> None:
        if split.id in self._opened[operator]:
            self._broken(f"CP35: {operator!r} reads {split.id} twice")
        if split.id in self._read[operator]:
            self._broken(f"CP34: {operator!r} opens {split.id}, which a checkpoint says is read")
        self._opened[operator].add(split.id)
        for other in self._splits[operator]:
            if other.id in after and other.id not in self._read[operator]:
                self._broken(f"CP48: {operator!r} opens {split.id}, and {other.id} is not read")
            if other.phase < split.phase and other.id not in self._read[operator]:
                self._broken(
                    f"CP25: {operator!r} opens {split.id} of phase {split.phase}, and {other.id} of "
                    f"phase {other.phase} is not read"
                )

    def ended(self, operator: OperatorId, split: Split) -> None:
        self._read[operator].add(split.id)


def split_rows(
    handles: Iterable[StateHandle], files: Mapping[str, bytes], folder: str = ""
) -> dict[OperatorId, list[dict[str, Any]]]:
    """Return the state of the splits of each source in a checkpoint."""
    found: dict[OperatorId, list[dict[str, Any]]] = {}
    for handle in handles:
        if handle.state == SPLITS:
            data = files[folder + handle.path] if handle.path else handle.inline
            rows = state_format.decode(data, None).to_pylist()
            found.setdefault(handle.operator, []).extend(rows)
    return found


def cut_through_a_phase(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a violation of CP26, or None: a begun split, and an unfinished one of an earlier phase."""
    for begun in rows:
        for other in rows:
            before = other["phase"] < begun["phase"] and not other["finished"]
            if before and (begun["position"] is not None or begun["finished"]):
                return f"{begun['split']} is begun, and {other['split']} is not read"
    return None


@dataclass(frozen=True, eq=False)
class _WatchedSource(WrappedSource):
    operator: OperatorId
    watch: SplitWatch

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        after = capabilities.read_after(self.source, split)
        self.watch.opened(self.operator, split, after)
        reader = super().open(split, position, ctx)
        return _WatchedReader(reader, lambda: self.watch.ended(self.operator, split))


class _WatchedReader(WrappedReader):
    def __init__(self, reader: SplitReader, ended: Callable[[], None]) -> None:
        super().__init__(reader)
        self._ended = ended

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        if isinstance(polled, EndOfSplit):
            self._ended()
        return polled
