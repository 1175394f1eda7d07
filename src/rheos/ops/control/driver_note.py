"""Takes, renews and releases the note that a driver runs a job (`checkpoint/driver_note.py`)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import assert_never

import msgspec

from rheos.core.checkpoint.driver_note import (
    RENEW_MS,
    Driver,
    DriverNote,
    NoteVerdict,
    decide,
    decode_note,
    encode_note,
    note_path,
)
from rheos.core.checkpoint.events import Outcome
from rheos.core.checkpoint.standby import LOOK_EVERY_MS, Standby, StandbyView
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Clock, Store
from rheos.ops.control.processes import Liveness, ProcessId, liveness
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.job import Predecessor
from rheos.runtimes.job_operations import TakeJob

_LOOK_EVERY_MS = 500
_SETTLE_MS = 200
"""Usual time that a store needs to write a note."""

_DRIVERS = {
    Liveness.ALIVE: Driver.ALIVE,
    Liveness.DEAD: Driver.DEAD,
    Liveness.ELSEWHERE: Driver.UNKNOWN,
}


class HeldNote:
    """One driver's note for one job, in the job's store. It never raises an OSError of the store: the
    job's own work reports such errors better, and does not depend on the note."""

    def __init__(self, store: Store, job: JobId, process: ProcessId, owner: str, now_ms: int) -> None:
        self.store = store
        self.owner = owner
        self._job = job
        self._path = note_path(job)
        self._note = DriverNote(
            owner=owner,
            driver=str(process),
            process=msgspec.Raw(msgspec.json.encode(process)),
            since_ms=now_ms,
            renewed_ms=now_ms,
            job=job,
        )
        self.held = False
        self.previous: DriverNote | None = None
        """The note of the job's previous driver, once this driver holds the job."""

    def acquire(
        self,
        clock: Clock,
        pause: Callable[[float], object],
        directory: str,
        watching: Callable[[str], object] = lambda driver: None,
        looks: Callable[[DriverNote], Driver] | None = None,
    ) -> None:
        """Take the job; at once if no driver has it. If the note must be watched for a few seconds to
        find out, call `watching` with the previous driver. Raise ConfigurationError if another driver
        runs the job. Its message shows `directory`."""
        look = driver_of if looks is None else looks
        first: DriverNote | None = None
        began_ms = 0
        with contextlib.suppress(OSError):
            while True:
                latest = self._read()
                if first is None and latest is not None:
                    first, began_ms = latest, clock.monotonic_us() // 1000
                driver = Driver.UNKNOWN if latest is None else look(latest)
                verdict = decide(first, latest, driver, clock.monotonic_us() // 1000 - began_ms)
                if verdict is NoteVerdict.FREE:
                    if self._take(latest):
                        return
                    first = None  # Another driver was faster.
                elif latest is not None:
                    if verdict is NoteVerdict.IN_USE:
                        raise _in_use(self._job, directory, latest)
                    if latest is first:
                        watching(latest.driver)
                pause(_LOOK_EVERY_MS / 1000)

    def stand_by(
        self,
        clock: Clock,
        pause: Callable[[float], object],
        behind: Callable[[str], object] = lambda driver: None,
        looks: Callable[[DriverNote], Driver] | None = None,
    ) -> DriverNote | None:
        """Wait until no driver runs the job, take it, and return None. If it has ended under another
        driver meanwhile, do not take it, and return that driver's note. Call `behind` with each driver
        for which this driver waits. Keep waiting while the store cannot be read."""
        look = driver_of if looks is None else looks
        standby, announced_owner = Standby(), ""
        while True:
            # A store's error is not always an OSError. The next attempt may succeed.
            with contextlib.suppress(Exception):
                latest = self._read()
                driver = Driver.UNKNOWN if latest is None else look(latest)
                match standby.look(latest, driver, clock.monotonic_us() // 1000):
                    case StandbyView.OVER:
                        return latest
                    case StandbyView.TAKES_OVER:
                        if self._take(latest) and self._holds_job(pause):
                            return None
                    case StandbyView.BEHIND:
                        if latest is not None and latest.owner != announced_owner:
                            announced_owner = latest.owner
                            behind(latest.driver)
                    case other:
                        assert_never(other)
            pause(LOOK_EVERY_MS / 1000)

    def _holds_job(self, pause: Callable[[float], object]) -> bool:
        """Return whether this driver still has the job. If several standbys took it, the last one has
        it."""
        pause(_SETTLE_MS / 1000)
        present = self._read()
        self.held = present is not None and present.owner == self.owner
        return self.held

    def present(self) -> DriverNote | None:
        """Return the note as it is stored now; None if it is missing. Raise OSError."""
        return self._read()

    def take(self) -> None:
        """Write this driver's note in place of another's, because the log has given it the job."""
        with contextlib.suppress(OSError):
            self._take(self._read())
        self.held = True  # If the store failed, the next renewal writes it.

    def renew(self, now_ms: int | None = None) -> bool:
        """Renew the note. Return False if another driver now has the job, which ends the renewals.

        Args:
            now_ms: the wall-clock time, for display; the clock is read by default.
        """
        if not self.held:
            return False
        try:
            present = self._read()
            if present is not None and present.owner not in ("", self.owner):
                self.held = False
                return False
            self._note = msgspec.structs.replace(
                self._note,
                renewals=self._note.renewals + 1,
                renewed_ms=SystemClock().now_ms() if now_ms is None else now_ms,
            )
            self.store.put(self._path, encode_note(self._note))
        except OSError:
            pass  # The next attempt may succeed.
        return True

    def release(self, outcome: Outcome | None = None) -> None:
        """Release the job with its outcome. None: it has not ended, so another driver may resume it."""
        if not self.held:
            return
        self.held = False
        with contextlib.suppress(OSError):
            present = self._read()
            if present is not None and present.owner == self.owner:
                last = msgspec.structs.replace(self._note, released=True, outcome=outcome)
                self.store.put(self._path, encode_note(last))

    def _take(self, stale: DriverNote | None) -> bool:
        """Write the note. Return False if another driver was faster."""
        self.previous = stale
        data = encode_note(self._note)
        if stale is None:
            if self.store.put_if_absent(self._path, data):
                self.held = True
                return True
        else:
            self.store.put(self._path, data)
        present = self._read()
        self.held = present is not None and present.owner == self.owner
        return self.held

    def _read(self) -> DriverNote | None:
        """Return the note; None if there is no such file."""
        try:
            return decode_note(self.store.get(self._path), self._job)
        except FileNotFoundError:
            return None


def driver_of(note: DriverNote) -> Driver:
    """Return the state of the note's driver, as far as this process can know it."""
    process = process_of(note)
    return Driver.UNKNOWN if process is None else _DRIVERS[liveness(process)]


def process_of(note: DriverNote) -> ProcessId | None:
    """Return the process of the note's driver; None if the note is damaged."""
    try:
        return msgspec.json.decode(note.process, type=ProcessId)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def predecessor_of(note: DriverNote | None) -> Predecessor | None:
    """Return the driver that wrote a note, in the form of the event log."""
    if note is None or not note.owner:
        return None
    return Predecessor(note.driver, note.released, note.outcome, note.renewed_ms or None)


def take_from(note: DriverNote | None) -> TakeJob:
    """Return the notification for a driver that waits, after the driver that wrote `note` has released
    the job or is lost."""
    before = predecessor_of(note)
    if before is None or before.released:
        return TakeJob()
    return TakeJob(lost=before.driver, seen_ms=before.seen_ms)


def _in_use(job: JobId, directory: str, note: DriverNote) -> ConfigurationError:
    since = datetime.fromtimestamp(note.since_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ConfigurationError(
        f"the job {job!r} in {directory} is being run by {note.driver}, since {since}",
        hint=f"cancel it (rheos cancel {job}@{directory}), or choose another name or checkpoint "
        "directory",
    )


class NoteKeeper:
    """A thread that renews a note until `close`, which releases it."""

    def __init__(self, note: HeldNote) -> None:
        self.note = note
        self._outcome: Outcome | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="rheos-driver-note", daemon=True)
        self._thread.start()

    def close(self, outcome: Outcome | None = None) -> None:
        """Release the note. `outcome` is that of the job; None if its driver failed. Wait at most as
        long as a slow store takes to write a note. May be called again: the first call counts."""
        if not self._over.is_set():
            self._outcome = outcome
        self._over.set()
        self._thread.join(RENEW_MS / 1000)

    def _keep(self) -> None:
        while not self._over.wait(RENEW_MS / 1000):
            # A store's error is not always an OSError. The next attempt may succeed.
            with contextlib.suppress(Exception):
                if not self.note.renew():
                    return
        # In the renewing thread: otherwise a slow renewal would restore the note.
        with contextlib.suppress(Exception):
            self.note.release(self._outcome)
