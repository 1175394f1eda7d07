"""The connectors that programs, SQL and commands know by name, each by one registration.

A registration names functions and modules as strings, so that a list of connectors imports none of
them. Another distribution adds its own through the entry-point group `rheos.connectors`:

    [project.entry-points."rheos.connectors"]
    ledger = "acme_ledger.registration:CONNECTOR"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rheos.core.plug_ins import PlugInRegistry, Registration


@dataclass(frozen=True, kw_only=True)
class ConnectorRegistration(Registration):
    """One system that rows are read from or written to."""

    module: str
    """The module that `rh.<name>` is. The functions below are its attributes."""
    source: str | None = None
    """The function that makes a source."""
    sink: str | None = None
    """The function that makes a sink."""
    lookup: str | None = None
    """The function that makes a lookup."""
    changes: str | None = None
    """The function that makes a source of the changes of a table. SQL reads it if there is no
    `source`."""
    sql_options: Mapping[str, str] = field(default_factory=dict)
    """Names of SQL options that differ from the arguments they become."""
    server: str | None = None
    """The class of a server for development, as `module:class`, for `rheos servers <name>`."""

    @property
    def functions(self) -> Mapping[str, str]:
        """The names of its functions by what they make: source, sink, lookup, changes."""
        made = {
            "source": self.source,
            "changes": self.changes,
            "sink": self.sink,
            "lookup": self.lookup,
        }
        return {what: name for what, name in made.items() if name is not None}

    def function(self, what: str) -> Any:
        """Import and return one of its functions.

        Args:
            what: A key of `functions`, such as "source".

        Returns:
            The function, of the module that `functions` declares.
        """
        return CONNECTORS.imported(self, f"{self.module}:{self.functions[what]}")


CONNECTORS = PlugInRegistry(
    ConnectorRegistration,
    "connector",
    "rheos.connectors",
    {
        "files": "rheos.connectors.files.registration:CONNECTOR",
        "kafka": "rheos.connectors.kafka.registration:CONNECTOR",
        "postgres": "rheos.connectors.postgres.registration:CONNECTOR",
        "redis": "rheos.connectors.redis.registration:CONNECTOR",
        "http": "rheos.connectors.http.registration:CONNECTOR",
        "socket": "rheos.connectors.socket.registration:CONNECTOR",
        "opensearch": "rheos.connectors.opensearch.registration:CONNECTOR",
        "cassandra": "rheos.connectors.cassandra.registration:CONNECTOR",
        "tables": "rheos.connectors.tables:CONNECTOR",
        "print": "rheos.connectors.print:CONNECTOR",
        "collect": "rheos.connectors.collect:CONNECTOR",
    },
    namespace="rheos",
)
"""All connectors by name. pyproject.toml declares the same ones, as any distribution would."""
