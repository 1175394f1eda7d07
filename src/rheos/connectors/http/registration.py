"""Registration of the connector `http`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="http",
    title="HTTP",
    module="rheos.connectors.http",
    source="source",
    sink="sink",
    docs="web.md",
)
