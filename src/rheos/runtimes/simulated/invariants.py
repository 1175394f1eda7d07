"""Checks each write of a job to its store and sinks against the invariants of the protocols.

docs/protocols/checkpoints.md has the invariants by their numbers. Nothing here makes decisions: the
watch sees the store's writes, the sinks' commits and some messages, and records each violation.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    JobFinished,
    Origin,
    decode_entry,
)
from rheos.core.checkpoint.log_marks import LOG_BLOCK, floor_of, is_mark
from rheos.core.checkpoint.names import safe_name
from rheos.core.checkpoint.savepoint import MANIFEST, Restore, Savepoint, read_savepoint
from rheos.core.connectors.contract import Split
from rheos.core.errors import CheckpointError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import StateHandle
from rheos.runtimes.driver.sources_and_sinks import watched_sources
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.split_watch import SplitWatch, cut_through_a_phase, split_rows
from rheos.runtimes.simulated.store import MemoryStore, StoreFolder

SAVEPOINTS = "savepoints"
"""Folder of a world's savepoints."""


class InvariantError(AssertionError):
    """The violation of an invariant of the engine, independent of the rows."""


class WatchedStore(MemoryStore):
    """A MemoryStore that reports its effects to a Watch."""

    def __init__(self, job: JobId, retain: int, clock: SimClock, block: int = LOG_BLOCK) -> None:
        super().__init__()
        self.watch = Watch(self.files, job, retain, clock, block)

    def _write(self, path: str, data: bytes) -> None:
        self.watch.written(path, data)
        super()._write(path, data)

    def _deleted(self, path: str) -> None:
        self.watch.deleted(path)
        super()._deleted(path)


class Watch:
    """The watch of one job in one store. `violations` lists the broken invariants with their times."""

    def __init__(
        self, files: dict[str, bytes], job: JobId, retain: int, clock: SimClock, block: int
    ) -> None:
        self.violations: list[str] = []
        self.completed: dict[int, CheckpointCompleted] = {}
        """The entries of checkpoints as first written, by their number in the log."""
        self.promised: list[str] = []
        """Folders of savepoints that were reported to the requester."""
        self._files = files
        self._clock = clock
        self._retain = max(1, retain)
        self._job = job
        self._log = f"{safe_name(job)}/log/"
        self._state = f"{safe_name(job)}/state/"
        self._savepoints = f"{SAVEPOINTS}/"
        self._newest = 0
        self._block = block
        self.compacted: set[int] = set()
        """Numbers of entries that compaction has deleted."""
        self._origin: Origin | None = None
        self._counting: list[int] = []
        """Numbers of the checkpoints since the job began, or started again from a savepoint."""
        self._attempt = Attempt(0)
        self._checkpoint = CheckpointId(0)
        self._finished = False
        self._final_us: int | None = None
        """Time of the final checkpoint's log entry."""
        self._late: set[str] = set()
        """Paths that were written after that entry."""
        self._listed: set[tuple[OperatorId, bytes]] = set()
        self._committed: set[tuple[OperatorId, bytes]] = set()
        self._finished_splits = 0, 0
        """Number of an entry, and the number of splits that it lists as finished."""
        self._phased: set[OperatorId] = set()
        """Sources whose splits have phases."""
        self.on_driver: frozenset[OperatorId] = frozenset()
        """Sinks whose output the driver publishes, if they report their commits."""
        self._triggered_us: dict[tuple[Attempt, CheckpointId], int] = {}
        self._failed_writes: dict[tuple[Attempt, int], dict[CheckpointId, int | None]] = {}
        """Checkpoints of which a write failed, by subtask; and when the subtask was notified."""

    def _broken(self, what: str) -> None:
        self.violations.append(f"at {self._clock.monotonic_us()} us: {what}")

    # --- the store --------------------------------------------------------------------------------

    def written(self, path: str, data: bytes) -> None:
        """Check a file that is about to be written. The previous contents still exist."""
        if path.startswith(self._log):
            number = int(path.removeprefix(self._log).removesuffix(".json"))
            if path in self._files:
                self._rewritten(number, path, data)
            else:
                self._entered(number, path, data)
            return
        if self._final_us is not None:
            self._late.add(path)
        if path.startswith(self._state) and self._files.get(path, data) != data:
            for entry in self._retained():
                if any(handle.path == path for handle in entry.handles):
                    self._broken(f"CP10: {path} of checkpoint {entry.checkpoint} was written over")
        elif path.startswith(self._savepoints):
            self._into_savepoint(path, data)

    def deleted(self, path: str) -> None:
        if path not in self._files:
            return
        if path.startswith(self._log):
            self._entry_deleted(int(path.removeprefix(self._log).removesuffix(".json")), path)
        if path.startswith(self._savepoints):
            folder = "/".join(path.split("/")[:2])
            if folder in self.promised or (not path.endswith(MANIFEST) and self._manifest(folder)):
                self._broken(f"CP13: {path} was deleted, and the savepoint exists")
        for entry in self._retained():
            if any(handle.path == path for handle in entry.handles):
                self._broken(f"CP10: {path} was deleted, and checkpoint {entry.checkpoint} needs it")

    def preparing(self, restore: Restore) -> None:
        """Check a checkpoint that slots are about to restore ahead."""
        checkpoint = restore.entry.checkpoint
        if checkpoint not in {entry.checkpoint for entry in self.completed.values()}:
            self._broken(f"UP12: slots restore checkpoint {checkpoint}, which is not in the log")

    def _entry_deleted(self, number: int, path: str) -> None:
        if number >= floor_of(self._newest, self._block) or number == 1:
            self._broken(f"CP42: the entry {path} was deleted, and {self._newest} is the newest")
        if number in self.compacted:
            return  # A driver wrote it that had slept through the deletion.
        if is_mark(number, self._newest, self._block):
            self._broken(f"CP43: the mark {path} was deleted, and {self._newest} is the newest")
        completed = self.completed.get(number)
        if completed in self._retained():
            self._broken(f"CP43: {path} was deleted, and its checkpoint is kept")
        if completed is not None and completed.savepoint:
            self._broken(f"CP43: {path} was deleted, and it names a savepoint")
        self.compacted.add(number)

    def _retained(self) -> list[CheckpointCompleted]:
        return [self.completed[number] for number in self._counting[-self._retain :]]

    def _rewritten(self, number: int, path: str, data: bytes) -> None:
        if number in self.compacted:
            return  # CP44: it has no effect, whatever it is.
        before = self.completed.get(number)
        if before is None or decode_entry(data, path).entry != before.tombstone():
            self._broken(f"CP1: the entry {path} was written over")
        elif before in self._retained():
            self._broken(f"CP10: checkpoint {before.checkpoint} was dropped too early")

    def _entered(self, number: int, path: str, data: bytes) -> None:
        if number in self.compacted:
            return  # CP44: its writer was asleep, and must notice that the log has continued.
        entry, _, place = decode_entry(data, path)
        if place is not None and (place.job, place.number) != (self._job, number):
            self._broken(f"CP31: {path} says that it is entry {place.number} of {place.job!r}")
        if number != self._newest + 1:
            self._broken(f"CP1: entry {number} follows {self._newest}")
        if self._finished:
            self._broken(f"CP9: {entry} follows the job's end")
        self._newest = number
        match entry:
            case AttemptStarted():
                # After a savepoint, attempts continue from that of the job that took it.
                begins = entry.origin != self._origin
                if entry.attempt <= self._attempt or not (begins or entry.attempt == self._attempt + 1):
                    self._broken(f"CP6: attempt {entry.attempt} follows {self._attempt}")
                self._attempt = entry.attempt
                if begins:
                    self._origin, self._counting = entry.origin, []
                newest = self.completed[self._counting[-1]].checkpoint if self._counting else None
                if entry.from_checkpoint != newest:
                    self._broken(f"CP7: attempt {entry.attempt} is not from checkpoint {newest}")
            case CheckpointCompleted():
                self._completed(number, entry)
            case JobFinished():
                self._finished = True
                if self.final is None:
                    self._broken("CP9: the job's end follows no final checkpoint")
                else:
                    self._all_committed(self.final, "the job's end is in the log")

    def _completed(self, number: int, entry: CheckpointCompleted) -> None:
        if entry.attempt != self._attempt:
            self._broken(f"CP2: attempt {entry.attempt} adds to the log of {self._attempt}")
        if entry.checkpoint <= self._checkpoint:
            self._broken(f"CP4: checkpoint {entry.checkpoint} follows {self._checkpoint}")
        self._checkpoint = entry.checkpoint
        if entry.final:
            self._final_us = self._clock.monotonic_us()
        self.completed[number] = entry
        self._counting.append(number)
        self._listed.update((handle.operator, handle.payload) for handle in entry.committables)
        for handle in entry.handles:
            if not _is_whole(handle, self._files):
                self._broken(f"CP3: checkpoint {entry.checkpoint} refers to {handle.path or handle}")
                return
        if self._phased:
            self._cut(entry)

    def _cut(self, entry: CheckpointCompleted) -> None:
        for operator, rows in split_rows(entry.handles, self._files).items():
            if operator in self._phased and (what := cut_through_a_phase(rows)) is not None:
                self._broken(f"CP26: in checkpoint {entry.checkpoint} of {operator!r}, {what}")

    @property
    def final(self) -> CheckpointCompleted | None:
        """The final checkpoint, once it is in the log."""
        newest = self.completed[self._counting[-1]] if self._counting else None
        return newest if newest is not None and newest.final else None

    # --- savepoints -------------------------------------------------------------------------------

    def _into_savepoint(self, path: str, data: bytes) -> None:
        folder = "/".join(path.split("/")[:2])
        if self._files.get(path, data) != data or (
            self._manifest(folder) and not path.endswith(MANIFEST)
        ):
            self._broken(f"CP13: {path} was written after the savepoint's manifest")
        if path.endswith(MANIFEST):
            found = read_savepoint(_ManifestStore(data), folder)
            self._is_savepoint(folder, found)
            watched = {operator for operator, _ in self._committed}
            for committable in self.published(found.entry.checkpoint) - self._committed:
                if committable[0] in watched:
                    self._broken(f"CP13: {folder} exists before {committable} is committed")
            if found.entry.committables:
                self._broken(f"CP13: {folder} lists something to commit")

    def _manifest(self, folder: str) -> bool:
        return f"{folder}/{MANIFEST}" in self._files

    def _is_savepoint(self, folder: str, found: Savepoint) -> None:
        for handle in found.entry.handles:
            if not _is_whole(handle, self._files, f"{folder}/"):
                self._broken(f"CP13: {folder} is a savepoint, and lacks {handle.path or handle.state}")

    def published(self, up_to: CheckpointId) -> set[tuple[OperatorId, bytes]]:
        """Return the committables that the checkpoints up to this one list. They may be committed once
        that checkpoint is complete."""
        return {
            (handle.operator, handle.payload)
            for entry in self.completed.values()
            if entry.checkpoint <= up_to
            for handle in entry.committables
        }

    # --- sinks ------------------------------------------------------------------------------------

    def committing(self, operator: OperatorId, payload: bytes) -> None:
        if (operator, payload) not in self._listed:
            self._broken(f"CP3: {operator!r} commits {payload!r}, which no checkpoint lists")

    def committed(self, operator: OperatorId, payload: bytes, *, by_slot: bool = False) -> None:
        self._committed.add((operator, payload))
        if by_slot and operator in self.on_driver:
            self._broken(f"CP28: a subtask has published {payload!r} of {operator!r}")

    def publishing(self, message: control.SinkPublished) -> None:
        """Check the driver's notification of published output, if commits are watched."""
        if message.operator not in self.on_driver:
            return
        for entry in self.completed.values():
            if entry.attempt != message.attempt or entry.checkpoint > message.checkpoint:
                continue
            for handle in entry.committables:
                known = (handle.operator, handle.payload) in self._committed
                if handle.operator == message.operator and not known:
                    what = f"{handle.payload!r} of checkpoint {entry.checkpoint}"
                    self._broken(f"CP28: {what} is not published, and the subtasks are notified")

    def launching(self, restore: Restore | None) -> None:
        """Check that everything in the restored checkpoint was committed, as an attempt starts."""
        if restore is not None:
            self._all_committed(restore.entry, "an attempt starts from it")

    def _all_committed(self, entry: CheckpointCompleted, why: str) -> None:
        watched = {operator for operator, _ in self._committed}
        for handle in entry.committables:
            known = (handle.operator, handle.payload) in self._committed
            if handle.operator in watched and not known:
                what = f"{handle.payload!r} of checkpoint {entry.checkpoint}"
                self._broken(f"CP7: {what} is not committed, and {why}")

    # --- sources ----------------------------------------------------------------------------------

    def reading(
        self,
        plan: PhysicalPlan,
        splits: Mapping[OperatorId, Sequence[Split]],
        restore: Restore | None,
    ) -> SplitWatch:
        """Return the watch for the splits that a started attempt reads."""
        self._phased = {id for id, some in splits.items() if len({s.phase for s in some}) > 1}
        sources = self._phased | watched_sources(plan, splits).keys()
        known = {id: splits[id] for id in sources}
        return SplitWatch(known, restore, self._files, self._broken)

    def finished_splits(self) -> int:
        """Return the number of splits that are finished in the newest checkpoint."""
        if not self._counting:
            return 0
        number = self._counting[-1]
        if self._finished_splits[0] != number:
            rows = split_rows(self.completed[number].handles, self._files)
            done = sum(row["finished"] for of in rows.values() for row in of)
            self._finished_splits = number, done
        return self._finished_splits[1]

    # --- failed writes ----------------------------------------------------------------------------

    def write_failed(self, path: str) -> None:
        parts = path.removeprefix(self._state).split("/")
        if path.startswith(self._state) and len(parts) == 4:
            attempt, checkpoint, _, name = parts
            subtask = int(name.partition("-")[0])
            failed = self._failed_writes.setdefault((Attempt(int(attempt)), subtask), {})
            failed.setdefault(CheckpointId(int(checkpoint)))

    def triggering(self, message: control.TriggerCheckpoint) -> None:
        key = message.attempt, message.checkpoint
        self._triggered_us.setdefault(key, self._clock.monotonic_us())

    def declined(self, message: control.Decline) -> None:
        """Check a declined checkpoint (CP11). A failed write invalidates the checkpoints until the
        subtask is notified of it, and none after, because the next snapshot is a full one."""
        if "could not be written" not in message.reason:
            return
        of = message.attempt, message.subtask
        failed = self._failed_writes.get(of, {})
        triggered_us = self._triggered_us.get((message.attempt, message.checkpoint), 0)
        if message.checkpoint in failed:
            failed[message.checkpoint] = self._clock.monotonic_us()
        elif not any(
            checkpoint < message.checkpoint and (heard_us is None or heard_us >= triggered_us)
            for checkpoint, heard_us in failed.items()
        ):
            self._broken(f"CP11: none of its writes failed, and {message}")

    # --- the end ----------------------------------------------------------------------------------

    def left_over(self) -> list[str]:
        """Return the state files that no kept checkpoint needs, except those that zombies have written
        after the job's final checkpoint."""
        needed = {handle.path for entry in self._retained() for handle in entry.handles}
        return [
            path
            for path in self._files
            if path.startswith(self._state)
            and path not in needed
            and path not in self._late
            and "/.tmp-" not in path
        ]

    def ended(self, calm_since_us: int) -> None:
        """Check an ended job. The checkpoints that it keeps are complete. If its final checkpoint was
        entered after the last fault, it has left no other file."""
        if self._final_us is not None and self._final_us >= calm_since_us:
            for path in self.left_over():
                self._broken(f"CP10: {path} was left, and nothing needs it")
        for entry in self._retained():
            for handle in entry.handles:
                if not _is_whole(handle, self._files):
                    self._broken(f"CP10: {handle.path} of checkpoint {entry.checkpoint} is not whole")
        for folder in self.promised:
            try:
                found = read_savepoint(StoreFolder(_Whole(self._files), folder), folder)
            except CheckpointError as error:
                self._broken(f"CP13: {error}")
            else:
                self._is_savepoint(folder, found)


class _ManifestStore(MemoryStore):
    """A store that contains only a savepoint's manifest."""

    def __init__(self, manifest: bytes) -> None:
        super().__init__()
        self.files[MANIFEST] = manifest


class _Whole(MemoryStore):
    """A store of the current files, without faults."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files = files


def _is_whole(handle: StateHandle, files: dict[str, bytes], folder: str = "") -> bool:
    data = files.get(folder + handle.path) if handle.path else handle.inline
    return data is not None and zlib.crc32(data) == handle.checksum
