"""Which process it is, so that another one can find out later whether it still lives."""

from __future__ import annotations

import os
import socket
from enum import Enum
from pathlib import Path

import msgspec
import psutil

_SAME_START_S = 1.0


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """A process id alone is given again to others; with the start it is not."""

    host: str
    boot: str
    """Of the host's system, new each time it starts; empty where that cannot be known."""
    namespace: str
    """Within which process ids mean the same: containers of one host may each have their own."""
    pid: int
    started_s: float

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host}"


class Liveness(Enum):
    ALIVE = "alive"
    DEAD = "dead"
    ELSEWHERE = "elsewhere"
    """On another host, or in another container: that cannot be known from here."""


def this_process() -> ProcessId:
    pid = os.getpid()
    return ProcessId(
        host=socket.gethostname(),
        boot=_text(Path("/proc/sys/kernel/random/boot_id")),
        namespace=_namespace(),
        pid=pid,
        started_s=_started_s(psutil.Process(pid)),
    )


def liveness(process: ProcessId) -> Liveness:
    """Whether the process still runs. One that has ended, and that its parent has not yet looked
    after, is dead."""
    here = this_process()
    if process.host != here.host:
        return Liveness.ELSEWHERE
    if process.boot != here.boot:
        return Liveness.DEAD
    if process.namespace != here.namespace:
        return Liveness.ELSEWHERE
    try:
        found = psutil.Process(process.pid)
        if found.status() == psutil.STATUS_ZOMBIE:
            return Liveness.DEAD
        same = abs(_started_s(found) - process.started_s) < _SAME_START_S
    except psutil.NoSuchProcess:
        return Liveness.DEAD
    except psutil.AccessDenied:
        return Liveness.ALIVE
    return Liveness.ALIVE if same else Liveness.DEAD


def _started_s(process: psutil.Process) -> float:
    """On Linux since the system's start: there the time since the epoch moves with the clock."""
    return float(process.create_time() - (psutil.boot_time() if psutil.LINUX else 0.0))


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
