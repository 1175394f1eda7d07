"""An Iceberg table in memory: snapshots with parents, the branch `main`, and properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from rheos.connectors.table_log.epoch_append import Append, TableVersion, UncertainAppendError
from rheos.core.errors import UnavailableError
from tests.connectors.delta.simulated_table import Version


@dataclass(frozen=True)
class Snapshot:
    parent: int
    files: dict[str, tuple[str, ...]]
    """Rows of the live files, by path."""
    numbers: dict[str, int]
    """Checkpoint in the summary, by the sink that wrote the snapshot."""


@dataclass
class SimulatedSnapshots:
    """The table, with the interface of the simulated table of the worlds."""

    snapshots: dict[int, Snapshot] = field(default_factory=lambda: {0: Snapshot(-1, {}, {})})
    main: int = 0
    properties: dict[str, int] = field(default_factory=dict)
    written: int = 0
    versions: list[Version] = field(default_factory=lambda: [Version({}, {})])
    """Versions of the snapshots in their order, including expired ones."""
    removed: set[str] = field(default_factory=set)
    """Sinks whose property was removed. A program that also expires their snapshots breaks IC6."""
    with_property: bool = True
    """Whether a commit sets the number as a property."""
    in_one_commit: bool = True
    """Whether the property is set by the commit of the snapshot, not by the next commit of the sink."""

    def look(self, sink: str) -> TableVersion:
        return TableVersion(self.properties.get(sink, self._in_ancestors(sink)), self.main)

    def _in_ancestors(self, sink: str) -> int:
        at = self.main
        while at in self.snapshots:
            if sink in self.snapshots[at].numbers:
                return self.snapshots[at].numbers[sink]
            at = self.snapshots[at].parent
        return 0

    def append(self, sink: str, action: Append) -> None:
        if action.snapshot.version != self.main:
            raise UncertainAppendError(UnavailableError("main has changed"))
        self.commit(sink, action.checkpoint, {file.path: (file.path,) for file in action.files}, set())

    def commit(
        self, sink: str, number: int, added: dict[str, tuple[str, ...]], removed: set[str]
    ) -> None:
        """Write a snapshot of a sink, with its number."""
        before = self._in_ancestors(sink)
        self._commit(added, removed, {sink: number})
        if self.with_property:
            self.properties[sink] = number if self.in_one_commit else before
            self.removed.discard(sink)

    def _commit(
        self, added: dict[str, tuple[str, ...]], removed: set[str], numbers: dict[str, int]
    ) -> None:
        live = self.snapshots[self.main].files
        kept = {path: rows for path, rows in live.items() if path not in removed}
        self.written += 1
        self.snapshots[self.written] = Snapshot(self.main, kept | added, numbers)
        self.versions.append(Version(kept | added, self.versions[-1].numbers | numbers))
        self.main = self.written

    # --- other writers ----------------------------------------------------------------------------

    def write(self, row: str) -> None:
        self._commit({row: (row,)}, set(), {})

    def compact(self, random: Random) -> None:
        """Compact files, expire old snapshots, or remove properties that a snapshot still has."""
        match random.choice(["compact", "expire", "remove"]):
            case "compact":
                live = self.snapshots[self.main].files
                merged = {path for path in live if random.random() < 0.6}
                rows = tuple(row for path in live if path in merged for row in live[path])
                self._commit({f"compacted {self.written}": rows} if rows else {}, merged, {})
            case "expire" if not self.removed:
                self.snapshots = {self.main: self.snapshots[self.main]}
            case "remove":
                for sink, number in list(self.properties.items()):
                    if self._in_ancestors(sink) == number:
                        del self.properties[sink]
                        self.removed.add(sink)

    def rows(self) -> list[str]:
        return [row for rows in self.snapshots[self.main].files.values() for row in rows]
