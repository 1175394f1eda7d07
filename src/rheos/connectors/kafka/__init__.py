"""Topics of Kafka: `kafka.sink(...)`. It needs the extra `rheos[kafka]`."""

from rheos.connectors.kafka.sink import KafkaSink as KafkaSink
from rheos.connectors.kafka.sink import sink as sink
