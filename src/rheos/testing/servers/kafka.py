"""A real Apache Kafka, of one broker that is its own controller (KRaft), without Docker: some 45 MB of
jars from Maven Central on Java 17."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rheos.errors import ConfigurationError
from rheos.testing.servers.java_server import JavaServer
from rheos.testing.servers.server import HOST, free_port

_JVM = (
    "-Xmx384m",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",  # It says when it has started.
)
_FORMAT_WITHIN_S = 120.0


class KafkaBroker(JavaServer):
    """A Kafka of one broker.

    ```python
    with servers.KafkaBroker() as broker:
        rh.kafka.source("orders", brokers=broker.address, ...)
    ```

    Args:
        users: names and passwords of those who may come in by SASL/PLAIN, at `sasl_address`, without
            TLS. To `address` anybody may come.
        settings: the broker's own settings, as in its `server.properties`, over those of this class.
    """

    name: ClassVar[str] = "kafka"
    title: ClassVar[str] = "Kafka"
    ready: ClassVar[str] = "Kafka Server started"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._users = dict(users or {})
        self._sasl_port: int | None = None
        self._settings = dict(settings or {})
        self._controller_port: int | None = None

    @property
    def sasl_address(self) -> str:
        """Where its users come in. Known from the first start on."""
        assert self._sasl_port is not None
        return f"{HOST}:{self._sasl_port}"

    def command(self, folder: Path, port: int) -> Sequence[str]:
        properties = folder / "server.properties"
        properties.touch(mode=0o600)
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._properties(folder, port).items()))
        if not (folder / "log" / "meta.properties").exists():
            self._format(properties)
        return [*self.java(*_JVM), "kafka.Kafka", str(properties)]

    def _properties(self, folder: Path, port: int) -> dict[str, object]:
        if self._controller_port is None:
            self._controller_port = free_port()
        controller = f"{HOST}:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": folder / "log",
            # One broker has no others to copy to, and a group does not wait for members that come late.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            # One that was killed may start again when its session has ended.
            "broker.heartbeat.interval.ms": 300,
            "broker.session.timeout.ms": 2000,
            "controlled.shutdown.enable": "false",
            **self._for_users(port, controller),
            **self._settings,
        }

    def _for_users(self, port: int, controller: str) -> dict[str, object]:
        if not self._users:
            return {}
        self._sasl_port = self._sasl_port or free_port()
        listeners = f"PLAINTEXT://{HOST}:{port},USERS://{self.sasl_address}"
        known = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "USERS:SASL_PLAINTEXT",
            "listeners": f"{listeners},CONTROLLER://{controller}",
            "advertised.listeners": listeners,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f"{module} required {known};",
        }

    def _format(self, properties: Path) -> None:
        # It may not begin with a hyphen.
        cluster = "R" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        tool = [
            # The archive is of the classes of the first JVM that ends: the broker's.
            *self.java(*_JVM, may_archive=False),
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            cluster,
        ]
        done = subprocess.run(
            [*tool, "--config", str(properties)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FORMAT_WITHIN_S,
            check=False,
        )
        if done.returncode != 0:
            raise ConfigurationError(
                f"Kafka could not make its data in {properties.parent}",
                hint="correct the settings, or name an empty folder",
                detail=done.stdout + done.stderr,
            )
