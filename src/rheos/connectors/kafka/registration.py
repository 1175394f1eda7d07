"""Registration of the connector `kafka`."""

from rheos.connectors.kafka.flink_options import FLINK_OPTIONS
from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="kafka",
    title="Kafka",
    module="rheos.connectors.kafka",
    source="source",
    sink="sink",
    deliveries={
        SinkGuarantee.EXACTLY_ONCE: "",
        SinkGuarantee.AT_LEAST_ONCE: 'guarantee="at_least_once"',
    },
    sql_options={"topic": "topics", **FLINK_OPTIONS},
    requires=("confluent_kafka",),
    install="rheos[kafka]",
    server="rheos.ops.servers.kafka:KafkaBroker",
    docs="kafka.md",
)
