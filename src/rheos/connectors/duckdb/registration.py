"""Registration of the connector `duckdb`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="duckdb",
    title="DuckDB",
    module="rheos.connectors.duckdb",
    source="source",
    sink="sink",
    lookup="lookup",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    sql_key="key",
    sql_lookup_key="key",
    requires=("duckdb",),
    install="rheos[duckdb]",
    docs="duckdb.md",
)
