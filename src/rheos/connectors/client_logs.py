"""Log messages of client libraries: they go to the job's log, not to the terminal, and each at most
once per half a minute.

A client that looks for its server may log the same line twenty times a second. `LOGGERS_OF_LIBRARIES`
names the loggers of every library that a connector imports. A test finds a connector whose library is
missing here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache

LOGGERS_OF_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "aiohttp": ("aiohttp",),
    "boto3": ("boto3", "botocore"),
    "botocore": ("boto3", "botocore"),
    "cassandra": ("cassandra",),
    "azure": ("azure",),
    "confluent_kafka": ("rheos.kafka",),
    "deltalake": ("deltalake",),
    "pyiceberg": ("pyiceberg",),
    "sqlalchemy": ("sqlalchemy",),
    "fsspec": (
        "fsspec",
        "adlfs",
        "aiobotocore",
        "azure",
        "boto3",
        "botocore",
        "gcsfs",
        "google",
        "s3fs",
        "s3transfer",
    ),
    "hdfs_native": ("hdfs_native",),
    "lancedb": ("lancedb",),
    "nats": ("nats",),
    "paho": ("paho", "rheos.mqtt"),
    "pika": ("pika",),
    "psycopg": ("psycopg",),
    "happybase": ("happybase", "rheos.hbase"),
    "thriftpy2": ("thriftpy2", "rheos.hbase"),
    "pymongo": ("pymongo", "rheos.mongodb"),
    "pulsar": ("rheos.pulsar",),
    "pymysql": ("pymysql",),
    "py4j": ("py4j",),
    "pyspark": ("pyspark", "rheos.jvm"),
    "redis": ("redis",),
    "requests": ("requests",),
    "urllib3": ("urllib3",),
}
"""Names of the loggers of each library, by its import name. If a library has no logger of its own, as
Kafka's, its connector's logger is named."""
CLIENT_LOGGERS = frozenset(name for names in LOGGERS_OF_LIBRARIES.values() for name in names)
"""Names of these loggers, of all libraries."""
AGAIN_S = 30.0
"""Seconds for which a message that was logged is suppressed."""
_REMEMBERED = 256
_VARIES = re.compile(r"0x[0-9a-f]+|#(producer|consumer)-\d+|\d+(\.\d+)? ?(ms|s|secs?|seconds)\b|\d{5,}")
"""Parts in which equivalent messages differ: addresses of objects, numbers of clients, times, and ports
that the system chose. Names of servers are kept."""


@lru_cache(maxsize=1024)
def is_of_client(logger: str) -> bool:
    """Return whether a logger of this name belongs to a client library."""
    parts = logger.split(".")
    return any(".".join(parts[:n]) in CLIENT_LOGGERS for n in range(1, len(parts) + 1))


class RepeatedMessageFilter(logging.Filter):
    """Drops messages that were logged less than half a minute ago, and adds their number to the next
    one that passes."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, tuple[float, int]] = {}
        """Per message: when it last passed, and how often it has been dropped since."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        signature = f"{record.name} {record.levelno} {_VARIES.sub('', message)}"
        last_s, left_out = self._logged.get(signature, (None, 0))
        if last_s is not None and abs(record.created - last_s) < AGAIN_S:
            self._logged[signature] = last_s, left_out + 1
            return False
        if len(self._logged) >= _REMEMBERED:
            self._logged.clear()
        self._logged[signature] = record.created, 0
        if left_out:
            record.msg, record.args = f"{message} (and {left_out:,} times more before)", ()
        return True
