"""The processes of a running job, found from the one that was started.

    driver (python)
    ├── daemon started ahead (python) ── worker, worker, ...    local[n], of a session that Rheos made
    └── JVM ── daemon (python) ── worker, worker, ...           local[n]
        └── executor JVM ── daemon (python) ── worker, ...      local-cluster[n,c,m]

Only descendants of that process are found. If a driver has ended, its orphans are known from earlier
calls.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

import psutil

from rheos.runtimes.host.sockets import is_in_folder

_AHEAD = {"rheos.runtimes.spark.daemon", "--ahead"}
_EXECUTOR = "CoarseGrainedExecutorBackend"


class JobProcesses:
    """All processes that one process has started and that still live, whatever their parent is now.
    Call `look` regularly: it does not find a process whose parent has ended since the last call."""

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}

    def add(self, pid: int) -> None:
        """Add a process whose descendants are found."""
        self._known[pid] = psutil.Process(pid)

    def look(self) -> None:
        self._known = {pid: process for pid, process in self._known.items() if _alive(process)}
        parents = {}
        for process in psutil.process_iter(["ppid"]):
            parents[process.pid] = (process.info["ppid"], process)
        found = True
        while found:
            found = False
            for pid, (parent, process) in parents.items():
                if pid not in self._known and parent in self._known:
                    self._known[pid] = process
                    found = True

    def alive(self) -> list[psutil.Process]:
        """Return the living processes, the oldest first."""
        return sorted((p for p in self._known.values() if _alive(p)), key=_age)

    def jvms(self) -> list[psutil.Process]:
        """Return the JVMs of the driver and the executors."""
        return [process for process in self.alive() if _is_java(process)]

    def executors(self) -> list[psutil.Process]:
        return [process for process in self.jvms() if _EXECUTOR in " ".join(_command(process))]

    def slots(self) -> list[psutil.Process]:
        """Return the Python workers that hold a slot of the job: they listen for their peers. Idle
        workers, and those of other Spark work, do not."""
        return [
            process
            for process in self.alive()
            if not _is_java(process) and self._is_worker(process) and _listens(process)
        ]

    def _is_worker(self, process: psutil.Process) -> bool:
        """Return whether it was forked from a daemon that a JVM, or the driver, has started."""
        daemon = _parent(process)
        starter = None if daemon is None else _parent(daemon)
        if daemon is None or starter is None or _is_java(daemon):
            return False
        return _is_java(starter) or (_is_ahead(daemon) and not _is_ahead(starter))


def ended_meanwhile() -> contextlib.suppress:
    """Ignore errors in the block about a process that has ended meanwhile."""
    return contextlib.suppress(psutil.NoSuchProcess)


def describe(process: psutil.Process) -> str:
    """Return a description for display."""
    words = _command(process)
    return f"{process.pid} ({' '.join(words)[:80] or 'unknown'})"


def _alive(process: psutil.Process) -> bool:
    """Return whether the process lives: it is not a zombie, and its number was not reused."""
    with ended_meanwhile():
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    return False


def _age(process: psutil.Process) -> tuple[float, int]:
    with ended_meanwhile():
        return process.create_time(), process.pid
    return float("inf"), process.pid


def _command(process: psutil.Process) -> list[str]:
    with ended_meanwhile(), contextlib.suppress(psutil.AccessDenied):
        return list(process.cmdline())
    return []


def _is_java(process: psutil.Process | None) -> bool:
    if process is None:
        return False
    with ended_meanwhile():
        return "java" in process.name()
    return False


def _is_ahead(process: psutil.Process) -> bool:
    """Return whether it is a daemon that was started early, or was forked from one."""
    return set(_command(process)) >= _AHEAD


def _parent(process: psutil.Process) -> psutil.Process | None:
    with ended_meanwhile():
        return process.parent()
    return None


def _listens(process: psutil.Process) -> bool:
    """Return whether it listens: on TCP, or in the folder of the job's sockets."""
    with ended_meanwhile(), contextlib.suppress(psutil.AccessDenied):
        return any(
            connection.status == psutil.CONN_LISTEN or is_in_folder(str(connection.laddr))
            for kind in ("tcp", "unix")
            for connection in process.net_connections(kind=kind)
        )
    return False


@contextlib.contextmanager
def children_take_interrupts() -> Iterator[None]:
    """Let processes that the block starts end on SIGINT. Background jobs of a shell ignore it, and so
    would their children."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
