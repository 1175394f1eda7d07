"""Registration of the connector `opensearch`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="opensearch",
    title="OpenSearch",
    module="rheos.connectors.opensearch",
    sink="sink",
    requires=("urllib3", "urllib3.exceptions"),
    install="rheos[opensearch]",
    server="rheos.ops.servers.opensearch:OpenSearchNode",
    docs="stores.md",
)
