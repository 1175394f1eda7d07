"""Redis: `redis.sink(...)` and `redis.lookup(...)`. They need the extra `rheos[redis]`."""

from rheos.connectors.redis.lookup import RedisLookup as RedisLookup
from rheos.connectors.redis.lookup import lookup as lookup
from rheos.connectors.redis.sink import RedisSink as RedisSink
from rheos.connectors.redis.sink import sink as sink
