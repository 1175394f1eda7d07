"""Real servers for development and tests, without Docker.

```python
from rheos.testing import servers

with servers.KafkaBroker() as broker:
    print(broker.address)  # 127.0.0.1:43215; it ends with the block
```

In a shell, `rheos servers kafka` runs one until Ctrl-C. Servers listen on loopback only, and none
outlives the process that started it.
"""

from rheos.ops.servers import (
    KINDS,
    CassandraNode,
    KafkaBroker,
    OpenSearchNode,
    PostgresServer,
    RedisServer,
    Server,
)

__all__ = [
    "KINDS",
    "CassandraNode",
    "KafkaBroker",
    "OpenSearchNode",
    "PostgresServer",
    "RedisServer",
    "Server",
]
