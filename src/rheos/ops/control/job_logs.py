"""The logs of jobs: each has a file of JSON lines in a private folder of the user.

Only this module sets up logging in a driver. A line is a `LoggedLine`. When the file reaches 8 MB, a
new one is begun, and the previous two are kept. The driver's own parts also log to this file, and their
lines still go where Python's logging sends them.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

import msgspec

from rheos.connectors.client_logs import CLIENT_LOGGERS, RepeatedMessageFilter, is_of_client
from rheos.core.checkpoint.names import safe_name
from rheos.core.protocol.ids import JobId, JobKey
from rheos.core.redaction import redacted
from rheos.ops.control.registry import home_folder
from rheos.runtimes.driver.driver_logs import JOBS
from rheos.runtimes.host.log_capture import print_unhandled

MAX_FILE_BYTES = 8 << 20
OLDER_FILES = 2
MAX_LOGS = 100
"""Maximum number of logs of different jobs."""
MAX_LINES = 1000
"""Maximum number of lines that are read at a time."""
_LOOK_EVERY_S = 0.5


class LoggedLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the file, and of `--log-json`."""

    time: str
    """UTC in ISO 8601, with milliseconds."""
    level: str
    logger: str
    message: str
    job: str = ""
    """Id of the job; empty if a part of the driver that serves several jobs logged the line."""
    attempt: int | None = None
    operator: str | None = None
    """Name of the operator whose code logged the line; None if no operator did."""
    subtask: int | None = None
    """Number of the subtask; None for the driver."""
    error: str = ""
    """Traceback of an exception; empty without one."""


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(LoggedLine)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        known = vars(record)
        error = record.exc_text or ""
        if record.exc_info and not error:
            error = redacted(self.formatException(record.exc_info))
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = LoggedLine(
            time=at.replace("+00:00", "Z"),
            level=record.levelname.lower(),
            logger=record.name,
            message=redacted(record.getMessage()),
            job=known.get("job", ""),
            attempt=known.get("attempt"),
            operator=known.get("operator"),
            subtask=known.get("subtask"),
            error=error,
        )
        return _encode(line).decode()


class _Outputs(logging.Handler):
    """A handler that passes log records to all open logs. If a client library repeats a record, it
    passes once per period, and is not printed."""

    def __init__(self, open_: list[logging.Handler], *, prints: bool) -> None:
        super().__init__()
        self._open = open_
        self._prints = prints
        self._once = RepeatedMessageFilter()

    def emit(self, record: logging.LogRecord) -> None:
        of_client = is_of_client(record.name)
        if of_client and not self._once.filter(record):
            return
        outputs = list(self._open)
        for output in outputs:
            output.handle(record)
        if self._prints and not of_client and not any(isinstance(each, _ToStream) for each in outputs):
            print_unhandled(record, self)


_open: list[logging.Handler] = []
_changing = threading.Lock()
_RHEOS = logging.getLogger("rheos")
_CLIENTS = _Outputs(_open, prints=False)
_HANDLERS = (
    (_RHEOS, _Outputs(_open, prints=True)),
    (JOBS, _Outputs(_open, prints=False)),
    *(
        (logging.getLogger(name), _CLIENTS)
        for name in CLIENT_LOGGERS
        if name.partition(".")[0] != _RHEOS.name
    ),
)


def _begin(output: logging.Handler) -> None:
    output.setFormatter(JsonLines())
    with _changing:
        _open.append(output)
        for logger, handler in _HANDLERS:
            logger.addHandler(handler)  # Does nothing if it is already attached.


def _end(output: logging.Handler) -> None:
    with _changing:
        if output in _open:
            _open.remove(output)
        if not _open:
            for logger, handler in _HANDLERS:
                logger.removeHandler(handler)
    output.close()


class _ToFile(RotatingFileHandler):
    """A handler that creates its file with the first line. If a line cannot be written, the job ignores
    the error."""

    def __init__(self, path: Path, job: JobId) -> None:
        super().__init__(path, "a", MAX_FILE_BYTES, OLDER_FILES, "utf-8", delay=True)
        self._job = job

    def filter(self, record: logging.LogRecord) -> bool:
        return bool(vars(record).get("job", self._job) == self._job)

    def _open(self) -> io.TextIOWrapper:
        folder = Path(self.baseFilename).parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return io.TextIOWrapper(io.FileIO(descriptor, "a"), "utf-8", write_through=True)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        pass


class _ToStream(logging.StreamHandler[TextIO]):
    pass


class LogFile:
    """The log of one job of this process, until it is closed."""

    def __init__(self, key: JobKey, job: JobId) -> None:
        _sweep()
        self._output = _ToFile(log_path(key), job)
        _begin(self._output)

    def close(self) -> None:
        """Close the log. May be called again."""
        _end(self._output)


class LogStream:
    """A stream of every log line of every job of this process, as JSON, until it is closed."""

    def __init__(self, stream: TextIO) -> None:
        self._output = _ToStream(stream)
        _begin(self._output)

    def close(self) -> None:
        _end(self._output)


def _sweep() -> None:
    """Delete the oldest logs. Jobs without a checkpoint directory have a new log at each start."""
    with suppress(OSError):
        logs = sorted(log_folder().glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        for path in logs[: max(len(logs) - MAX_LOGS + 1, 0)]:
            for n in range(1, OLDER_FILES + 1):
                Path(f"{path}.{n}").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


# --- reading ----------------------------------------------------------------------------------------


def log_folder() -> Path:
    return home_folder() / "logs"


def log_path(key: JobKey) -> Path:
    return log_folder() / f"{safe_name(key)}.jsonl"


def newest_lines(path: Path, most: int) -> list[LoggedLine]:
    """Return at most `most` newest lines of a log, the oldest first; none if there is no file."""
    found: list[LoggedLine] = []
    for part in (path, *(Path(f"{path}.{n}") for n in range(1, OLDER_FILES + 1))):
        if len(found) >= most:
            break
        try:
            found = [*_lines(part.read_bytes().splitlines()[-most:]), *found]
        except OSError:
            break
    return found[-most:] if most else []


def following_lines(path: Path) -> Iterator[LoggedLine]:
    """Yield each line that is written from now on, without end, waiting for it."""
    at = path.stat() if path.exists() else None
    offset = at.st_size if at is not None else 0
    rest = b""
    while True:
        now = path.stat() if path.exists() else None
        if now is not None:
            if at is not None and now.st_ino != at.st_ino:
                # A new file has been begun, and the one read so far is now the first of the older ones.
                rest += _read(Path(f"{path}.1"), offset)
                offset = 0
            at = now
            data = _read(path, offset)
            offset += len(data)
            *whole, rest = (rest + data).split(b"\n")
            yield from _lines(whole)
        time.sleep(_LOOK_EVERY_S)


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except OSError:
        return b""


def _lines(written: Iterable[bytes]) -> Iterator[LoggedLine]:
    for line in written:
        try:
            yield _decoder.decode(line)
        except msgspec.MsgspecError:
            continue  # The line is incomplete, because the process that wrote it ended.
