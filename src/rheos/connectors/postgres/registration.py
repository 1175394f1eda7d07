"""Registrations of the connector `postgres`, and of Flink's names for it."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import WITHOUT_EFFECT, SqlOption

CONNECTOR = ConnectorRegistration(
    name="postgres",
    title="PostgreSQL",
    module="rheos.connectors.postgres",
    sink="sink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    lookup="lookup",
    changes="changes",
    sql_key="key",
    requires=("psycopg",),
    install="rheos[postgres]",
    server="rheos.ops.servers.postgres:PostgresServer",
    docs="postgres.md",
)

CDC = ConnectorRegistration(
    name="postgres-cdc",
    title="changes of PostgreSQL, as Flink names them",
    module="rheos.connectors.postgres.flink_tables",
    changes="changes",
    sql_options={
        "slot.name": SqlOption("slot"),
        "scan.startup.mode": SqlOption(
            "snapshot", {"initial": "true", "latest-offset": "false", "never": "false"}
        ),
        "decoding.plugin.name": SqlOption("", {"pgoutput": ""}),
        "changelog-mode": SqlOption("", {"upsert": "", "all": ""}),
        "scan.": WITHOUT_EFFECT,
        "debezium.": WITHOUT_EFFECT,
        "chunk-meta.": WITHOUT_EFFECT,
        "connect.": WITHOUT_EFFECT,
        "connection.": WITHOUT_EFFECT,
        "heartbeat.": WITHOUT_EFFECT,
    },
    requires=CONNECTOR.requires,
    install=CONNECTOR.install,
    docs="sql-scripts.md",
)
