"""The servers of a job that chaos can strike: links to them, and their processes.

The job reaches a server through a proxy, whose address replaces the server's in the job's arguments and
environment.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import psutil

from rheos.core.errors import ConfigurationError
from rheos.ops.chaos.faulty_proxy import FaultyProxy, LinkFault
from rheos.ops.chaos.plan import Fault


class StruckServer(ABC):
    """One server, or the link to it."""

    name: str
    """Name for display."""

    @abstractmethod
    def strike(self, fault: Fault) -> None:
        """Begin the fault."""

    @abstractmethod
    def heal(self) -> None:
        """End the fault."""


class Link(StruckServer):
    """The link to a server, through a proxy."""

    def __init__(self, address: str, proxy: FaultyProxy) -> None:
        self.name = f"the link to {address}"
        self.address = address
        self._proxy = proxy

    @property
    def redirected(self) -> str:
        """Address of the proxy."""
        return f"127.0.0.1:{self._proxy.port}"

    def strike(self, fault: Fault) -> None:
        self._proxy.strike(LinkFault(fault))

    def heal(self) -> None:
        self._proxy.heal()


class ServerProcess(StruckServer):
    """A server's process with its descendants, which is stopped for a while and never killed."""

    def __init__(self, pid: int) -> None:
        """Find the process. Raise ConfigurationError if it does not exist, or may not be stopped."""
        self.name = f"the server's process {pid}"
        try:
            self._process = psutil.Process(pid)
            self._process.resume()  # This changes nothing, and shows whether it is permitted.
        except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError) as error:
            raise ConfigurationError(
                f"the process {pid} cannot be stopped: {error}",
                hint="pass the id of a server's process that this user may stop",
            ) from None

    def strike(self, fault: Fault) -> None:
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def heal(self) -> None:
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def _processes(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self._process, *self._process.children(recursive=True)]
        return []


@contextmanager
def links_to(addresses: Sequence[str]) -> Iterator[list[Link]]:
    """Open a proxy for each address, `host:port`. Raise ConfigurationError for an invalid address."""
    with ExitStack() as stack:
        links = []
        for address in addresses:
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
                raise ConfigurationError(
                    f"--link {address!r} is not the address of a server",
                    hint="write host:port, exactly as in the job's arguments or its environment",
                )
            links.append(Link(address, stack.enter_context(FaultyProxy(int(port), host.strip("[]")))))
        yield links


def redirected(
    links: Sequence[Link], arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the changed environment variables, with the address of each link's proxy
    in place of the server's. Raise ConfigurationError if neither has the address: the job would bypass
    the proxy."""
    changed = dict(environment)
    given = list(arguments)
    for link in links:
        address = re.compile(rf"(?<![\w.-]){re.escape(link.address)}(?!\d)")
        found = [address.search(text) for text in (*given, *changed.values())]
        if not any(found):
            raise ConfigurationError(
                f"neither the job's arguments nor its environment has the address {link.address}",
                hint="let the program read the server's address from there, so that chaos can "
                f"replace it by a proxy: rheos chaos job.py --link {link.address} -- "
                f"{link.address}",
            )
        given = [address.sub(link.redirected, text) for text in given]
        changed = {name: address.sub(link.redirected, text) for name, text in changed.items()}
    return given, {name: text for name, text in changed.items() if text != environment[name]}
