"""A server for development and tests: it listens only on loopback, and ends with its starter.

A system is one class that derives from `Server`. It defines how to get it (`install`), how to start it
(`command`), and which line of its output shows that it is ready. This module does the rest.

    new ──start──> running ──stop, kill──> stopped ──start──> running ... ──close──> closed

A stopped server keeps its port and its data. If the starter dies, by whatever signal, the server ends,
too, and its data are removed unless the user has named their folder.
"""

from __future__ import annotations

import contextlib
import inspect
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import psutil

from rheos.connectors.registration import CONNECTORS, ConnectorRegistration
from rheos.core.errors import ConfigurationError
from rheos.core.known_names import names_hint

HOST = "127.0.0.1"
_ENDED_WITHIN_S = 60.0
_FROZEN_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.02
_TRIES = 3
_SHOWN_LINES = 15
_KEEPER = Path(__file__).with_name("keeper.py")


class Server(ABC):
    """A server that can be started and ended. Use it in a `with`, or call `close`.

    Args:
        port: where it listens; None selects a free one.
        data: the folder of its data, which is created if it is missing, and stays. None uses a private
            folder that is removed with the server.
    """

    name: ClassVar[str]
    """Name in the command `rheos servers NAME`."""
    ready: ClassVar[str]
    """Text that appears in the server's output once it serves."""
    port_taken: ClassVar[str] = "Address already in use"
    """Text that appears in the server's output if another process listens at its port."""
    ready_within_s: ClassVar[float] = 300.0
    """Seconds within which it must be ready. Most servers start with less than 5 s of processor time,
    but on a busy machine they may have only a few percent of a processor."""
    ends_by: ClassVar[signal.Signals] = signal.SIGTERM
    """Signal that shuts the server down cleanly."""

    def __init__(self, *, port: int | None = None, data: str | Path | None = None) -> None:
        self._port = port
        self._given_data = None if data is None else Path(data).absolute()
        self._folder: Path | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    # --- to be defined by each system ----------------------------------------------------------------

    @abstractmethod
    def install(self) -> None:
        """Download the server if it is missing here. Raise ConfigurationError if it cannot be installed
        on this machine: a test that needs it is then skipped."""

    @abstractmethod
    def command(self, folder: Path, port: int) -> Sequence[str]:
        """Return the command of a server that listens at the port on loopback and keeps its data in the
        folder, which exists. Called at each start. This method also writes the files that the server
        needs."""

    def runs_as(self) -> str | None:
        """The system's user as which it runs; None for the user who starts it."""
        return None

    @property
    def url(self) -> str:
        """URL with which a client connects. Known from the first start on."""
        return self.address

    # --- for users -----------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Address at which the server listens, `host:port`. Known from the first start on; it never
        changes."""
        if self._port is None:
            raise ConfigurationError(f"the {self.name} server was not started", hint="call start()")
        return f"{HOST}:{self._port}"

    @property
    def log(self) -> Path:
        """File with all its output."""
        assert self._folder is not None
        return self._folder / "server.log"

    @property
    def running(self) -> bool:
        """Whether the server's process is alive."""
        return self._keeper is not None and self._keeper.poll() is None

    def start(self) -> Self:
        """Start it, and return when it is ready. Raise ConfigurationError if that fails."""
        if self.running:
            return self
        self.install()
        folder = self._made_folder()
        for tried in range(1, _TRIES + 1):
            is_first = self._port is None
            port = self._port = self._port or free_port()
            output = self._started(self.command(folder, port))
            if output is None:
                return self
            if not (is_first and self.port_taken in output) or tried == _TRIES:
                raise ConfigurationError(
                    f"the {self.name} server did not start at {self.address}",
                    hint=f"see its output in {self.log}",
                    detail="\n".join(output.splitlines()[-_SHOWN_LINES:]),
                )
            self._port = None
        raise AssertionError("the last try returns or raises")

    def stop(self) -> None:
        """End it cleanly, and return when it has ended. Its data stay."""
        self._end(b"s")

    def kill(self) -> None:
        """Kill it (SIGKILL), and return when it is dead. Its data stay as they were."""
        self._end(b"k")

    def freeze(self) -> None:
        """Suspend its processes (SIGSTOP): clients stay connected, and get no answer.

        Returns when the processes are suspended, which a busy machine may do late.
        """
        processes = self._processes()
        for process in processes:
            process.suspend()
        give_up = time.monotonic() + _FROZEN_WITHIN_S
        halted = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
        while time.monotonic() < give_up and any(each.status() not in halted for each in processes):
            time.sleep(_LOOK_EVERY_S)

    def thaw(self) -> None:
        """Let its processes continue after `freeze`."""
        for process in self._processes():
            process.resume()

    def _processes(self) -> list[psutil.Process]:
        keeper = self._keeper
        return [] if keeper is None else psutil.Process(keeper.pid).children(recursive=True)

    def _processor_time_s(self) -> float:
        """Return the processor time of its running processes: little shows that the machine is busy."""
        used_s = 0.0
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                used_s += times.user + times.system
        return used_s

    def close(self) -> None:
        """End it for good, and remove its data unless the user has named their folder."""
        self.stop()
        folder = self._private_folder()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.close()

    # --- its process ---------------------------------------------------------------------------------

    def _made_folder(self) -> Path:
        if self._folder is None:
            if self._given_data is None:
                self._folder = self._new_folder()
            else:
                self._given_data.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder = self._given_data
        return self._folder

    def _private_folder(self) -> Path | None:
        """Return the folder to remove with the server; None if the user has named the folder."""
        return self._folder if self._given_data is None else None

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"rheos-{self.name}-"))

    def _started(self, command: Sequence[str]) -> str | None:
        """Start the keeper. Return None once the server is ready, or its output if it ends or hangs."""
        before = self.log.stat().st_size if self.log.exists() else 0
        kept = [
            str(self.log),
            str(self._private_folder() or ""),
            str(int(self.ends_by)),
            self.runs_as() or "",
            *command,
        ]
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), *kept],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # Ctrl-C in the terminal reaches only the starter, which then ends the server cleanly.
            start_new_session=True,
        )
        deadline = time.monotonic() + self.ready_within_s
        while True:
            has_ended = self._keeper.poll() is not None
            output = self._new_output(before)
            if self.ready in output:
                return None
            if has_ended:
                return output
            if time.monotonic() > deadline:
                used_s = self._processor_time_s()
                self.kill()
                return (
                    f"{output}\nit was not ready after {self.ready_within_s:g} s, "
                    f"with {used_s:.1f} s of processor time"
                )
            time.sleep(_LOOK_EVERY_S)

    def _new_output(self, since: int) -> str:
        with contextlib.suppress(FileNotFoundError), open(self.log, "rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")
        return ""

    def _end(self, how: bytes) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        assert keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended by itself.
            keeper.stdin.write(how)
            keeper.stdin.flush()
        keeper.wait(_ENDED_WITHIN_S)
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.close()


def free_port() -> int:
    """Return a port of loopback at which nobody listens at the moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


# --- servers by the names of their connectors ---------------------------------------------------------


def development_server(name: str) -> type[Server]:
    """Return the class of a connector's server for development.

    Raises:
        ConfigurationError: no connector of this name has a server, or it cannot be loaded.
    """
    CONNECTORS.find(name)  # Raises if the connector of this name is broken.
    known = _servers()
    if name not in known:
        hint = names_hint(name, known, "the servers are")
        raise ConfigurationError(f"unknown server {name!r}", hint=hint)
    connector, path = known[name]
    found = CONNECTORS.imported(connector, path)
    if not (inspect.isclass(found) and issubclass(found, Server)):
        raise ConfigurationError(
            f"{path} of the connector {connector.name!r} is not a rheos.testing.servers.Server"
        )
    return found


def server_names() -> list[str]:
    """Return the names of all servers for development."""
    return list(_servers())


def _servers() -> Mapping[str, tuple[ConnectorRegistration, str]]:
    """Return, for each name in order, the connector that has the server, and the path of its class."""
    found = {}
    for connector in (each.registration for each in CONNECTORS.registered()):
        if connector is not None:
            own = {} if connector.server is None else {connector.name: connector.server}
            found.update(
                {name: (connector, path) for name, path in (own | dict(connector.servers)).items()}
            )
    return dict(sorted(found.items()))
