"""Redis: `redis.sink(...)`. It needs the extra `rheos[redis]`."""

from rheos.connectors.redis.sink import RedisSink as RedisSink
from rheos.connectors.redis.sink import sink as sink
