"""Tables of HBase, through its Thrift gateway: `hbase.source(...)`, `hbase.lookup(...)` and
`hbase.sink(...)`. They need the extra `rheos[hbase]`."""

from rheos.connectors.hbase.lookup import HbaseLookup as HbaseLookup
from rheos.connectors.hbase.lookup import lookup as lookup
from rheos.connectors.hbase.sink import HbaseSink as HbaseSink
from rheos.connectors.hbase.sink import sink as sink
from rheos.connectors.hbase.source import HbaseSource as HbaseSource
from rheos.connectors.hbase.source import source as source
