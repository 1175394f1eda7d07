"""Retention: which files and log entries nothing needs any more (CP10).

A state file may be referred to by several checkpoints, since a chain of deltas names all its files in
each. So a file is not deleted with its checkpoint, but when no kept checkpoint and none in flight
refers to it, and none to come can: chains only grow from the newest completed checkpoint's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rheos.core.checkpoint.log_entries import CheckpointCompleted, Numbered
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.core.protocol.snapshots import StateHandle


def attempt_of(path: str) -> Attempt | None:
    """The attempt that wrote a state file; None where the path is not of our making."""
    parts = path.split("/")
    if len(parts) < 4 or parts[1] != "state" or not parts[2].isdecimal():
        return None
    return Attempt(int(parts[2]))


def referred(handles: Iterable[StateHandle]) -> set[str]:
    return {handle.path for handle in handles if handle.path}


def stale(
    paths: Iterable[str],
    attempt: Attempt,
    keep: frozenset[str],
    through: CheckpointId | None = None,
) -> list[str]:
    """Return the files in the state folder that nothing needs, among those of attempts before `attempt`
    and of its own checkpoints up to `through`."""
    own = range(0 if through is None else through + 1)
    return [
        path
        for path in paths
        if path not in keep
        and (writer := attempt_of(path)) is not None
        and (writer < attempt or (writer == attempt and _checkpoint_of(path) in own))
    ]


def _checkpoint_of(path: str) -> int | None:
    """The checkpoint that a state file was written for."""
    name = path.split("/")[3]
    return int(name) if name.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Expired:
    paths: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


class Retention:
    """Keeps the newest `retain` checkpoints, and of the files of others those that may be needed yet.

    A file goes when no kept checkpoint refers to it, and every checkpoint that was seen to refer to it
    is as old as the newest complete one: those to come refer to what that one does, and to files that
    are newer than it. So a file that only an aborted checkpoint has named stays until a checkpoint
    after that one completes without it.
    """

    def __init__(self, retain: int, completed: Sequence[Numbered] = ()) -> None:
        self._retain = max(1, retain)
        self._kept = list(completed)
        """Oldest first."""
        self._known: dict[str, CheckpointId] = {}
        """Files that exist and are ours to delete, with the newest checkpoint that refers to them."""
        for kept in completed:
            self.noted(kept.entry.checkpoint, kept.entry.handles)

    @property
    def newest(self) -> CheckpointCompleted | None:
        return self._kept[-1].entry if self._kept else None

    @property
    def kept(self) -> tuple[CheckpointCompleted, ...]:
        """The oldest first."""
        return tuple(kept.entry for kept in self._kept)

    @property
    def numbers(self) -> list[int]:
        return [kept.number for kept in self._kept]

    @property
    def numbers_beside_next(self) -> list[int]:
        """Numbers of the entries that are kept once another checkpoint is complete, without it."""
        return self.numbers[max(0, len(self._kept) + 1 - self._retain) :]

    @property
    def needed(self) -> frozenset[str]:
        """The files that the kept checkpoints refer to."""
        return frozenset(path for kept in self._kept for path in referred(kept.entry.handles))

    def noted(self, checkpoint: CheckpointId, handles: Iterable[StateHandle]) -> None:
        """A subtask acknowledged these, for a checkpoint that may or may not complete."""
        for path in referred(handles):
            self._known[path] = max(checkpoint, self._known.get(path, checkpoint))

    def completed(self, number: int, entry: CheckpointCompleted) -> Expired:
        """The checkpoint is in the log."""
        assert not self._kept or number > self._kept[-1].number, "CP1: entries come in order"
        self._kept.append(Numbered(number, entry))
        self.noted(entry.checkpoint, entry.handles)
        return self.trim()

    def trim(self) -> Expired:
        dropped = [kept.number for kept in self._kept[: -self._retain]]
        self._kept = self._kept[-self._retain :]
        newest = self.newest
        if newest is None:
            return Expired()
        needed = self.needed
        expired = [
            path
            for path, last in self._known.items()
            if last <= newest.checkpoint and path not in needed
        ]
        for path in expired:
            del self._known[path]
        return Expired(tuple(sorted(expired)), tuple(dropped))
