"""Real servers for development and tests, without Docker.

```python
from rheos.testing import servers

with servers.KafkaBroker() as broker:
    print(broker.address)  # 127.0.0.1:43215; it ends with the block
```

In a shell, `rheos servers kafka` runs one until Ctrl-C. Servers listen on loopback only, and none
outlives the process that started it. `development_server("kafka")` returns the class by the name of the
connector, also for connectors of other distributions.
"""

import typing as _typing

from rheos.ops.servers.cassandra import CassandraNode
from rheos.ops.servers.clickhouse import ClickhouseServer
from rheos.ops.servers.hadoop import HadoopCluster
from rheos.ops.servers.hbase import HbaseServer
from rheos.ops.servers.iceberg import IcebergRestCatalog
from rheos.ops.servers.kafka import KafkaBroker
from rheos.ops.servers.mariadb import MariadbServer
from rheos.ops.servers.mongodb import MongodbServer
from rheos.ops.servers.moto import KinesisServer, SqsServer
from rheos.ops.servers.mqtt import MosquittoServer
from rheos.ops.servers.nats import NatsServer
from rheos.ops.servers.opensearch import OpenSearchNode
from rheos.ops.servers.postgres import PostgresServer
from rheos.ops.servers.pulsar import PulsarServer
from rheos.ops.servers.rabbitmq import RabbitmqServer
from rheos.ops.servers.redis import RedisServer
from rheos.ops.servers.server import Server, development_server, server_names

__all__ = [
    "CassandraNode",
    "ClickhouseServer",
    "HadoopCluster",
    "HbaseServer",
    "IcebergRestCatalog",
    "KafkaBroker",
    "KinesisServer",
    "MariadbServer",
    "MongodbServer",
    "MosquittoServer",
    "NatsServer",
    "OpenSearchNode",
    "PostgresServer",
    "PulsarServer",
    "RabbitmqServer",
    "RedisServer",
    "Server",
    "SqsServer",
    "development_server",
]

if not _typing.TYPE_CHECKING:

    def __getattr__(name: str) -> _typing.Any:
        """Return `KINDS`, the name that 0.1 had for `development_server`."""
        if name != "KINDS":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import warnings

        warnings.warn(
            "rheos.testing.servers.KINDS is now the function development_server(name)",
            DeprecationWarning,
            stacklevel=2,
        )
        return {each: development_server(each) for each in server_names()}
