"""Tables of LanceDB: `lancedb.sink(...)`, `lancedb.lookup(...)`, `lancedb.nearest(...)`. They need the
extra `rheos[lancedb]`."""

from rheos.connectors.lancedb.lookup import LanceDbLookup as LanceDbLookup
from rheos.connectors.lancedb.lookup import NearestLookup as NearestLookup
from rheos.connectors.lancedb.lookup import lookup as lookup
from rheos.connectors.lancedb.lookup import nearest as nearest
from rheos.connectors.lancedb.sink import LanceDbSink as LanceDbSink
from rheos.connectors.lancedb.sink import sink as sink
