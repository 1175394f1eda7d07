"""Registration of the connector `nats`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="nats",
    title="NATS JetStream",
    module="rheos.connectors.nats",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: "", SinkGuarantee.EXACTLY_ONCE: 'delivery="exactly_once"'},
    requires=("nats", "nats.js.api", "nats.js.errors", "nats.errors", "nats.protocol.parser"),
    install="rheos[nats]",
    server="rheos.ops.servers.nats:NatsServer",
    docs="nats.md",
)
