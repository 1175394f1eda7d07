"""Registration of the connector `redis`."""

from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee

CONNECTOR = ConnectorRegistration(
    name="redis",
    title="Redis",
    module="rheos.connectors.redis",
    source="source",
    sink="sink",
    deliveries={SinkGuarantee.ONCE_BY_KEY: ""},
    lookup="lookup",
    requires=("redis", "redis.backoff", "redis.retry"),
    install="rheos[redis]",
    server="rheos.ops.servers.redis:RedisServer",
    docs="redis.md",
)
