"""Reader of lines from a TCP server, in a thread, which reconnects if the connection is lost."""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading

from rheos.connectors.calls.outside_calls import OutsideCall, thread
from rheos.connectors.inbox import Inbox
from rheos.core.connectors.contract import Polled, SplitReader
from rheos.core.connectors.rejected_records import SKIPPED
from rheos.core.errors import InputError, RheosError, unexpected

LOGGER = logging.getLogger("rheos.socket")
"""Logger for the reason of a lost connection, once per loss."""

MAX_LINE_BYTES = 1 << 20
_RECEIVE_BYTES = 1 << 16
CONNECTION = OutsideCall(
    server="socket",
    call="source: receiving lines",
    limit_s=math.inf,
    limit="10 s to connect. A separate thread waits for lines, because a server may be silent for "
    "long; a lost server is detected after 60 s",
    then="no rows arrive; the source reconnects, after 0.1 s and then up to every 5 s",
)
_CONNECT_WITHIN_S = 10.0
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
_END_WITHIN_S = 5.0
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first probe, seconds between probes, and unanswered probes after which
the connection is lost."""


class LineCutter:
    """Splits received bytes into lines without line ends. Lines that are too long are dropped."""

    def __init__(self, *, max_bytes: int = MAX_LINE_BYTES, keep_blank: bool = False) -> None:
        self._max_bytes = max_bytes
        self._keep_blank = keep_blank
        self._begun = bytearray()
        self._skips = False
        """Whether to drop bytes up to the next line end."""
        self.too_long = 0
        """Number of dropped lines."""

    def cut(self, data: bytes) -> list[bytes]:
        """Return the lines that end in `data`, in order."""
        *ended, rest = data.split(b"\n")
        if ended:
            # A line may arrive in many small pieces, which are joined only once.
            ended[0] = bytes(self._begun) + ended[0]
            self._begun.clear()
            if self._skips:
                self._skips = False
                del ended[0]
        if not self._skips:
            self._begun += rest
        if len(self._begun) > self._max_bytes:
            self._begun.clear()
            self._skips = True
            self.too_long += 1
        return self._fit(ended)

    def end(self) -> list[bytes]:
        """Return the bytes after the last line end, once no more will follow; nothing if there are
        none."""
        begun, self._begun, self._skips = bytes(self._begun), bytearray(), False
        return self._fit([begun]) if begun else []

    def _fit(self, lines: list[bytes]) -> list[bytes]:
        lines = [line.removesuffix(b"\r") for line in lines]
        fit = [line for line in lines if len(line) <= self._max_bytes]
        self.too_long += len(lines) - len(fit)
        return fit if self._keep_blank else [line for line in fit if line.strip()]


class SocketReader(SplitReader):
    def __init__(
        self, address: tuple[str, int], inbox: Inbox, *, keep_blank: bool, skip_bad: bool
    ) -> None:
        self._address = address
        self._inbox = inbox
        self._keep_blank = keep_blank
        self._skip_bad = skip_bad
        self._closing = threading.Event()
        self._connection: socket.socket | None = None
        self._thread = thread(self._run, "rheos-socket")
        self._thread.start()

    def poll(self, max_rows: int) -> Polled:
        return self._inbox.poll(max_rows)

    def position(self) -> bytes:
        return self._inbox.position()

    def close(self) -> None:
        self._closing.set()
        self._inbox.close()
        # There may be no connection, or it was just closed.
        with contextlib.suppress(OSError, AttributeError):
            self._connection.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
        self._thread.join(_END_WITHIN_S)

    # --- the thread
    # --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._inbox.begin()
            wait_s = _FIRST_WAIT_S
            while not self._closing.is_set():
                has_read, why = self._read_a_connection()
                if has_read:
                    wait_s = _FIRST_WAIT_S
                if not self._closing.is_set() and (has_read or wait_s == _FIRST_WAIT_S):
                    host, port = self._address
                    LOGGER.warning("%s:%s: %s; retrying", host, port, why)
                self._closing.wait(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        except RheosError as error:
            self._inbox.fail(error)
        except Exception as error:
            self._inbox.fail(unexpected(error))

    def _read_a_connection(self) -> tuple[bool, str]:
        """Read from a new connection until it ends. Return whether data arrived, and why it ended."""
        try:
            connection = socket.create_connection(self._address, _CONNECT_WITHIN_S)
        except OSError as error:
            self._inbox.count("connect_failures")
            return False, f"cannot connect: {error}"
        with connection:
            self._connection = connection
            self._inbox.count("connections")
            connection.settimeout(None)
            _notice_its_end(connection)
            cutter = LineCutter(keep_blank=self._keep_blank)
            has_read = False
            try:
                while not self._closing.is_set():
                    data = connection.recv(_RECEIVE_BYTES)
                    if not data:
                        if not self._closing.is_set():
                            self._put(cutter.end())
                        return has_read, "the server closed the connection"
                    has_read = True
                    self._put(cutter.cut(data))
                    if cutter.too_long:
                        self._leave_out(cutter.too_long)
                        cutter.too_long = 0
            except OSError as error:
                return has_read, f"the connection was lost: {error}"
            finally:
                self._connection = None
        return has_read, "the source was closed"

    def _put(self, lines: list[bytes]) -> None:
        if lines:
            self._inbox.put(lines, self._inbox.decode(lines))

    def _leave_out(self, lines: int) -> None:
        if not self._skip_bad:
            host, port = self._address
            raise InputError(
                f"{host}:{port}: a line exceeds {MAX_LINE_BYTES} bytes",
                hint='send shorter lines, or skip such lines: on_error="skip"',
            )
        self._inbox.count(SKIPPED, lines)


def _notice_its_end(connection: socket.socket) -> None:
    """Enable keepalives. The reader sends nothing, so it would not notice if the server's machine is
    lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # The names differ between operating systems.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
