"""Registration of the connector `files`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="files",
    title="files",
    module="rheos.connectors.files",
    source="source",
    sink="sink",
    servers={"hadoop": "rheos.ops.servers.hadoop:HadoopCluster"},
    docs="files.md",
)
