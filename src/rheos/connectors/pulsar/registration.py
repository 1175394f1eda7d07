"""Registration of the connector `pulsar`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import SqlOption

CONNECTOR = ConnectorRegistration(
    name="pulsar",
    title="Apache Pulsar",
    module="rheos.connectors.pulsar",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.AT_LEAST_ONCE: ""},
    sql_options={"options.": SqlOption("options")},
    requires=("pulsar",),
    install="rheos[pulsar]",
    server="rheos.ops.servers.pulsar:PulsarServer",
    docs="pulsar.md",
)
