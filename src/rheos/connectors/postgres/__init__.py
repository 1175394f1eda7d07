"""Tables of PostgreSQL: `postgres.sink(...)`. It needs the extra `rheos[postgres]`."""

from rheos.connectors.postgres.sink import PostgresSink as PostgresSink
from rheos.connectors.postgres.sink import sink as sink
