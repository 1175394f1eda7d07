"""Tables of PostgreSQL: `postgres.sink(...)`, `postgres.changes(...)`,
`postgres.lookup(...)`, `postgres.tables(...)`. They need the extra `rheos[postgres]`."""

from rheos.connectors.database_tables import DatabaseTable as DatabaseTable
from rheos.connectors.postgres.change_source import PostgresChanges as PostgresChanges
from rheos.connectors.postgres.change_source import changes as changes
from rheos.connectors.postgres.database_list import tables as tables
from rheos.connectors.postgres.lookup import PostgresLookup as PostgresLookup
from rheos.connectors.postgres.lookup import lookup as lookup
from rheos.connectors.postgres.sink import PostgresSink as PostgresSink
from rheos.connectors.postgres.sink import sink as sink
