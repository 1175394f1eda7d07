"""Tables in files of DuckDB: `duckdb.source(...)`, `duckdb.sink(...)`, `duckdb.lookup(...)`. They need
the extra `rheos[duckdb]`."""

from rheos.connectors.duckdb.lookup import DuckDbLookup as DuckDbLookup
from rheos.connectors.duckdb.lookup import lookup as lookup
from rheos.connectors.duckdb.sink import DuckDbSink as DuckDbSink
from rheos.connectors.duckdb.sink import sink as sink
from rheos.connectors.duckdb.source import DuckDbSource as DuckDbSource
from rheos.connectors.duckdb.source import source as source
