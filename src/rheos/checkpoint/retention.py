"""Retention: which files and log entries nothing needs any more (CP10).

A state file may be referred to by several checkpoints, since a chain of deltas names all its files in
each. So a file is not deleted with its checkpoint, but when no kept checkpoint and none in flight
refers to it, and none to come can: chains only grow from the newest completed checkpoint's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rheos.checkpoint.log import CheckpointCompleted, Numbered, safe_name
from rheos.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.protocol.snapshots import StateHandle


def state_folder(job: JobId) -> str:
    return f"{safe_name(job)}/state"


def state_path(
    job: JobId,
    attempt: Attempt,
    checkpoint: CheckpointId,
    operator: OperatorId,
    subtask: int,
    state: str,
    name: str = "0.arrow",
) -> str:
    """Where a subtask writes a piece of a part (`0.arrow`, `1.arrow`, ...), or a file of a set. The
    attempt is in it: no two attempts write one file."""
    file = f"{subtask}-{safe_name(state)}-{safe_name(name)}"
    return f"{state_folder(job)}/{attempt}/{checkpoint}/{safe_name(operator)}/{file}"


def attempt_of(path: str) -> Attempt | None:
    """The attempt that wrote a state file; None where the path is not of our making."""
    parts = path.split("/")
    if len(parts) < 4 or parts[1] != "state" or not parts[2].isdecimal():
        return None
    return Attempt(int(parts[2]))


def referred(handles: Iterable[StateHandle]) -> set[str]:
    return {handle.path for handle in handles if handle.path}


def stale(paths: Iterable[str], attempt: Attempt, keep: frozenset[str]) -> list[str]:
    """Of the files in the state folder, those that attempts before `attempt` left and nothing needs."""
    return [
        path
        for path in paths
        if path not in keep and (writer := attempt_of(path)) is not None and writer < attempt
    ]


@dataclass(frozen=True, slots=True)
class Expired:
    paths: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


class Retention:
    """Keeps the newest `retain` checkpoints."""

    def __init__(self, retain: int, completed: Sequence[Numbered] = ()) -> None:
        self._retain = max(1, retain)
        self._kept = list(completed)
        """Oldest first."""
        self._known = {path for kept in completed for path in referred(kept.entry.handles)}
        """Files that exist and are ours to delete."""

    @property
    def newest(self) -> CheckpointCompleted | None:
        return self._kept[-1].entry if self._kept else None

    @property
    def numbers(self) -> list[int]:
        return [kept.number for kept in self._kept]

    @property
    def needed(self) -> frozenset[str]:
        """The files that the kept checkpoints refer to."""
        return frozenset(path for kept in self._kept for path in referred(kept.entry.handles))

    def noted(self, handles: Iterable[StateHandle]) -> None:
        """A subtask acknowledged these, for a checkpoint that may or may not complete."""
        self._known |= referred(handles)

    def completed(self, number: int, entry: CheckpointCompleted, in_flight: Iterable[str]) -> Expired:
        """The checkpoint is in the log; `in_flight` are the files of those still open."""
        assert not self._kept or number > self._kept[-1].number, "CP1: entries come in order"
        self._kept.append(Numbered(number, entry))
        self._known |= referred(entry.handles)
        return self.trim(in_flight)

    def trim(self, in_flight: Iterable[str] = ()) -> Expired:
        dropped = [kept.number for kept in self._kept[: -self._retain]]
        self._kept = self._kept[-self._retain :]
        expired = self._known - self.needed - set(in_flight)
        self._known -= expired
        return Expired(tuple(sorted(expired)), tuple(dropped))
