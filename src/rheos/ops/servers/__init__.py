"""Servers for development and tests: the work of `rheos servers` and `rheos.testing.servers`.

A further system is a file with a class that derives from `Server`, and a line in `KINDS`.
"""

from collections.abc import Mapping

from rheos.ops.servers.cassandra import CassandraNode
from rheos.ops.servers.kafka import KafkaBroker
from rheos.ops.servers.opensearch import OpenSearchNode
from rheos.ops.servers.postgres import PostgresServer
from rheos.ops.servers.redis import RedisServer
from rheos.ops.servers.server import Server

KINDS: Mapping[str, type[Server]] = {
    kind.name: kind
    for kind in (
        CassandraNode,
        KafkaBroker,
        OpenSearchNode,
        PostgresServer,
        RedisServer,
    )
}
"""By the names that `rheos servers` takes."""

__all__ = [
    "KINDS",
    "CassandraNode",
    "KafkaBroker",
    "OpenSearchNode",
    "PostgresServer",
    "RedisServer",
    "Server",
]
