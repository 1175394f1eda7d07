"""Amazon Kinesis Data Streams: `kinesis.source(...)` and `kinesis.sink(...)`, with `rheos[aws]`."""

from rheos.connectors.kinesis.sink import KinesisSink as KinesisSink
from rheos.connectors.kinesis.sink import sink as sink
from rheos.connectors.kinesis.source import KinesisSource as KinesisSource
from rheos.connectors.kinesis.source import source as source
