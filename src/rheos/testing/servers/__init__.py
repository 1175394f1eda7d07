"""Real servers for development and tests, started by one line or one command, without Docker.

```python
from rheos.testing import servers

with servers.KafkaBroker() as broker:
    print(broker.address)  # 127.0.0.1:43215; it ends with the block
```

In a shell, `rheos servers kafka` runs one until Ctrl-C. They listen on loopback alone, and none
outlives the process that started it. A further system is a file with a class that derives from
`Server`, and a line in `KINDS`.
"""

from collections.abc import Mapping

from rheos.testing.servers.cassandra import CassandraNode
from rheos.testing.servers.kafka import KafkaBroker
from rheos.testing.servers.opensearch import OpenSearchNode
from rheos.testing.servers.postgres import PostgresServer
from rheos.testing.servers.redis import RedisServer
from rheos.testing.servers.server import Server

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
