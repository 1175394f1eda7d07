"""A REST catalog of Apache Iceberg, without Docker: 35 MB of jars from Maven Central, on Java 17.

It is the reference implementation that Iceberg's own tests use: its REST handlers, over a catalog in
SQLite. Tables are in local files. A class of sixty lines starts it (`IcebergRestCatalog.java`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rheos.ops.servers.java_server import JavaServer
from rheos.ops.servers.server import HOST

_STARTER = Path(__file__).with_name("IcebergRestCatalog.java")


class IcebergRestCatalog(JavaServer):
    """A REST catalog of Iceberg.

    ```python
    with servers.IcebergRestCatalog() as catalog:
        rh.iceberg.sink("shop.orders", catalog={"type": "rest", "uri": catalog.url})
    ```

    It accepts every client, and any credential. Its tables are in the folder of its data.
    """

    name: ClassVar[str] = "iceberg"
    title: ClassVar[str] = "the REST catalog of Iceberg"
    ready: ClassVar[str] = "the REST catalog has started"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def command(self, folder: Path, port: int) -> Sequence[str]:
        log_level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return self.compiled(_STARTER, str(folder), HOST, str(port), options=["-Xmx256m", log_level])
