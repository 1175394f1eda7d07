"""Tables of SQL databases through SQLAlchemy: `sql_database.source(...)`,
`sql_database.sink(...)`, `sql_database.lookup(...)`. They need the extra `rheos[sqlalchemy]`."""

from rheos.connectors.sql_database.lookup import SqlDatabaseLookup as SqlDatabaseLookup
from rheos.connectors.sql_database.lookup import lookup as lookup
from rheos.connectors.sql_database.sink import SqlDatabaseSink as SqlDatabaseSink
from rheos.connectors.sql_database.sink import sink as sink
from rheos.connectors.sql_database.source import SqlDatabaseSource as SqlDatabaseSource
from rheos.connectors.sql_database.source import source as source
