"""Tables of Delta Lake, without Spark and without jars: `delta.sink(...)`."""

from rheos.connectors.delta.sink import DeltaSink as DeltaSink
from rheos.connectors.delta.sink import sink as sink
