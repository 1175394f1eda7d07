"""Registration of the connector `socket`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="socket",
    title="TCP sockets",
    module="rheos.connectors.socket",
    source="source",
    docs="web.md",
)
