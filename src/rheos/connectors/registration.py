"""Registry of connectors, in which programs, SQL and commands find them by name.

A registration names functions and modules as strings, so that the registry imports none of them.
Another distribution adds its own through the entry-point group `rheos.connectors`:

    [project.entry-points."rheos.connectors"]
    ledger = "acme_ledger.registration:CONNECTOR"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rheos.connectors.sql_options import SqlOption
from rheos.core.plug_ins import PlugInRegistry, Registration


class SinkGuarantee(StrEnum):
    """Guarantee of a sink: whether readers may see a row more than once after failures."""

    EXACTLY_ONCE = "exactly once"
    """Rows become visible with their checkpoint, and never again."""
    ONCE_BY_KEY = "once by key"
    """Rows become visible at once. A failure writes them again, which replaces the rows of their keys:
    until the job has caught up, a key may have an older value."""
    AT_LEAST_ONCE = "at least once"
    """Rows become visible at once. A failure writes some of them again."""


@dataclass(frozen=True, kw_only=True)
class ConnectorRegistration(Registration):
    """Registration of one system that rows are read from or written to."""

    module: str
    """Module that `rh.<name>` returns. The functions below are its attributes."""
    source: str | None = None
    """Function that creates a source."""
    sink: str | None = None
    """Function that creates a sink."""
    lookup: str | None = None
    """Function that creates a lookup."""
    changes: str | None = None
    """Function that creates a source of a table's changes. SQL uses it if there is no `source`."""
    deliveries: Mapping[SinkGuarantee, str] = field(default_factory=dict)
    """Guarantees of the sink: `""` for its default, otherwise the arguments that choose it."""
    sql_options: Mapping[str, str | SqlOption] = field(default_factory=dict)
    """SQL options that differ from the arguments they become."""
    sql_defaults: Mapping[str, str] = field(default_factory=dict)
    """Options of formats in SQL, such as `csv.header`, that differ from those in programs."""
    sql_key: str = "key_columns"
    """Argument of the sink that takes the columns of PRIMARY KEY in SQL, if it has that argument."""
    sql_lookup_key: str | None = None
    """Argument of the lookup that takes the compared columns, if SQL looks rows up by any column of a
    table. The lookup then also takes `columns` and `schema`."""
    server: str | None = None
    """Class of a server for development, as `module:class`, for `rheos servers <name>`."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """Further servers for development by their own names, as `module:class`."""

    @property
    def functions(self) -> Mapping[str, str]:
        """Return the names of the functions by what they create: source, sink, lookup, changes."""
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
        "mysql": "rheos.connectors.mysql.registration:CONNECTOR",
        "sql_database": "rheos.connectors.sql_database.registration:CONNECTOR",
        "duckdb": "rheos.connectors.duckdb.registration:CONNECTOR",
        "redis": "rheos.connectors.redis.registration:CONNECTOR",
        "nats": "rheos.connectors.nats.registration:CONNECTOR",
        "mqtt": "rheos.connectors.mqtt.registration:CONNECTOR",
        "rabbitmq": "rheos.connectors.rabbitmq.registration:CONNECTOR",
        "sqs": "rheos.connectors.sqs.registration:CONNECTOR",
        "kinesis": "rheos.connectors.kinesis.registration:CONNECTOR",
        "pulsar": "rheos.connectors.pulsar.registration:CONNECTOR",
        "http": "rheos.connectors.http.registration:CONNECTOR",
        "socket": "rheos.connectors.socket.registration:CONNECTOR",
        "opensearch": "rheos.connectors.opensearch.registration:CONNECTOR",
        "clickhouse": "rheos.connectors.clickhouse.registration:CONNECTOR",
        "mongodb": "rheos.connectors.mongodb.registration:CONNECTOR",
        "hbase": "rheos.connectors.hbase.registration:CONNECTOR",
        "lancedb": "rheos.connectors.lancedb.registration:CONNECTOR",
        "cassandra": "rheos.connectors.cassandra.registration:CONNECTOR",
        "tables": "rheos.connectors.tables:CONNECTOR",
        "delta": "rheos.connectors.delta.registration:CONNECTOR",
        "iceberg": "rheos.connectors.iceberg.registration:CONNECTOR",
        "upsert-kafka": "rheos.connectors.kafka.upsert_registration:CONNECTOR",
        "postgres-cdc": "rheos.connectors.postgres.registration:CDC",
        "mysql-cdc": "rheos.connectors.mysql.registration:CDC",
        "jdbc": "rheos.connectors.sql_database.registration:JDBC",
        "filesystem": "rheos.connectors.files.registration:FILESYSTEM",
        "datagen": "rheos.connectors.datagen:CONNECTOR",
        "blackhole": "rheos.connectors.blackhole:CONNECTOR",
        "print": "rheos.connectors.print:CONNECTOR",
        "collect": "rheos.connectors.collect:CONNECTOR",
    },
    namespace="rheos",
)
"""All connectors by name. Rheos declares its own in pyproject.toml, as any distribution does."""
