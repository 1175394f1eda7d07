"""Redis: `redis.source(...)`, `redis.sink(...)`, `redis.lookup(...)`, with the extra `rheos[redis]`."""

from rheos.connectors.redis.lookup import RedisLookup as RedisLookup
from rheos.connectors.redis.lookup import lookup as lookup
from rheos.connectors.redis.sink import RedisSink as RedisSink
from rheos.connectors.redis.sink import sink as sink
from rheos.connectors.redis.source import RedisSource as RedisSource
from rheos.connectors.redis.source import source as source
