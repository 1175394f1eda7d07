"""A real HBase without Docker: some 60 MB of jars from Maven Central, on Java 17.

ZooKeeper, master, region server and Thrift gateway are one process, with tables in local files. A class
of sixty lines starts it (`HbaseNode.java`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rheos.ops.servers.java_server import JavaServer
from rheos.ops.servers.server import HOST, free_port

_STARTER = Path(__file__).with_name("HbaseNode.java")
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util.concurrent",
    "java.base/jdk.internal.misc",
    "java.base/sun.nio.ch",
)
"""Java's own packages that HBase accesses by reflection."""
_LOGGING = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
"""


class HbaseServer(JavaServer):
    """An HBase of one process, which keeps its tables, even if it is killed.

    ```python
    with servers.HbaseServer() as hbase:
        counts.sink_to(
            rh.hbase.sink("counts", gateway=hbase.address, key_columns="id", family="cf")
        )
    ```

    `address` is that of the Thrift gateway, with which tables are created, too.
    """

    name: ClassVar[str] = "hbase"
    title: ClassVar[str] = "HBase"
    ready: ClassVar[str] = "the Thrift gateway has started"

    def __init__(self, *, port: int | None = None, data: str | Path | None = None) -> None:
        super().__init__(port=port, data=data)
        self._keeper_port: int | None = None
        """Port of ZooKeeper."""

    def command(self, folder: Path, port: int) -> Sequence[str]:
        self._keeper_port = self._keeper_port or free_port()
        logging = folder / "log4j.properties"
        logging.write_text(_LOGGING)
        settings = self._settings(folder, self._keeper_port)
        return self.compiled(
            _STARTER,
            HOST,
            str(port),
            *(f"{name}={value}" for name, value in settings.items()),
            options=[
                "-Xmx384m",
                *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
                "-Djava.net.preferIPv4Stack=true",
                f"-Dlog4j.configuration={logging.as_uri()}",
            ],
        )

    def _settings(self, folder: Path, keeper_port: int) -> dict[str, object]:
        return {
            "hbase.rootdir": (folder / "tables").as_uri(),
            "hbase.tmp.dir": folder / "tmp",
            "hbase.zookeeper.quorum": HOST,
            "hbase.zookeeper.property.dataDir": folder / "zookeeper",
            "hbase.zookeeper.property.clientPort": keeper_port,
            # Hadoop's other class for local files cannot flush them: a killed server would lose rows.
            "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.wal.provider": "filesystem",
            "hbase.master.hostname": "localhost",
            "hbase.regionserver.hostname": "localhost",
            "hbase.master.ipc.address": HOST,
            "hbase.regionserver.ipc.address": HOST,
            "hbase.master.port": 0,
            "hbase.regionserver.port": 0,
            "hbase.master.info.port": -1,
            "hbase.regionserver.info.port": -1,
            "hbase.regionserver.handler.count": 8,
            "hbase.thrift.minWorkerThreads": 4,
            "hbase.regionserver.msginterval": 200,
            "zookeeper.session.timeout": 6000,
            "hbase.zookeeper.property.tickTime": 1000,
        }
