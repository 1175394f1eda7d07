"""Tables of MariaDB: `mysql.changes(...)`. They need the extra `rheos[mysql]`."""

from rheos.connectors.mysql.change_source import MysqlChanges as MysqlChanges
from rheos.connectors.mysql.change_source import changes as changes
