"""Registration of the connector `postgres`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="postgres",
    title="PostgreSQL",
    module="rheos.connectors.postgres",
    sink="sink",
    lookup="lookup",
    changes="changes",
    sql_key="key",
    requires=("psycopg",),
    install="rheos[postgres]",
    server="rheos.ops.servers.postgres:PostgresServer",
    docs="postgres.md",
)
