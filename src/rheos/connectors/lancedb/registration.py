"""Registration of the connector `lancedb`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="lancedb",
    title="LanceDB",
    module="rheos.connectors.lancedb",
    sink="sink",
    lookup="lookup",
    deliveries={SinkGuarantee.ONCE_BY_KEY: ""},
    sql_key="key",
    sql_lookup_key="key",
    requires=("lancedb",),
    install="rheos[lancedb]",
    docs="lancedb.md",
)
