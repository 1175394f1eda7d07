"""Savepoints on the driver: requests from any thread, and the folders in which they are written."""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from rheos.core.checkpoint.events import (
    AfterSavepoint,
    Event,
    SavepointEnded,
    SavepointNotWritten,
    SavepointRead,
    SavepointRequested,
    SavepointUnreadable,
    SavepointWritten,
    WriteSavepoint,
)
from rheos.core.checkpoint.savepoint import (
    Savepoint,
    discard_savepoint,
    folder_name,
    read_savepoint,
    verify_savepoint,
    write_savepoint,
)
from rheos.core.errors import CheckpointError, RheosError
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Store
from rheos.core.version import VERSION
from rheos.runtimes.host.stores import check_lasting, open_store

OpenStore = Callable[[str], Store]
"""Function that opens a folder by its path or URL. It raises ConfigurationError if it cannot."""


def open_folder(directory: str) -> Store:
    """Open a folder for a savepoint, without creating it."""
    check_lasting(directory)
    return open_store(directory, make=False)


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    request: SavepointRequested
    answer: Future[str]


class SavepointService:
    """A queue of requests from any thread to the master's thread. Each is answered once, with the
    savepoint's folder or a CheckpointError."""

    def __init__(self, job: JobId, name: str, owner: str, open_store: OpenStore) -> None:
        self._job = job
        self._name = name
        self._owner = owner
        self._open_store = open_store
        self._lock = threading.Lock()
        self._count = 0
        self._asked: deque[_PendingRequest] = deque()
        self._under_way: dict[int, _PendingRequest] = {}
        self._closed: RheosError | None = None

    # --- for any thread ---------------------------------------------------------------------------

    def request(self, directory: str, after: AfterSavepoint) -> Future[str]:
        """Request a savepoint in a new folder below `directory`."""

        def made(number: int) -> SavepointRequested:
            unique = f"{zlib.crc32(self._owner.encode()):08x}"
            folder = f"{directory.rstrip('/')}/{folder_name(self._job, number, unique)}"
            return SavepointRequested(number, folder, after)

        return self._ask(made)

    def rescale(self, parallelism: int, why: str = "") -> Future[str]:
        """Request another parallelism. The answer is "", and comes when the job runs with it."""
        return self._ask(
            lambda number: SavepointRequested(
                number, None, AfterSavepoint.RESCALE, parallelism, why=why
            )
        )

    def hand_over(self, successor: str, keep_ms: int) -> Future[str]:
        """Request a handover. The answer is "", and comes when nothing of this driver runs."""
        return self._ask(
            lambda number: SavepointRequested(
                number, None, AfterSavepoint.HAND_OVER, successor=successor, keep_ms=keep_ms
            )
        )

    def _ask(self, made: Callable[[int], SavepointRequested]) -> Future[str]:
        """Send a request to the coordinator. `made` returns the request for its number."""
        answer: Future[str] = Future()
        answer.set_running_or_notify_cancel()
        with self._lock:
            if self._closed is not None:
                answer.set_exception(self._closed)
                return answer
            self._count += 1
            self._asked.append(_PendingRequest(made(self._count), answer))
        return answer

    def close(self, error: RheosError) -> None:
        """Refuse with `error` all waiting and all later requests, because the job has ended."""
        with self._lock:
            self._closed = error
            waiting = [*self._under_way.values(), *self._asked]
            self._under_way.clear()
            self._asked.clear()
        for asked in waiting:
            asked.answer.set_exception(error)

    # --- for the master ---------------------------------------------------------------------------

    def take(self) -> SavepointRequested | None:
        """Return the next request for the coordinator, or None."""
        if not self._asked:
            return None
        with self._lock:
            asked = self._asked.popleft()
            self._under_way[asked.request.request] = asked
        return asked.request

    def ended(self, action: SavepointEnded) -> None:
        with self._lock:
            asked = self._under_way.pop(action.request)
        if action.error is None:
            asked.answer.set_result(asked.request.directory or "")
        else:
            asked.answer.set_exception(action.error)

    def read(self, directory: str, thorough: bool) -> Event:
        try:
            store = self._open_store(directory)
            savepoint = read_savepoint(store, directory)
            if thorough:
                verify_savepoint(store, savepoint, directory)
            return SavepointRead(directory, savepoint)
        except RheosError as error:
            return SavepointUnreadable(directory, error)

    def write(self, action: WriteSavepoint) -> Event:
        """Write the manifest, which completes the savepoint."""
        entry = action.entry
        savepoint = Savepoint(
            id=f"{self._job}-{entry.checkpoint}-{self._owner}",
            job=self._job,
            name=self._name,
            version=VERSION,
            taken_ms=entry.completed_ms,
            entry=entry,
        )
        try:
            write_savepoint(self._open_store(action.directory), savepoint)
        except RheosError as error:
            failed = CheckpointError(
                f"the savepoint could not be written: {error.what}",
                hint="check the savepoint's directory; the job itself has lost nothing",
            )
            return SavepointNotWritten(action.request, failed)
        return SavepointWritten(action.request)

    def discard(self, directory: str) -> None:
        with contextlib.suppress(OSError, RheosError):
            discard_savepoint(self._open_store(directory))
