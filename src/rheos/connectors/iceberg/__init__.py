"""Tables of Apache Iceberg, without Spark and without jars: `iceberg.sink(...)`."""

from rheos.connectors.iceberg.sink import IcebergSink as IcebergSink
from rheos.connectors.iceberg.sink import sink as sink
