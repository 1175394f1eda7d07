"""Tables of Apache Iceberg, without Spark and jars: `iceberg.source(...)`, `iceberg.changes(...)` and
`iceberg.sink(...)`."""

from rheos.connectors.iceberg.change_source import IcebergChanges as IcebergChanges
from rheos.connectors.iceberg.change_source import changes as changes
from rheos.connectors.iceberg.sink import IcebergSink as IcebergSink
from rheos.connectors.iceberg.sink import sink as sink
from rheos.connectors.iceberg.source import IcebergSource as IcebergSource
from rheos.connectors.iceberg.source import source as source
