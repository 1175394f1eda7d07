"""Servers for development by the names of their connectors."""

from __future__ import annotations

import inspect
from difflib import get_close_matches

from rheos.connectors.registration import CONNECTORS
from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import Server


def development_server(name: str) -> type[Server]:
    """Return the class of a connector's server for development.

    Raises:
        ConfigurationError: no connector of this name has a server, or it cannot be loaded.
    """
    connector = CONNECTORS.find(name)
    if connector is None or connector.server is None:
        known = server_names()
        near = get_close_matches(name, known, 1)
        raise ConfigurationError(
            f"there is no server {name!r}",
            hint=f"{f'did you mean {near[0]!r}? ' if near else ''}the servers are {', '.join(known)}",
        )
    found = CONNECTORS.imported(connector, connector.server)
    if not (inspect.isclass(found) and issubclass(found, Server)):
        raise ConfigurationError(
            f"{connector.server} of the connector {name!r} is not a rheos.testing.servers.Server"
        )
    return found


def server_names() -> list[str]:
    """Return the names of all connectors that have a server for development."""
    found = (each.registration for each in CONNECTORS.registered())
    return sorted(each.name for each in found if each is not None and each.server is not None)
