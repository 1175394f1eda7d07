"""Retention: decides which files and log entries are no longer needed (CP10).

Several checkpoints may refer to one state file, since each checkpoint names all files of a chain of
deltas. So a file is not deleted with its checkpoint. It is deleted when no retained or open checkpoint
refers to it and no future one can. Future checkpoints only extend the chains of the newest completed
checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rheos.core.checkpoint.log_entries import CheckpointCompleted, NumberedCheckpoint
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.core.protocol.snapshots import StateHandle


def attempt_of(path: str) -> Attempt | None:
    """Return the attempt that wrote a state file; None if the path is not from Rheos."""
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
    """Return the files in the state folder that are no longer needed: those of attempts before
    `attempt`, and of its own checkpoints up to `through`."""
    own = range(0 if through is None else through + 1)
    return [
        path
        for path in paths
        if path not in keep
        and (writer := attempt_of(path)) is not None
        and (writer < attempt or (writer == attempt and _checkpoint_of(path) in own))
    ]


def _checkpoint_of(path: str) -> int | None:
    """Return the checkpoint for which a state file was written; None if it names none."""
    name = path.split("/")[3]
    return int(name) if name.isdecimal() else None


@dataclass(frozen=True, slots=True)
class ExpiredFiles:
    paths: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


class Retention:
    """Retains the newest `retain` checkpoints, and files of others that may still be needed.

    A file is deleted when no retained checkpoint refers to it, and no checkpoint newer than the newest
    complete one has referred to it. Future checkpoints refer only to the files of the newest complete
    one, and to newer files. So a file that only an aborted checkpoint has named stays until a later
    checkpoint completes without it.
    """

    def __init__(self, retain: int, completed: Sequence[NumberedCheckpoint] = ()) -> None:
        self._retain = max(1, retain)
        self._kept = list(completed)
        """Retained checkpoints, oldest first."""
        self._known: dict[str, CheckpointId] = {}
        """Existing files that retention may delete, with the newest checkpoint that refers to each."""
        for kept in completed:
            self.noted(kept.entry.checkpoint, kept.entry.handles)

    @property
    def newest(self) -> CheckpointCompleted | None:
        return self._kept[-1].entry if self._kept else None

    @property
    def kept(self) -> tuple[CheckpointCompleted, ...]:
        """Return the retained checkpoints, oldest first."""
        return tuple(kept.entry for kept in self._kept)

    @property
    def numbers(self) -> list[int]:
        return [kept.number for kept in self._kept]

    @property
    def numbers_with_next(self) -> list[int]:
        """Return the numbers of the entries that are retained in addition to the next checkpoint."""
        return self.numbers[max(0, len(self._kept) + 1 - self._retain) :]

    @property
    def needed(self) -> frozenset[str]:
        """Return the files to which the retained checkpoints refer."""
        return frozenset(path for kept in self._kept for path in referred(kept.entry.handles))

    def noted(self, checkpoint: CheckpointId, handles: Iterable[StateHandle]) -> None:
        """Record files that a subtask has acknowledged. Whether their checkpoint completes is still
        open."""
        for path in referred(handles):
            self._known[path] = max(checkpoint, self._known.get(path, checkpoint))

    def completed(self, number: int, entry: CheckpointCompleted) -> ExpiredFiles:
        """Record that a checkpoint is in the log, and return what has expired."""
        assert not self._kept or number > self._kept[-1].number, "CP1: entries come in order"
        self._kept.append(NumberedCheckpoint(number, entry))
        self.noted(entry.checkpoint, entry.handles)
        return self.trim()

    def trim(self) -> ExpiredFiles:
        dropped = [kept.number for kept in self._kept[: -self._retain]]
        self._kept = self._kept[-self._retain :]
        newest = self.newest
        if newest is None:
            return ExpiredFiles()
        needed = self.needed
        expired = [
            path
            for path, last in self._known.items()
            if last <= newest.checkpoint and path not in needed
        ]
        for path in expired:
            del self._known[path]
        return ExpiredFiles(tuple(sorted(expired)), tuple(dropped))
