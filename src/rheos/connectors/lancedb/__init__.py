"""Tables of LanceDB: `lancedb.sink(...)`. It needs the extra `rheos[lancedb]`."""

from rheos.connectors.lancedb.sink import LanceDbSink as LanceDbSink
from rheos.connectors.lancedb.sink import sink as sink
