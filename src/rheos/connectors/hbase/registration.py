"""Registration of the connector `hbase`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="hbase",
    title="Apache HBase",
    module="rheos.connectors.hbase",
    source="source",
    sink="sink",
    lookup="lookup",
    deliveries={SinkGuarantee.ONCE_BY_KEY: ""},
    requires=("happybase", "thriftpy2"),
    install="rheos[hbase]",
    server="rheos.ops.servers.hbase:HbaseServer",
    docs="hbase.md",
)
