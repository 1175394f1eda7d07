"""A real Apache Pulsar without Docker: some 125 MB of jars from Maven Central, on Java 17. One process
is broker, bookie and metadata store."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rheos.ops.servers.java_server import JavaServer
from rheos.ops.servers.server import HOST, free_port

_OPENED = (
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/jdk.internal.platform",
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""Java's own packages that Pulsar accesses by reflection."""
_LOGGING = """<Configuration status="error">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="warn"><AppenderRef ref="out"/></Root>
    <Logger name="org.eclipse.jetty.server.RequestLog" level="info"/>
  </Loggers>
</Configuration>
"""
_KEY = "key"


class PulsarServer(JavaServer):
    """A Pulsar of one process, which keeps its topics, even if it is killed.

    ```python
    with servers.PulsarServer() as pulsar:
        rh.pulsar.source(pulsar.url, topic="orders", format=rh.formats.json(), schema=Order)
    ```

    Args:
        port: where it listens; None selects a free one.
        data: the folder of its data; None uses a private one that is removed with the server.
        with_token: whether clients must send `token`.
        settings: the broker's own settings, as in its `standalone.conf`. They override those of this
            class.
    """

    name: ClassVar[str] = "pulsar"
    title: ClassVar[str] = "Pulsar"
    writes_archive: ClassVar[bool] = True
    # It creates its namespaces after it has begun to listen; this request is one of the last.
    ready: ClassVar[str] = '"GET /admin/v2/namespaces/pulsar HTTP/1.1" 200'

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        with_token: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._key = secrets.token_bytes(32) if with_token else None
        self._settings = dict(settings or {})
        self._web_port: int | None = None
        self._bookie_port: int | None = None

    @property
    def url(self) -> str:
        """URL for clients. Known from the first start on."""
        return f"pulsar://{self.address}"

    @property
    def admin_url(self) -> str:
        """URL of its REST API, with which topics are created. Known from the first start on."""
        assert self._web_port is not None
        return f"http://{HOST}:{self._web_port}/admin/v2"

    @property
    def token(self) -> str | None:
        """Token that clients must send; None if they need none."""
        if self._key is None:
            return None
        parts = [json.dumps(part).encode() for part in ({"alg": "HS256"}, {"sub": "rheos"})]
        body = b".".join(map(_base64, parts))
        signature = hmac.new(self._key, body, hashlib.sha256).digest()
        return (body + b"." + _base64(signature)).decode()

    def command(self, folder: Path, port: int) -> Sequence[str]:
        self._web_port = self._web_port or free_port()
        self._bookie_port = self._bookie_port or free_port()
        settings, logging = folder / "standalone.conf", folder / "log4j2.xml"
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{k}={v}\n" for k, v in self._properties(folder, port).items()))
        logging.write_text(_LOGGING)
        return [
            *self.java(
                "-Xmx384m",
                "-XX:MaxDirectMemorySize=256m",
                *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
                "-Dio.netty.tryReflectionSetAccessible=true",
                f"-Dlog4j2.configurationFile={logging}",
            ),
            "org.apache.pulsar.PulsarStandaloneStarter",
            "--config",
            str(settings),
            "--no-functions-worker",
            "--no-stream-storage",
            "--metadata-dir",
            str(folder / "metadata"),
            "--bookkeeper-dir",
            str(folder / "bookkeeper"),
            "--bookkeeper-port",
            str(self._bookie_port),
            "--advertised-address",
            HOST,
        ]

    def _properties(self, folder: Path, port: int) -> dict[str, object]:
        return {
            "clusterName": "rheos",
            "brokerServicePort": port,
            "webServicePort": self._web_port,
            "bindAddress": HOST,
            "advertisedAddress": HOST,
            "managedLedgerDefaultEnsembleSize": 1,
            "managedLedgerDefaultWriteQuorum": 1,
            "managedLedgerDefaultAckQuorum": 1,
            "managedLedgerCacheSizeMB": 32,
            "loadBalancerEnabled": "false",
            "systemTopicEnabled": "false",
            "topicLevelPoliciesEnabled": "false",
            # Messages stay until a test removes them.
            "defaultRetentionTimeInMinutes": -1,
            "defaultRetentionSizeInMB": -1,
            "diskUsageThreshold": 0.99,
            "diskUsageLwmThreshold": 0.99,
            "allowLoopback": "true",
            "numIOThreads": 2,
            "numHttpServerThreads": 8,
            **self._for_tokens(folder),
            **self._settings,
        }

    def _for_tokens(self, folder: Path) -> dict[str, object]:
        if self._key is None:
            return {}
        key = folder / _KEY
        key.touch(mode=0o600)
        key.write_bytes(self._key)
        broker = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
        return {
            "authenticationEnabled": "true",
            "authenticationProviders": broker,
            "tokenSecretKey": key.as_uri(),
            "brokerClientAuthenticationPlugin": (
                "org.apache.pulsar.client.impl.auth.AuthenticationToken"
            ),
            "brokerClientAuthenticationParameters": f"token:{self.token}",
        }


def _base64(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
