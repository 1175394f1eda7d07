"""Commands through the checkpoint directory, for a job whose driver runs on another host.

    <job>/control/<owner>/request         one request; the driver deletes it when it takes it
    <job>/control/<owner>/answers/<id>    the answer; the client deletes it

`owner` is the id of the driver in the job's note. The directory contains neither an address nor a
secret: whoever may write to the checkpoints of a job may command the job.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections import deque
from uuid import uuid4

import msgspec

from rheos.core.checkpoint.driver_note import DriverNote, decode_note, note_path
from rheos.core.checkpoint.names import safe_name
from rheos.core.errors import RheosError, TransportError
from rheos.core.protocol.decoding import BoundedDecoder, MalformedError
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Store
from rheos.ops.control.command_messages import MAX_REQUEST_BYTES, Refused, encode, request_decoder
from rheos.ops.control.control_socket import ask_by_socket, ended, no_answer
from rheos.ops.control.registry import JobRecord
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job_operations import JOB_OPERATIONS

LOGGER = logging.getLogger("rheos.commands")

LOOK_EVERY_S = 1.0
"""Interval at which a driver looks for a request."""
MAX_AT_WORK = 8
"""Maximum number of requests that a driver works on. Further ones wait in the directory."""
MAX_ANSWERS = 32
"""Maximum number of answers that no client has read. The driver deletes older ones."""
MAX_TIMEOUT_S = 86_400.0
_ENDS_WITHIN_S = 5.0
_ID = "[0-9a-f]{32}"
_POLL_S = 0.25
_NOTE_EVERY_S = 2.0
_LEAST_TIMEOUT_S = 10.0
"""Shortest time that a client waits: the driver looks only once per interval."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request in the directory."""

    id: str
    timeout_s: float
    """Time that the client waits for the answer."""
    request: bytes
    """Request as on the control socket, without the token."""

    def __post_init__(self) -> None:
        if not re.fullmatch(_ID, self.id) or not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise ValueError("the request has no valid id or timeout")


_REQUEST = BoundedDecoder[Request](Request, max_bytes=2 * MAX_REQUEST_BYTES)
_MADE = re.compile(f"([^/]+)/(?:request|answers/{_ID})")
"""Pattern of the files of a driver, below the folder of all drivers of the job. Other files are not
deleted."""


def _control(job: JobId) -> str:
    return f"{safe_name(job)}/control"


def _slot(job: JobId, owner: str) -> str:
    return f"{_control(job)}/{safe_name(owner)}/request"


def _answer(job: JobId, owner: str, id: str) -> str:
    return f"{_control(job)}/{safe_name(owner)}/answers/{id}"


# --- the driver ---------------------------------------------------------------------------------------


class Mailbox:
    """Passes requests from the job's checkpoint directory to its control socket, and returns the
    answers. Neither a slow store nor an error of it delays the job."""

    def __init__(self, store: Store, record: JobRecord, owner: str) -> None:
        """Create the mailbox of one driver.

        Args:
            store: the job's checkpoint directory.
            record: address and token of the driver's control socket.
            owner: id of the driver in the job's note.
        """
        self._store = store
        self._record = record
        self._job, self._owner = record.job, owner
        self._taken: deque[str] = deque(maxlen=MAX_ANSWERS)
        """Ids of the last requests that were taken. Deleting one may have failed. A client that did not
        receive the store's answer may post its request again."""
        self._answers: deque[str] = deque()
        self._at_work: list[threading.Thread] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheos-mailbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Take no more requests. Wait a few seconds until those at work are answered. May be called
        again."""
        self._over.set()
        give_up = time.monotonic() + _ENDS_WITHIN_S
        for thread in (self._thread, *self._at_work):
            thread.join(max(give_up - time.monotonic(), 0))

    def _run(self) -> None:
        with contextlib.suppress(Exception):
            self._delete_of_earlier_drivers()
        while not self._over.wait(LOOK_EVERY_S):
            # A store's error is not always an OSError. The next attempt may succeed.
            with contextlib.suppress(Exception):
                self._look()

    def _delete_of_earlier_drivers(self) -> None:
        for path in self._store.list(_control(self._job)):
            made = _MADE.fullmatch(path.removeprefix(f"{_control(self._job)}/"))
            if made is not None and made[1] != safe_name(self._owner):
                self._store.delete(path)

    def _look(self) -> None:
        self._at_work = [thread for thread in self._at_work if thread.is_alive()]
        if len(self._at_work) >= MAX_AT_WORK:
            return
        slot = _slot(self._job, self._owner)
        try:
            request = _REQUEST.decode(self._store.get(slot))
            request_decoder(JOB_OPERATIONS).decode(request.request)
        except FileNotFoundError:
            return
        except MalformedError as error:
            LOGGER.warning("an unreadable request in the checkpoint directory was deleted: %s", error)
        else:
            if request.id not in self._taken:
                self._taken.append(request.id)
                thread = threading.Thread(
                    target=self._work, args=(request,), name="rheos-mailed-command", daemon=True
                )
                self._at_work.append(thread)
                thread.start()
        self._store.delete(slot)

    def _work(self, request: Request) -> None:
        try:
            answer = ask_by_socket(self._record, request.request, request.timeout_s)
        except RheosError as error:
            answer = encode(Refused.of(error))
        path = _answer(self._job, self._owner, request.id)
        with contextlib.suppress(Exception):
            self._store.put(path, answer)
            self._answers.append(path)
            while len(self._answers) > MAX_ANSWERS:
                self._store.delete(self._answers.popleft())


# --- the client ---------------------------------------------------------------------------------------


def ask_by_mail(record: JobRecord, request: bytes, timeout_s: float) -> bytes:
    """Write an encoded request for the driver into the record's directory, and return the encoded
    answer.

    Raises:
        TransportError: the directory cannot be used, or the driver does not answer.
        CheckpointError: the job ended before it answered.
    """
    assert record.directory is not None
    timeout_s = min(max(timeout_s, _LEAST_TIMEOUT_S), MAX_TIMEOUT_S)
    id = uuid4().hex
    sent = encode(Request(id=id, timeout_s=timeout_s, request=request))
    slot = _slot(record.job, record.driver)
    answer, over = None, False
    try:
        store = open_store(record.directory, make=False)
        answer, over = _answered(store, record, sent, slot, id, timeout_s)
        if answer is None and store.get(slot) == sent:
            store.delete(slot)
    except FileNotFoundError:
        pass  # The driver has taken the request.
    except OSError as error:
        raise TransportError(
            f"the checkpoint directory of the job {record.job!r} cannot be used: {error}"
        ) from error
    if answer is not None:
        return answer
    raise ended(record) if over else no_answer(record, timeout_s)


def _answered(
    store: Store, record: JobRecord, sent: bytes, slot: str, id: str, timeout_s: float
) -> tuple[bytes | None, bool]:
    """Return the answer, and whether the job ended without one. Without an answer in time, the first is
    None."""
    path = _answer(record.job, record.driver, id)
    give_up = time.monotonic() + timeout_s
    look_at = time.monotonic() + _NOTE_EVERY_S
    posted = over = False
    while (now := time.monotonic()) < give_up:
        posted = posted or store.put_if_absent(slot, sent)
        with contextlib.suppress(FileNotFoundError):
            answer = store.get(path)
            store.delete(path)
            return answer, False
        if now >= look_at:
            if over:
                return None, True
            over = not runs(driver_in(store, record.job), record.driver)
            look_at = now + (_ENDS_WITHIN_S if over else _NOTE_EVERY_S)
        time.sleep(_POLL_S)
    return None, over


def driver_in(store: Store, job: JobId) -> DriverNote | None:
    """Return the note of the job's driver; None if the job has no note."""
    try:
        return decode_note(store.get(note_path(job)), job)
    except FileNotFoundError:
        return None


def runs(note: DriverNote | None, owner: str) -> bool:
    """Return whether the driver still runs the job, as far as the note shows."""
    return note is not None and note.owner in ("", owner) and not note.released
