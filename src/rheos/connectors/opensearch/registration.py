"""Registration of the connector `opensearch`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="opensearch",
    title="OpenSearch",
    module="rheos.connectors.opensearch",
    sink="sink",
    deliveries={SinkGuarantee.ONCE_BY_KEY: "", SinkGuarantee.AT_LEAST_ONCE: "id=None"},
    requires=("urllib3", "urllib3.exceptions"),
    install="rheos[opensearch]",
    server="rheos.ops.servers.opensearch:OpenSearchNode",
    docs="stores.md",
)
