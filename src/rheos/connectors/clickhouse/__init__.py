"""ClickHouse: `clickhouse.sink` and `clickhouse.lookup`, with the extra `rheos[clickhouse]`."""

from rheos.connectors.clickhouse.lookup import ClickhouseLookup as ClickhouseLookup
from rheos.connectors.clickhouse.lookup import lookup as lookup
from rheos.connectors.clickhouse.sink import ClickhouseSink as ClickhouseSink
from rheos.connectors.clickhouse.sink import sink as sink
