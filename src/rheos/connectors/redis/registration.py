"""Registration of the connector `redis`."""

from rheos.connectors.registration import ConnectorRegistration

CONNECTOR = ConnectorRegistration(
    name="redis",
    title="Redis",
    module="rheos.connectors.redis",
    source="source",
    sink="sink",
    lookup="lookup",
    requires=("redis", "redis.backoff", "redis.retry"),
    install="rheos[redis]",
    server="rheos.ops.servers.redis:RedisServer",
    docs="redis.md",
)
