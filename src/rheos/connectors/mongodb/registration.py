"""Registration of the connector `mongodb`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="mongodb",
    title="MongoDB",
    module="rheos.connectors.mongodb",
    changes="changes",
    sink="sink",
    lookup="lookup",
    deliveries={SinkGuarantee.ONCE_BY_KEY: "", SinkGuarantee.AT_LEAST_ONCE: "id=None"},
    sql_key="id",
    requires=("pymongo", "pymongo.errors", "bson", "bson.json_util"),
    install="rheos[mongodb]",
    server="rheos.ops.servers.mongodb:MongodbServer",
    docs="mongodb.md",
)
