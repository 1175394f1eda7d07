"""Registration of the connector `http`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="http",
    title="HTTP",
    module="rheos.connectors.http",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    docs="web.md",
)
