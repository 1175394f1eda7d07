"""NATS JetStream: `nats.source(...)` and `nats.sink(...)`, with the extra `rheos[nats]`."""

from rheos.connectors.nats.sink import NatsSink as NatsSink
from rheos.connectors.nats.sink import sink as sink
from rheos.connectors.nats.source import NatsSource as NatsSource
from rheos.connectors.nats.source import source as source
