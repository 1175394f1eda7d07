"""Registration of the connector `delta`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="delta",
    title="Delta Lake",
    module="rheos.connectors.delta",
    source="source",
    changes="changes",
    sink="sink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    sql_key="key",
    requires=("deltalake",),
    install="rheos[delta]",
    docs="delta.md",
)
