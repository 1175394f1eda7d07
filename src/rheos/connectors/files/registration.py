"""Registrations of the connector `files`, and of Flink's name for it."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import OF_FORMATS, WITHOUT_EFFECT, SqlOption

CONNECTOR = ConnectorRegistration(
    name="files",
    title="files",
    module="rheos.connectors.files",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    servers={"hadoop": "rheos.ops.servers.hadoop:HadoopCluster"},
    imports=("fsspec",),
    docs="files.md",
)

FILESYSTEM = ConnectorRegistration(
    name="filesystem",
    title="files, as Flink names them",
    module="rheos.connectors.files",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    sql_options={
        **OF_FORMATS,
        "source.monitor-interval": SqlOption("discover"),
        "sink.rolling-policy.": WITHOUT_EFFECT,
        "sink.partition-commit.": WITHOUT_EFFECT,
        "partition.": WITHOUT_EFFECT,
        "auto-compaction": WITHOUT_EFFECT,
        "compaction.": WITHOUT_EFFECT,
    },
    # Flink's files have no line with the names of the columns.
    sql_defaults={"csv.header": "false"},
    docs="sql-scripts.md",
)
