"""Files of rows, in Parquet or lines (JSON, CSV, text): `files.source(...)` and `files.sink(...)`."""

from rheos.connectors.files.reading import source as source
from rheos.connectors.files.sink import FileSink as FileSink
from rheos.connectors.files.sink import sink as sink
from rheos.connectors.files.source import FileSource as FileSource
from rheos.connectors.files.watching import WatchedFiles as WatchedFiles
