"""The signal that has killed a Python worker.

Only the daemon that forked a worker receives it, so the daemon writes it to stderr as a line. With a
local master, that is the stderr of the JVM, whose lines the driver reads (`jvm_lines`). On a cluster
the line is in the executor's log.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from types import FrameType
from typing import Any

_LINE = re.compile(r"rheos: worker process (\d+) was killed by signal (\d+)")
_MOST = 1000
_LOOK_EVERY_S = 0.02
_OWN_GROUP = 0
"""Process id that means all processes of the caller's group."""


def signal_text(number: int) -> str:
    """Return a description of a signal: "signal 9 (SIGKILL)"."""
    with contextlib.suppress(ValueError):
        return f"signal {number} ({signal.Signals(number).name})"
    return f"signal {number}"


# --- in the daemon --------------------------------------------------------------------------------


class _PatchedModule:
    """A module with some functions replaced by others."""

    def __init__(self, module: Any, **functions: Any) -> None:
        self._module = module
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def report_exits(daemon: Any) -> None:
    """Make a PySpark daemon report workers that are killed by a signal.

    The daemon ignores SIGCHLD, so the system forgets how its workers end. A handler now collects them
    instead. Workers that the daemon kills itself, alone or with its process group, are not reported.

    Args:
        daemon: the module `pyspark.daemon`, before its `manager` runs.
    """
    asked: set[int] = set()

    def kill(pid: int, number: int) -> None:
        asked.add(pid)
        os.kill(pid, number)

    def collect(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if os.WIFSIGNALED(status) and asked.isdisjoint((pid, _OWN_GROUP)):
                    line = f"rheos: worker process {pid} was killed by signal {os.WTERMSIG(status)}\n"
                    os.write(2, line.encode())
                asked.discard(pid)

    def install(number: int, handler: Any) -> Any:
        if number == signal.SIGCHLD and handler == signal.SIG_IGN:
            handler = collect
        return signal.signal(number, handler)

    daemon.os = _PatchedModule(os, kill=kill)
    daemon.signal = _PatchedModule(signal, signal=install)


# --- in the driver --------------------------------------------------------------------------------

_signals: dict[int, int] = {}
"""Signals by process id, the newest last."""
_changed = threading.Lock()


def note_exit(line: str) -> bool:
    """Return whether a line reports a worker that was killed. If so, remember it."""
    found = _LINE.fullmatch(line)
    if found is None:
        return False
    with _changed:
        _signals[int(found[1])] = int(found[2])
        while len(_signals) > _MOST:
            del _signals[next(iter(_signals))]
    return True


def signal_of(pid: int, within_s: float) -> int | None:
    """Return the signal that has killed a worker of this machine, and forget it. Return None if no
    report arrives within the time."""
    deadline_s = time.monotonic() + within_s
    while True:
        with _changed:
            number = _signals.pop(pid, None)
        if number is not None or time.monotonic() >= deadline_s:
            return number
        time.sleep(_LOOK_EVERY_S)
