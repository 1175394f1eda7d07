"""Registration of the connector `iceberg`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.sql_options import SqlOption

CONNECTOR = ConnectorRegistration(
    name="iceberg",
    title="Apache Iceberg",
    module="rheos.connectors.iceberg",
    source="source",
    changes="changes",
    sink="sink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    sql_options={
        "catalog.": SqlOption("catalog"),
        "compact.": SqlOption("compact"),
        "expire.": SqlOption("expire"),
    },
    requires=("pyiceberg", "sqlalchemy"),
    install="rheos[iceberg]",
    server="rheos.ops.servers.iceberg:IcebergRestCatalog",
    docs="iceberg.md",
)
