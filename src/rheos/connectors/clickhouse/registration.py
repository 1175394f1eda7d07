"""Registration of the connector `clickhouse`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="clickhouse",
    title="ClickHouse",
    module="rheos.connectors.clickhouse",
    sink="sink",
    lookup="lookup",
    deliveries={
        SinkGuarantee.EXACTLY_ONCE: "",
        SinkGuarantee.AT_LEAST_ONCE: 'delivery="at_least_once"',
    },
    sql_key="key",
    sql_lookup_key="key",
    requires=("urllib3", "urllib3.exceptions"),
    install="rheos[clickhouse]",
    server="rheos.ops.servers.clickhouse:ClickhouseServer",
    docs="clickhouse.md",
)
