"""Processor time of a thread, if the system reports it (Linux does, in `schedstat`)."""

from __future__ import annotations

import os
from contextlib import suppress

from rheos.core.protocol.ports import ThreadTime


class OwnThreadTime:
    """Processor time of the thread that creates it. To be closed."""

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> ThreadTime | None:
        if self._file is None:
            return None
        try:
            ran_ns, queued_ns, _ = os.pread(self._file, 128, 0).split()
            return ThreadTime(int(ran_ns) // 1000, int(queued_ns) // 1000)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """May be called again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
