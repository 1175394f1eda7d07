"""Topics of Kafka: `kafka.source(...)` and `kafka.sink(...)`. They need the extra `rheos[kafka]`."""

from rheos.connectors.kafka.sink import KafkaSink as KafkaSink
from rheos.connectors.kafka.sink import sink as sink
from rheos.connectors.kafka.source import KafkaSource as KafkaSource
from rheos.connectors.kafka.source import source as source
