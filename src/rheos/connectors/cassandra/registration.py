"""Registration of the connector `cassandra`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="cassandra",
    title="Cassandra",
    module="rheos.connectors.cassandra",
    sink="sink",
    requires=("cassandra.cluster",),
    install="rheos[cassandra]",
    server="rheos.ops.servers.cassandra:CassandraNode",
    docs="stores.md",
)
