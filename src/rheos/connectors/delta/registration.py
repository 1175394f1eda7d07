"""Registration of the connector `delta`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="delta",
    title="Delta Lake",
    module="rheos.connectors.delta",
    source="source",
    sink="sink",
    sql_key="key",
    requires=("deltalake",),
    install="rheos[delta]",
    docs="delta.md",
)
