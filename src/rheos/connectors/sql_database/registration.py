"""Registrations of the connector `sql_database`, and of Flink's name for it."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import WITHOUT_EFFECT, SqlOption

CONNECTOR = ConnectorRegistration(
    name="sql_database",
    title="SQL databases",
    module="rheos.connectors.sql_database",
    source="source",
    sink="sink",
    lookup="lookup",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    sql_key="key",
    sql_lookup_key="key",
    requires=("sqlalchemy",),
    install="rheos[sqlalchemy]",
    docs="sql-databases.md",
)

JDBC = ConnectorRegistration(
    name="jdbc",
    title="SQL databases, as Flink names them",
    module="rheos.connectors.sql_database.flink_tables",
    source="source",
    sink="sink",
    lookup="lookup",
    deliveries=CONNECTOR.deliveries,
    sql_lookup_key="key_columns",
    sql_options={
        "driver": WITHOUT_EFFECT,
        "connection.": WITHOUT_EFFECT,
        "sink.": WITHOUT_EFFECT,
        "scan.partition.column": SqlOption("partition_column"),
        "scan.partition.num": SqlOption("partition_num"),
        "scan.partition.lower-bound": SqlOption("partition_lower_bound"),
        "scan.partition.upper-bound": SqlOption("partition_upper_bound"),
        "scan.": WITHOUT_EFFECT,
    },
    requires=CONNECTOR.requires,
    install=CONNECTOR.install,
    docs="sql-scripts.md",
)
