"""A real Apache Cassandra of one node, without Docker: 60 MB of jars from Maven Central, on Java 17."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rheos.ops.servers.java_server import JavaServer
from rheos.ops.servers.server import HOST, free_port

_EXPORTED = (
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
)
_OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
"""Java's own packages that Cassandra accesses by reflection."""
_OF_ONE_NODE = ("ring_delay_ms=0", "skip_wait_for_gossip_to_settle=0", "superuser_setup_delay_ms=0")
"""Options with which the node waits for no other node."""
_LOGGING = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{1}: %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
  <logger name="org.apache.cassandra.transport.PipelineConfigurator" level="INFO"/>
</configuration>
"""


class CassandraNode(JavaServer):
    """A Cassandra of one node.

    ```python
    with servers.CassandraNode() as node:
        rh.cassandra.sink("shop.orders", hosts=node.address)
    ```
    """

    name: ClassVar[str] = "cassandra"
    title: ClassVar[str] = "Cassandra"
    ready: ClassVar[str] = "Starting listening for CQL clients"

    def __init__(self, *, port: int | None = None, data: str | Path | None = None) -> None:
        super().__init__(port=port, data=data)
        self._storage_port: int | None = None

    def command(self, folder: Path, port: int) -> Sequence[str]:
        settings, logging = folder / "cassandra.yaml", folder / "logback.xml"
        # JSON is valid YAML.
        settings.write_text(json.dumps(self._settings(folder, port), indent=1))
        logging.write_text(_LOGGING)
        return [
            *self.java(
                "-Xmx512m",
                "-Djdk.attach.allowAttachSelf=true",
                *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
                *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
                *(f"-Dcassandra.{each}" for each in _OF_ONE_NODE),
                f"-Dcassandra.config={settings.as_uri()}",
                f"-Dcassandra.storagedir={folder}",
                f"-Dcassandra.logdir={folder}",
                "-Dcassandra-foreground=yes",
                f"-Dlogback.configurationFile={logging}",
            ),
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def _settings(self, folder: Path, port: int) -> dict[str, object]:
        if self._storage_port is None:
            self._storage_port = free_port()
        seeds = {"seeds": f"{HOST}:{self._storage_port}"}
        seed_provider = "org.apache.cassandra.locator.SimpleSeedProvider"
        return {
            "cluster_name": "rheos",
            "num_tokens": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "endpoint_snitch": "SimpleSnitch",
            "data_file_directories": [str(folder / "data")],
            "commitlog_directory": str(folder / "commitlog"),
            "saved_caches_directory": str(folder / "caches"),
            "hints_directory": str(folder / "hints"),
            "cdc_raw_directory": str(folder / "cdc"),
            "commitlog_sync": "periodic",
            "commitlog_sync_period": "1s",
            "seed_provider": [{"class_name": seed_provider, "parameters": [seeds]}],
            "listen_address": HOST,
            "rpc_address": HOST,
            "storage_port": self._storage_port,
            "native_transport_port": port,
        }
