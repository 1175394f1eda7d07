"""A real OpenSearch of one node, without Docker: some 50 MB of jars from Maven Central, on Java 17.

It has the core and HTTP, and none of its plugins: no security, no SQL, no scripts.

Its own starter needs files that are in no jar, and refuses to run as root. So a class of twenty lines
starts the node (`OpenSearchNode.java`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rheos.ops.servers.java_server import JavaServer
from rheos.ops.servers.server import HOST, free_port

_NODE = Path(__file__).with_name("OpenSearchNode.java")
_LOGGING = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class OpenSearchNode(JavaServer):
    """An OpenSearch of one node.

    ```python
    with servers.OpenSearchNode() as node:
        rh.opensearch.sink(node.url, index="orders", id="order_id")
    ```
    """

    name: ClassVar[str] = "opensearch"
    title: ClassVar[str] = "OpenSearch"
    ready: ClassVar[str] = "OpenSearch has started"

    def __init__(self, *, port: int | None = None, data: str | Path | None = None) -> None:
        super().__init__(port=port, data=data)
        self._transport_port: int | None = None

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def command(self, folder: Path, port: int) -> Sequence[str]:
        if self._transport_port is None:
            self._transport_port = free_port()
        settings = {
            "cluster.name": "rheos",
            "node.name": "rheos",
            "discovery.type": "single-node",
            "network.host": HOST,
            "http.port": port,
            "transport.port": self._transport_port,
            "path.home": str(folder),
            "path.data": str(folder / "data"),
            "path.logs": str(folder),
            "cluster.routing.allocation.disk.threshold_enabled": False,
        }
        # JSON is valid YAML.
        (folder / "opensearch.yml").write_text(json.dumps(settings, indent=1))
        logging = folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        options = ["-Xmx512m", "-Djna.nosys=true", "-Dlog4j2.disable.jmx=true"]
        options.append(f"-Dlog4j2.configurationFile={logging}")
        return self.compiled(_NODE, str(folder), options=options)
