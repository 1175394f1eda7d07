"""A real Apache Kafka without Docker: some 45 MB of jars from Maven Central on Java 17. The first
broker is its own controller (KRaft); further ones can join."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.java_server import JavaServer
from rheos.ops.servers.server import HOST, free_port

_JVM = (
    "-Xmx384m",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",  # It logs when it has started.
)
_FORMAT_WITHIN_S = 120.0
_KEYSTORE = "keys.p12"
_KEYSTORE_PASSWORD = "without-a-secret"


class KafkaBroker(JavaServer):
    """A Kafka cluster of one broker, or a further broker of an existing cluster.

    ```python
    with servers.KafkaBroker() as broker:
        rh.kafka.source("orders", brokers=broker.address, ...)
    ```

    Args:
        users: names and passwords of the users who may log in with SASL/PLAIN, at `sasl_address`,
            without TLS. Anybody can connect to `address`.
        tls: whether the broker also listens with TLS, at `tls_address`. It uses a self-signed
            certificate; clients must trust `certificate`.
        joins: the first broker of the cluster that this one joins. That broker must be started first;
            it runs the controller.
        behind: ports of proxies in front of the broker, by the ports that they forward to. The broker
            advertises the proxy, and not `address`, to a client that connects to such a port.
        settings: the broker's own settings, as in its `server.properties`. They override those of this
            class.
    """

    name: ClassVar[str] = "kafka"
    title: ClassVar[str] = "Kafka"
    writes_archive: ClassVar[bool] = True
    ready: ClassVar[str] = "Kafka Server started"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        joins: KafkaBroker | None = None,
        behind: Mapping[int, int] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._users = dict(users or {})
        self._sasl_port: int | None = None
        self._tls = tls
        self._tls_port: int | None = None
        self._first = joins or self
        self._brokers = 1
        """Number of brokers in the cluster, if this broker is the first."""
        self._node = 1
        if joins is not None:
            joins._brokers += 1
            self._node = joins._brokers
        self._behind = dict(behind or {})
        self._settings = dict(settings or {})
        self._controller_port: int | None = None
        # It must not begin with a hyphen.
        self._cluster = "R" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]

    @property
    def sasl_address(self) -> str:
        """Address at which users log in with SASL. Known from the first start on."""
        assert self._sasl_port is not None
        return f"{HOST}:{self._sasl_port}"

    @property
    def tls_address(self) -> str:
        """Address at which the broker listens with TLS. Known from the first start on."""
        assert self._tls_port is not None
        return f"{HOST}:{self._tls_port}"

    @property
    def certificate(self) -> Path:
        """File (PEM) that a TLS client must trust (`ssl.ca.location`)."""
        assert self._folder is not None
        return self._folder / "certificate.pem"

    @property
    def node(self) -> int:
        """Number of the broker."""
        return self._node

    def command(self, folder: Path, port: int) -> Sequence[str]:
        if self._tls and not (folder / _KEYSTORE).exists():
            self._make_certificate(folder)
        properties = folder / "server.properties"
        properties.touch(mode=0o600)
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._properties(folder, port).items()))
        if not (folder / "log" / "meta.properties").exists():
            self._format(properties)
        return [*self.java(*_JVM), "kafka.Kafka", str(properties)]

    def _properties(self, folder: Path, port: int) -> dict[str, object]:
        first = self._first
        if first._controller_port is None:
            assert first is self, "the first broker is started first"
            first._controller_port = free_port()
        listeners = {"PLAINTEXT": ("PLAINTEXT", f"{HOST}:{port}")}
        if self._users:
            self._sasl_port = self._sasl_port or free_port()
            listeners["USERS"] = ("SASL_PLAINTEXT", self.sasl_address)
        if self._tls:
            self._tls_port = self._tls_port or free_port()
            listeners["TLS"] = ("SSL", self.tls_address)
        for number, own in enumerate(self._behind):
            listeners[f"BEHIND{number}"] = ("PLAINTEXT", f"{HOST}:{own}")
        at = [f"{name}://{address}" for name, (_, address) in listeners.items()]
        addresses = {f"{HOST}:{own}": f"{HOST}:{proxy}" for own, proxy in self._behind.items()}
        advertised = [
            f"{name}://{addresses.get(address, address)}" for name, (_, address) in listeners.items()
        ]
        protocols = {"CONTROLLER": "PLAINTEXT", **{name: by for name, (by, _) in listeners.items()}}
        controller = f"{HOST}:{first._controller_port}"
        has_controller = first is self
        return {
            "process.roles": "broker,controller" if has_controller else "broker",
            "node.id": self._node,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{n}:{by}" for n, by in protocols.items()),
            "listeners": ",".join([*at, *([f"CONTROLLER://{controller}"] if has_controller else [])]),
            "advertised.listeners": ",".join(advertised),
            "log.dirs": folder / "log",
            # A single broker has no others to replicate to, and a group need not wait for late members.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            # A killed broker may start again when its session has ended. A broker that gets no
            # processor time for that long is fenced.
            "broker.heartbeat.interval.ms": 300,
            "broker.session.timeout.ms": 5000,
            "controlled.shutdown.enable": "false",
            **self._for_users(),
            **self._for_tls(folder),
            **self._settings,
        }

    def _for_users(self) -> dict[str, object]:
        if not self._users:
            return {}
        known = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f"{module} required {known};",
        }

    def _for_tls(self, folder: Path) -> dict[str, object]:
        if not self._tls:
            return {}
        return {
            "listener.name.tls.ssl.keystore.type": "PKCS12",
            "listener.name.tls.ssl.keystore.location": folder / _KEYSTORE,
            "listener.name.tls.ssl.keystore.password": _KEYSTORE_PASSWORD,
            "listener.name.tls.ssl.key.password": _KEYSTORE_PASSWORD,
        }

    def _make_certificate(self, folder: Path) -> None:
        """Make the key, in a folder that only its user can enter. The password protects nothing."""
        keytool = [*self.java(may_archive=False), "-m", "java.base/sun.security.tools.keytool.Main"]
        store = ["-keystore", str(folder / _KEYSTORE), "-storepass", _KEYSTORE_PASSWORD, "-alias", "it"]
        made = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=Kafka for tests", "-validity", "3650"]
        says = ["-ext", f"san=ip:{HOST}", "-ext", "bc:critical=ca:true"]
        self._run([*keytool, *made, *says, "-storetype", "PKCS12", *store], folder)
        self._run(
            [*keytool, "-exportcert", "-rfc", "-file", str(folder / "certificate.pem"), *store], folder
        )

    def _format(self, properties: Path) -> None:
        # The archive must contain the classes of the broker, whose JVM ends first.
        tool = [*self.java(*_JVM, may_archive=False), "kafka.tools.StorageTool", "format"]
        cluster = ["--cluster-id", self._first._cluster]
        self._run([*tool, *cluster, "--config", str(properties)], properties.parent)

    def _run(self, command: Sequence[str], folder: Path) -> None:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FORMAT_WITHIN_S,
            check=False,
        )
        if done.returncode != 0:
            raise ConfigurationError(
                f"Kafka could not create its data in {folder}",
                hint="correct the settings, or choose an empty folder",
                detail=done.stdout + done.stderr,
            )
