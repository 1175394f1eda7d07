"""Registration of the connector `kafka`."""

from rheos.connectors.kafka.flink_options import FLINK_OPTIONS
from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="kafka",
    title="Kafka",
    module="rheos.connectors.kafka",
    source="source",
    sink="sink",
    sql_options={"topic": "topics", **FLINK_OPTIONS},
    requires=("confluent_kafka",),
    install="rheos[kafka]",
    server="rheos.ops.servers.kafka:KafkaBroker",
    docs="kafka.md",
)
