"""The address to listen at, and the names of this machine that requests may use."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

BACKLOG = 1024
"""Connections that the system holds until they are accepted."""


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def shown_address(host: str, port: int) -> str:
    """Return host:port, as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError, also where there is no such port."""
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
    """Names that a request without a token may use for this machine in its `Host`.

    A page of another site can have its own name resolve to this machine, and so make its visitor's
    browser send requests here. Such a request carries the other site's name. An address is no name, so
    beyond loopback every address is let in.
    """

    names: frozenset[str]
    """In lower case."""
    addresses: bool
    """Whether any address is let in, and not only one of loopback."""

    @staticmethod
    def of(host: str, more: Sequence[str] = ()) -> HostNames:
        """Return the names for a listener at `host`, with `more` that the user has named."""
        own = [host] if is_loopback(host) else [host, socket.gethostname()]
        return HostNames(frozenset(name.lower() for name in (*own, *more)), not is_loopback(host))

    def allow(self, host: str) -> bool:
        """Return whether this is a name of this machine. `host` may have a port."""
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
