"""Tables of Delta Lake, without Spark and without jars: `delta.source(...)`,
`delta.changes(...)` and `delta.sink(...)`."""

from rheos.connectors.delta.change_source import DeltaChanges as DeltaChanges
from rheos.connectors.delta.change_source import changes as changes
from rheos.connectors.delta.sink import DeltaSink as DeltaSink
from rheos.connectors.delta.sink import sink as sink
from rheos.connectors.delta.source import DeltaSource as DeltaSource
from rheos.connectors.delta.source import source as source
