"""The address to listen at, and the names of this machine that requests may use."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

BACKLOG = 1024
"""Number of connections that the operating system queues until they are accepted."""


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def shown_address(host: str, port: int) -> str:
    """Return `host:port` as it is written in URLs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError, also if the port is out of range."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
        made.setblocking(False)
    except OverflowError as error:
        made.close()
        raise OSError(str(error)) from error
    except BaseException:
        made.close()
        raise
    return made


@dataclass(frozen=True)
class HostNames:
    """Names of this machine that a request without a token may use in its `Host` header.

    The DNS name of a hostile site can resolve to this machine, so that its visitors' browsers send
    requests here. Such a request contains the name of that site. A request with an IP address does not,
    so all addresses are allowed, unless the listener is on loopback.
    """

    names: frozenset[str]
    """Allowed names in lower case."""
    addresses: bool
    """Whether all IP addresses are allowed, not only those of loopback."""

    @staticmethod
    def of(host: str, more: Sequence[str] = ()) -> HostNames:
        """Return the names for a listener at `host`, with `more` that the user has configured."""
        own = [host] if is_loopback(host) else [host, socket.gethostname()]
        return HostNames(frozenset(name.lower() for name in (*own, *more)), not is_loopback(host))

    def allow(self, host: str) -> bool:
        """Return whether `host`, possibly with a port, is a name of this machine."""
        name = _without_port(host).lower().rstrip(".")
        if name in self.names or is_loopback(name):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return self.addresses


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
