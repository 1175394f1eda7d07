"""Tables of Cassandra: `cassandra.sink(...)`. It needs the extra `rheos[cassandra]`."""

from rheos.connectors.cassandra.sink import CassandraSink as CassandraSink
from rheos.connectors.cassandra.sink import sink as sink
