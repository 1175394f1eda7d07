"""The driver's side of the event log: records events, writes them, and reads those of earlier
drivers."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import partial

import msgspec

from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import Action, Event, JobShape
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.names import safe_name
from rheos.core.errors import RheosError
from rheos.core.metrics.event_files import (
    FILE_EVENTS,
    encode_events,
    event_file_path,
    events_folder,
    read_events,
    stale_files,
)
from rheos.core.metrics.event_log import EventKind, EventLog, JobEvent
from rheos.core.metrics.health import JobHealth
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Completion, IoExecutor, Store
from rheos.runtimes.driver.driver_work import BackgroundWrite
from rheos.runtimes.driver.event_recorder import EventRecorder, health_conditions
from rheos.runtimes.job import Predecessor

_WRITE_EVERY_US = 500_000
_RETRY_AFTER_US = 5_000_000


class EventKeeper:
    """The event log of one driver. The master calls it; any thread may call `newest_first`. The I/O
    executor reads and writes the files. If that fails, it is tried again, and the job continues."""

    def __init__(
        self,
        job: JobId,
        store: Store,
        io: IoExecutor,
        shape: JobShape,
        owner: str,
        *,
        driver: str,
        predecessor: Predecessor | None,
        began_ms: int,
        kept: bool,
    ) -> None:
        """Begin the event log of one driver.

        Args:
            job: the job.
            store: the store that contains the job's log.
            io: the executor that reads and writes the files.
            shape: the operators of the running program.
            owner: unique to this driver.
            driver: its process and host, for display.
            predecessor: the driver that ran the job before.
            began_ms: the wall-clock time.
            kept: whether the store outlives the job.
        """
        self._job = job
        self._store = store
        self._io = io
        self._kept = kept
        self._prefix = re.sub(r"[^0-9a-zA-Z-]", "", owner)[-16:]
        self.log = EventLog(driver, self._prefix)
        self._recorder = EventRecorder(self.log, shape, driver, predecessor)
        self._names = {str(id): name for id, name in shape.operators.items()}
        self._looked_ms = 0
        self._first_ms = began_ms
        self._folder = events_folder(safe_name(job))
        self._reading: Completion[list[JobEvent]] | None = None
        self._has_read = False
        self._writing = BackgroundWrite(io)
        self._written: dict[str, list[JobEvent]] = {}
        """The events of each file, as last written."""
        self._version = 0
        """Version of the log when files were last written."""
        self._due_us = 0
        self._lock = threading.Lock()
        """Lock that is held while files are written: at the end of the job, two threads may write."""
        self._newest_write = 0
        self._writes = 0

    def newest_first(self) -> list[JobEvent]:
        return self.log.newest_first()

    def note(
        self,
        before: LifecycleState,
        event: Event,
        actions: Sequence[Action],
        coordinator: Coordinator,
        wall_ms: int,
    ) -> None:
        """Record the result of an event (`EventRecorder.note`)."""
        self._recorder.note(before, event, actions, coordinator, wall_ms)

    def earlier_restarts(self) -> list[tuple[int, str]]:
        """Return the restarts under earlier drivers and the takeovers, the oldest first. Each has its
        time in ms since the epoch and its reason. Safe to call from any thread."""
        own = {event.id for event in self.log.own}
        return [
            (event.at_ms, event.what)
            for event in reversed(self.log.newest_first())
            if event.kind is EventKind.TAKEOVER
            or (event.kind is EventKind.RESTART and event.id not in own)
        ]

    def note_health(self, health: JobHealth | None, now_ms: int) -> None:
        """Record which findings began and ended. `now_ms` is the wall-clock time."""
        if health is not None and health.at_ms != self._looked_ms:
            self._looked_ms = health.at_ms
            named = health_conditions(health)
            holding = {
                subject: msgspec.structs.replace(each, operator=self._names.get(each.operator or ""))
                for subject, each in named.items()
            }
            self.log.conditions(now_ms, holding)

    def step(self, now_us: int) -> None:
        """Start reading or writing files if that is due. Called often, with the monotonic time."""
        if not self._kept:
            return
        self._read_before()
        if not self._writing.has_ended(partial(self._write_again, now_us)):
            return
        if self._version == self.log.version or now_us < self._due_us:
            return
        self._due_us = now_us + _WRITE_EVERY_US
        self._version = self.log.version
        if files := self._changed():
            self._writes += 1
            self._writing.begin(partial(self._write, files, self._writes))

    def next_step_us(self) -> int | None:
        """Return the time of the next write by `step`; None if everything is written."""
        pending = self._kept and self._version != self.log.version and not self._writing.has_begun
        return self._due_us if pending else None

    def close(self) -> None:
        """Write the remaining events, and wait for that. Called when the job has ended."""
        if self._kept and (files := self._changed()):
            self._writes += 1
            self._write(files, self._writes)

    # --- files ------------------------------------------------------------------------------------

    def _changed(self) -> dict[str, list[JobEvent]]:
        """Return the files whose events differ from those last written."""
        by_file: dict[int, list[JobEvent]] = {}
        for event in self.log.own:
            number = int(event.id.rpartition("-")[2])
            by_file.setdefault((number - 1) // FILE_EVENTS, []).append(event)
        changed = {}
        for file, events in by_file.items():
            path = event_file_path(self._folder, f"{self._prefix}-{file:05d}", self._first_ms)
            # If the bound has dropped a file's first events, the file keeps them.
            if self._written.get(path, [])[-len(events) :] != events:
                changed[path] = events
        return changed

    def _write(self, files: dict[str, list[JobEvent]], number: int) -> None:
        """Write the files, unless a newer write has begun. Runs on the I/O executor, or in `close`."""
        with self._lock:
            if number < self._newest_write:
                return
            self._newest_write = number
            begins = any(path not in self._written for path in files)
            for path, events in files.items():
                self._store.put(path, encode_events(path, self._job, events))
                self._written[path] = events
            if begins:
                for stale in stale_files(self._store.list(self._folder)):
                    self._store.delete(stale)

    def _write_again(self, now_us: int) -> None:
        self._due_us = now_us + _RETRY_AFTER_US
        self._version = -1

    def _read_before(self) -> None:
        """Read the events of earlier drivers and put them before those of this one."""
        if self._reading is None:
            self._reading = self._io.submit(partial(read_events, self._store, self._folder, self._job))
        elif not self._has_read and self._reading.done():
            self._has_read = True
            try:
                earlier = self._reading.result()
            except (OSError, RheosError):
                return
            own = {event.id for event in self.log.own}
            self.log.precede([event for event in earlier if event.id not in own])


def stored_events(store: Store, job: JobId) -> list[JobEvent]:
    """Return the events that drivers have stored next to the log, the newest first. An ongoing event
    counts as over, because its driver is gone and nobody recorded its end.

    Raises:
        OSError: the folder cannot be listed.
    """
    events = read_events(store, events_folder(safe_name(job)), job)[::-1]
    return [msgspec.structs.replace(event, ongoing=False) for event in events]
