"""The capture of a worker's log records, from the program and libraries, to be sent to the driver."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress

from rheos.connectors.calls.outside_calls import operator_here
from rheos.connectors.client_logs import CLIENT_LOGGERS, RepeatedMessageFilter, is_of_client
from rheos.core.protocol.log_lines import MAX_ERROR_CHARS, MAX_MESSAGE_CHARS, LogLine

MAX_LINES = 1000
SENT_EVERY_S = 0.25
"""Seconds between two sends. It bounds a worker to 4000 lines per second; further lines are counted."""


class LogCapture(logging.Handler):
    """The handler that captures the records of one slot, from `open` to `close`. Any thread may log;
    only the slot's own thread takes the records.

    If the program has not configured logging, its warnings still go to stderr: this handler does not
    change what users see there. Warnings of Rheos and of client libraries go to the job's log only. A
    message that a client repeats passes once per period.
    """

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._lines: deque[LogLine] = deque()
        self._dropped = 0
        self._next_s = 0.0
        self._level_before = logging.WARNING
        self._once = RepeatedMessageFilter()
        self._clients = [_ClientHandler(logging.getLogger(name), self) for name in CLIENT_LOGGERS]

    def open(self) -> None:
        root = logging.getLogger()
        self._level_before = root.level
        root.setLevel(min(self.level, root.level or self.level))
        root.addHandler(self)
        for each in self._clients:
            each.logger.addHandler(each)

    def close(self) -> None:
        root = logging.getLogger()
        if self in root.handlers:
            root.removeHandler(self)
            root.setLevel(self._level_before)
        for each in self._clients:
            each.logger.removeHandler(each)
            each.close()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        of_client = is_of_client(record.name)
        if of_client and not self._once.filter(record):
            return
        if len(self._lines) < MAX_LINES:
            try:
                self._lines.append(_line(record))
            except Exception:
                self.handleError(record)  # The message does not match its arguments.
        else:
            self._dropped += 1
        if not of_client and record.name.partition(".")[0] != "rheos":
            print_unhandled(record, self)

    def is_due(self) -> bool:
        """Return whether there are lines, and the last ones were taken a while ago."""
        return bool(self._lines) and time.monotonic() >= self._next_s

    def take(self) -> tuple[list[LogLine], int]:
        """Return the captured lines, and the number of dropped ones."""
        self._next_s = time.monotonic() + SENT_EVERY_S
        lines: list[LogLine] = []
        with suppress(IndexError):
            while len(lines) < MAX_LINES:
                lines.append(self._lines.popleft())
        dropped, self._dropped = self._dropped, 0
        return lines, dropped


class _ClientHandler(logging.Handler):
    """Passes the records of a client's logger to the capture if they do not reach the root logger.

    Google's client stops its logger from propagating when it is imported, which may be at any time.
    """

    def __init__(self, logger: logging.Logger, capture: LogCapture) -> None:
        super().__init__(capture.level)
        self.logger = logger
        self._capture = capture

    def emit(self, record: logging.LogRecord) -> None:
        if not self.logger.propagate:
            self._capture.handle(record)


def print_unhandled(record: logging.LogRecord, ours: logging.Handler) -> None:
    """Print a warning as Python would without our handler: if there is no other handler."""
    others = [handler for handler in logging.getLogger().handlers if handler is not ours]
    last = logging.lastResort
    if not others and last is not None and record.levelno >= last.level:
        last.handle(record)


def _line(record: logging.LogRecord) -> LogLine:
    error = ""
    if record.exc_info:
        error = logging.Formatter().formatException(record.exc_info)[-MAX_ERROR_CHARS:]
    return LogLine(
        at_ms=int(record.created * 1000),
        level=record.levelno,
        logger=record.name[:200],
        message=record.getMessage()[:MAX_MESSAGE_CHARS],
        operator=operator_here(),
        error=error,
    )
