"""Registration of the connector `upsert-kafka`: topics whose records replace each other by key."""

from rheos.connectors.kafka.flink_options import FLINK_OPTIONS
from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import WITHOUT_EFFECT, SqlOption

CONNECTOR = ConnectorRegistration(
    name="upsert-kafka",
    title="Kafka, with the last record of each key",
    module="rheos.connectors.kafka.upserts",
    source="source",
    sink="sink",
    deliveries={
        SinkGuarantee.EXACTLY_ONCE: "",
        SinkGuarantee.AT_LEAST_ONCE: 'guarantee="at_least_once"',
    },
    sql_options={
        "topic": "topics",
        **{name: option for name, option in FLINK_OPTIONS.items() if name != "key.fields"},
        "key.format": SqlOption("key_format"),
        "key.json.ignore-parse-errors": WITHOUT_EFFECT,
    },
    requires=("confluent_kafka",),
    install="rheos[kafka]",
    docs="sql-scripts.md",
)
