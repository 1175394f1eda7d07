"""Tables of SQL databases through SQLAlchemy: `sql_database.sink(...)`. They need the extra
`rheos[sqlalchemy]`."""

from rheos.connectors.sql_database.sink import SqlDatabaseSink as SqlDatabaseSink
from rheos.connectors.sql_database.sink import sink as sink
