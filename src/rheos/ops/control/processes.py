"""The identity of a process, by which another process can later check whether it still lives."""

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
    """The identity of a process. Systems reuse process ids, but not together with the start time."""

    host: str
    """Name of the host. It is not always unique: machines made from one image, and pods that were
    moved, may share it."""
    boot: str
    """Id of the running system, new at each boot; empty if it is unknown."""
    namespace: str
    """Namespace of the process id: containers of one host may each have their own."""
    pid: int
    started_s: float
    machine: str = ""
    """Id of the machine, which survives a reboot; empty if it is unknown."""

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host}"

    def is_same(self, other: ProcessId) -> bool:
        """Return whether both are one process. Systems report its start time with a small error."""
        mine, its = ((p.host, p.boot, p.namespace, p.pid) for p in (self, other))
        return mine == its and abs(self.started_s - other.started_s) <= _SAME_START_S


class Liveness(Enum):
    ALIVE = "alive"
    DEAD = "dead"
    ELSEWHERE = "elsewhere"
    """On another host, or in another container: its state is unknown here."""


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
    """Return whether the process still runs. A process that has ended, and whose parent has not waited
    for it yet, is dead."""
    here = this_process()
    # Two running systems have different boots, whatever the names of their hosts. Within one system,
    # two living namespaces have different names.
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
    """Return the parts that survive a reboot of a machine. Those of a container do not all."""
    return process.machine, process.host, process.namespace


def _started_s(process: psutil.Process) -> float:
    """Return the start in seconds; on Linux since the boot, as there the epoch moves with the clock."""
    return float(process.create_time() - (psutil.boot_time() if psutil.LINUX else 0.0))


def _machine() -> str:
    """Return a digest of the machine's id, which must not be shown to others."""
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
