"""Registration of the connector `delta`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import SqlOption

CONNECTOR = ConnectorRegistration(
    name="delta",
    title="Delta Lake",
    module="rheos.connectors.delta",
    source="source",
    changes="changes",
    sink="sink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    sql_options={"compact.": SqlOption("compact"), "expire.": SqlOption("expire")},
    sql_key="key",
    requires=("deltalake",),
    install="rheos[delta]",
    docs="delta.md",
)
