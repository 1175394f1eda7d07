"""Registration of the connector `cassandra`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="cassandra",
    title="Cassandra",
    module="rheos.connectors.cassandra",
    sink="sink",
    deliveries={SinkGuarantee.ONCE_BY_KEY: ""},
    requires=("cassandra.cluster",),
    install="rheos[cassandra]",
    server="rheos.ops.servers.cassandra:CassandraNode",
    docs="stores.md",
)
