"""Tables of MariaDB: `mysql.changes(...)`, `mysql.tables(...)`. They need the extra `rheos[mysql]`."""

from rheos.connectors.database_tables import DatabaseTable as DatabaseTable
from rheos.connectors.mysql.change_source import MysqlChanges as MysqlChanges
from rheos.connectors.mysql.change_source import changes as changes
from rheos.connectors.mysql.database_list import tables as tables
