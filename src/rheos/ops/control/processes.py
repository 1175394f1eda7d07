"""Which process it is, so that another one can find out later whether it still lives."""

from __future__ import annotations

import hashlib
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
    """A name, which is not always its own: machines made from one image, and pods that were moved,
    may share it."""
    boot: str
    """Of the system that runs, new each time it starts; empty where that cannot be known."""
    namespace: str
    """Within which process ids mean the same: containers of one host may each have their own."""
    pid: int
    started_s: float
    machine: str = ""
    """Stays when the system starts again; empty where that cannot be known."""

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
        machine=_machine(),
    )


def liveness(process: ProcessId) -> Liveness:
    """Whether the process still runs. One that has ended, and that its parent has not yet looked
    after, is dead."""
    here = this_process()
    # Two systems that run have different boots, whatever their hosts are called; and within one, two
    # namespaces that live have different names.
    if (process.boot, process.namespace) != (here.boot, here.namespace):
        restarted = here.machine and process.boot != here.boot and _place(process) == _place(here)
        return Liveness.DEAD if restarted else Liveness.ELSEWHERE
    if not here.boot and process.host != here.host:
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


def _place(process: ProcessId) -> tuple[str, str, str]:
    """What stays when a machine starts again. Those of a container do not all."""
    return process.machine, process.host, process.namespace


def _started_s(process: psutil.Process) -> float:
    """On Linux since the system's start: there the time since the epoch moves with the clock."""
    return float(process.create_time() - (psutil.boot_time() if psutil.LINUX else 0.0))


def _machine() -> str:
    """A digest of the machine's id, which is not to be shown to others."""
    known = _text(Path("/etc/machine-id"))
    return hashlib.blake2b(known.encode(), digest_size=8, key=b"rheos").hexdigest() if known else ""


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
