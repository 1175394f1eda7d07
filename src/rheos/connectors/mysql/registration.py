"""Registrations of the connector `mysql`, and of Flink's name for it."""

from rheos.connectors.registration import ConnectorRegistration
from rheos.connectors.sql_options import WITHOUT_EFFECT, SqlOption

CONNECTOR = ConnectorRegistration(
    name="mysql",
    title="MariaDB",
    module="rheos.connectors.mysql",
    changes="changes",
    requires=("pymysql",),
    install="rheos[mysql]",
    servers={"mariadb": "rheos.ops.servers.mariadb:MariadbServer"},
    docs="mysql.md",
)

CDC = ConnectorRegistration(
    name="mysql-cdc",
    title="changes of MariaDB, as Flink names them",
    module="rheos.connectors.mysql.flink_tables",
    changes="changes",
    sql_options={
        "scan.startup.mode": SqlOption("snapshot", {"initial": "true", "latest-offset": "false"}),
        "server-id": WITHOUT_EFFECT,
        "server-time-zone": WITHOUT_EFFECT,
        "scan.": WITHOUT_EFFECT,
        "debezium.": WITHOUT_EFFECT,
        "chunk-key.": WITHOUT_EFFECT,
        "chunk-meta.": WITHOUT_EFFECT,
        "split-key.": WITHOUT_EFFECT,
        "connect.": WITHOUT_EFFECT,
        "connection.": WITHOUT_EFFECT,
        "heartbeat.": WITHOUT_EFFECT,
    },
    requires=CONNECTOR.requires,
    install=CONNECTOR.install,
    docs="sql-scripts.md",
)
