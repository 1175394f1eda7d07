"""What a job has promised, held against what it does to its store and its sinks, write by write.

The numbers are those of docs/protocols/checkpoints.md. Nothing here decides anything: the store's
writes, the sinks' commits and some messages pass by, and what breaks an invariant is noted.
"""

from __future__ import annotations

import zlib

from rheos.checkpoint.log import AttemptStarted, CheckpointCompleted, JobFinished, decode_entry
from rheos.checkpoint.log import safe_name as safe
from rheos.protocol import control
from rheos.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.protocol.snapshots import StateHandle
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.store import MemoryStore


class InvariantError(AssertionError):
    """The run broke a promise of the engine, whatever the rows are."""


class WatchedStore(MemoryStore):
    """A MemoryStore whose effects pass by a Watch."""

    def __init__(self, job: JobId, retain: int, clock: SimClock) -> None:
        super().__init__()
        self.watch = Watch(self.files, job, retain, clock)

    def _written(self, path: str, data: bytes) -> None:
        self.watch.written(path, data)
        super()._written(path, data)

    def _deleted(self, path: str) -> None:
        self.watch.deleted(path)
        super()._deleted(path)


class Watch:
    """Of one job in one store. `violations` says what was broken, and when."""

    def __init__(self, files: dict[str, bytes], job: JobId, retain: int, clock: SimClock) -> None:
        self.violations: list[str] = []
        self.completed: dict[int, CheckpointCompleted] = {}
        """The entries of checkpoints by their number in the log, as they were first."""
        self._files = files
        self._clock = clock
        self._retain = max(1, retain)
        self._log = f"{safe(job)}/log/"
        self._state = f"{safe(job)}/state/"
        self._newest = 0
        self._attempt = Attempt(0)
        self._checkpoint = CheckpointId(0)
        self._finished = False
        self._listed: set[tuple[OperatorId, bytes]] = set()
        self._committed: set[tuple[OperatorId, bytes]] = set()
        self._triggered_us: dict[tuple[Attempt, CheckpointId], int] = {}
        self._failed_writes: set[tuple[Attempt, CheckpointId, int]] = set()
        self._heard_us: dict[tuple[Attempt, int], int] = {}

    def _broken(self, what: str) -> None:
        self.violations.append(f"at {self._clock.monotonic_us()} us: {what}")

    # --- the store --------------------------------------------------------------------------------

    def written(self, path: str, data: bytes) -> None:
        """The file is about to be there; what was there before still is."""
        if path.startswith(self._log):
            number = int(path.removeprefix(self._log).removesuffix(".json"))
            if path in self._files:
                self._rewritten(number, path, data)
            else:
                self._entered(number, path, data)
        elif path.startswith(self._state) and self._files.get(path, data) != data:
            for entry in self._kept():
                if any(handle.path == path for handle in entry.handles):
                    self._broken(f"CP10: {path} of checkpoint {entry.checkpoint} was written over")

    def deleted(self, path: str) -> None:
        if path not in self._files:
            return
        if path.startswith(self._log):
            self._broken(f"CP1: the entry {path} was deleted")
        for entry in self._kept():
            if any(handle.path == path for handle in entry.handles):
                self._broken(f"CP10: {path} was deleted, and checkpoint {entry.checkpoint} needs it")

    def _kept(self) -> list[CheckpointCompleted]:
        newest = sorted(self.completed)[-self._retain :]
        return [self.completed[number] for number in newest]

    def _rewritten(self, number: int, path: str, data: bytes) -> None:
        before = self.completed.get(number)
        if before is None or decode_entry(data, path) != before.tombstone():
            self._broken(f"CP1: the entry {path} was written over")
        elif before in self._kept():
            self._broken(f"CP10: checkpoint {before.checkpoint} was dropped too early")

    def _entered(self, number: int, path: str, data: bytes) -> None:
        entry = decode_entry(data, path)
        if number != self._newest + 1:
            self._broken(f"CP1: entry {number} follows {self._newest}")
        if self._finished:
            self._broken(f"CP9: {entry} follows the job's end")
        self._newest = number
        match entry:
            case AttemptStarted():
                if entry.attempt != self._attempt + 1:
                    self._broken(f"CP6: attempt {entry.attempt} follows {self._attempt}")
                self._attempt = entry.attempt
                newest = self.completed[max(self.completed)].checkpoint if self.completed else None
                if entry.from_checkpoint != newest:
                    self._broken(f"CP7: attempt {entry.attempt} is not from checkpoint {newest}")
            case CheckpointCompleted():
                self._completed(number, entry)
            case JobFinished():
                self._finished = True
                last = max(self.completed.values(), key=lambda c: c.checkpoint, default=None)
                if last is None or not last.final:
                    self._broken("CP9: the job's end follows no final checkpoint")
                else:
                    self._all_committed(last, "the job's end is in the log")

    def _completed(self, number: int, entry: CheckpointCompleted) -> None:
        if entry.attempt != self._attempt:
            self._broken(f"CP2: attempt {entry.attempt} adds to the log of {self._attempt}")
        if entry.checkpoint <= self._checkpoint:
            self._broken(f"CP4: checkpoint {entry.checkpoint} follows {self._checkpoint}")
        self._checkpoint = entry.checkpoint
        self.completed[number] = entry
        self._listed.update((handle.operator, handle.payload) for handle in entry.committables)
        for handle in entry.handles:
            if not _is_whole(handle, self._files):
                self._broken(f"CP3: checkpoint {entry.checkpoint} refers to {handle.path or handle}")

    # --- sinks ------------------------------------------------------------------------------------

    def committing(self, operator: OperatorId, payload: bytes) -> None:
        if (operator, payload) not in self._listed:
            self._broken(f"CP3: {operator!r} commits {payload!r}, which no checkpoint lists")

    def committed(self, operator: OperatorId, payload: bytes) -> None:
        self._committed.add((operator, payload))

    def launching(self, entry: CheckpointCompleted | None) -> None:
        """An attempt is started from a checkpoint of the job."""
        if entry is not None:
            self._all_committed(entry, "an attempt starts from it")

    def _all_committed(self, entry: CheckpointCompleted, why: str) -> None:
        watched = {operator for operator, _ in self._committed}
        for handle in entry.committables:
            known = (handle.operator, handle.payload) in self._committed
            if handle.operator in watched and not known:
                what = f"{handle.payload!r} of checkpoint {entry.checkpoint}"
                self._broken(f"CP7: {what} is not committed, and {why}")

    # --- writes that fail -------------------------------------------------------------------------

    def write_failed(self, path: str) -> None:
        parts = path.removeprefix(self._state).split("/")
        if path.startswith(self._state) and len(parts) == 4:
            attempt, checkpoint, _, name = parts
            subtask = int(name.partition("-")[0])
            self._failed_writes.add((Attempt(int(attempt)), CheckpointId(int(checkpoint)), subtask))

    def triggering(self, message: control.TriggerCheckpoint) -> None:
        key = message.attempt, message.checkpoint
        self._triggered_us.setdefault(key, self._clock.monotonic_us())

    def declined(self, message: control.Decline) -> None:
        """CP11: a write that failed spoils the checkpoints until the subtask has heard of it, and none
        after: the next snapshot is whole."""
        if "could not be written" not in message.reason:
            return
        subtask = message.attempt, message.subtask
        if (message.attempt, message.checkpoint, message.subtask) in self._failed_writes:
            self._heard_us[subtask] = self._clock.monotonic_us()
            return
        heard_us = self._heard_us.get(subtask)
        triggered_us = self._triggered_us.get((message.attempt, message.checkpoint), 0)
        if heard_us is None or heard_us < triggered_us:
            self._broken(f"CP11: none of its writes failed, and {message}")

    # --- the end ----------------------------------------------------------------------------------

    def left_over(self) -> list[str]:
        """The state files that no kept checkpoint needs."""
        needed = {handle.path for entry in self._kept() for handle in entry.handles}
        return [path for path in self._files if path.startswith(self._state) and path not in needed]

    def ended(self) -> None:
        """The job is over: what it keeps is whole."""
        for entry in self._kept():
            for handle in entry.handles:
                if not _is_whole(handle, self._files):
                    self._broken(f"CP10: {handle.path} of checkpoint {entry.checkpoint} is not whole")


def _is_whole(handle: StateHandle, files: dict[str, bytes]) -> bool:
    data = files.get(handle.path) if handle.path else handle.inline
    return data is not None and zlib.crc32(data) == handle.checksum
