"""Apache Pulsar: `pulsar.source(...)` and `pulsar.sink(...)`, with the extra `rheos[pulsar]`."""

from rheos.connectors.pulsar.sink import PulsarSink as PulsarSink
from rheos.connectors.pulsar.sink import sink as sink
from rheos.connectors.pulsar.source import PulsarSource as PulsarSource
from rheos.connectors.pulsar.source import source as source
