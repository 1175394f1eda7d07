"""A real Hadoop, HDFS and YARN, without Docker: 100 MB of jars from Maven Central, on Java 17.

Each daemon is a process of its own, so that a test can kill one and start it again. No shell script of
Hadoop runs: the daemons' classes are in the jar of Hadoop's mini clusters.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Self
from xml.sax.saxutils import escape

import psutil

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.java_server import JavaServer
from rheos.ops.servers.server import HOST, Server, free_port

_ANY_PORT = f"{HOST}:0"
_FORMAT_WITHIN_S = 120.0
_WEB_APPS = ("hdfs", "datanode", "cluster", "node")
"""Folders of the daemons' pages, which the jars lack. Without its folder, a daemon does not start."""
_LOGGING = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
log4j.logger.org.apache.hadoop.hdfs.server.datanode.DataNode=INFO
log4j.logger.org.apache.hadoop.ipc.Server=INFO
log4j.logger.org.apache.hadoop.yarn.server.nodemanager.NodeStatusUpdaterImpl=INFO
"""
"""Settings of log4j: warnings, and the classes that log that a daemon is ready."""


class HadoopDaemon(JavaServer):
    """One process of a `HadoopCluster`, which is also its only user.

    Args:
        cluster: the cluster.
        main: the class with its `main` function, below `org.apache.hadoop`.
        ready: text that appears in its output once it serves; `{port}` is its port.
        port: where it listens; None selects a free one.
    """

    name: ClassVar[str] = "hadoop"
    title: ClassVar[str] = "Hadoop"

    def __init__(
        self, cluster: HadoopCluster, main: str, *, ready: str, port: int | None = None
    ) -> None:
        super().__init__(port=port)
        self._cluster = cluster
        self._main = f"org.apache.hadoop.{main}"
        self._ready = ready

    @property
    def ready(self) -> str:  # type: ignore[override]
        return self._ready.format(port=self._port)

    def command(self, folder: Path, port: int) -> Sequence[str]:
        self._cluster.write_settings()
        command = self._command()
        if self is self._cluster.name_node and not (folder / "data" / "current").exists():
            self._format(command)
        return command

    def _end(self, how: bytes) -> None:
        """End the process, and its children, such as the containers of a killed NodeManager."""
        children = self._processes()
        super()._end(how)
        for process in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _new_folder(self) -> Path:
        """Return its part of the cluster's folder."""
        folder = self._cluster.folder / self._main.rpartition(".")[2].lower()
        folder.mkdir(exist_ok=True)
        return folder

    def _private_folder(self) -> Path | None:
        """Return the cluster's folder. Every daemon removes it if their starter dies; the last one
        leaves nothing."""
        return self._cluster._private_folder()

    def _command(self) -> list[str]:
        command = self.java(
            "-Xmx256m",
            "-Djava.net.preferIPv4Stack=true",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
        )
        classes = command.index("-cp") + 1
        command[classes] = f"{self._cluster.settings}:{command[classes]}"
        return [*command, self._main]

    def _format(self, command: Sequence[str]) -> None:
        done = subprocess.run(
            [*command, "-format", "-nonInteractive"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FORMAT_WITHIN_S,
            check=False,
        )
        if done.returncode != 0:
            raise ConfigurationError(
                f"HDFS could not create its data in {self._cluster.folder}",
                hint="choose an empty folder",
                detail=done.stdout + done.stderr,
            )


class HadoopCluster(Server):
    """A cluster of one node: HDFS, and YARN unless `yarn` is false.

    ```python
    with servers.HadoopCluster() as cluster:
        job.run(checkpoints=f"{cluster.url}/checkpoints")
    ```

    Start, stop or kill a single daemon with `name_node`, `data_node`, `resource_manager` and
    `node_manager`. `start` starts those that do not run.

    Args:
        port: where the NameNode listens, and clients of HDFS connect; None selects a free one.
        data: the folder of its data, which is created if it is missing, and stays. None uses a private
            folder that is removed with the cluster.
        yarn: whether the cluster runs YARN, too.
        settings: Hadoop's own settings, as in its `hdfs-site.xml` and `yarn-site.xml`. They override
            those of this class.
    """

    name: ClassVar[str] = "hadoop"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        yarn: bool = True,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._settings = dict(settings or {})
        self._ports: dict[str, str] = {}
        listens = "listener on {port}: starting"
        hdfs, yarn_server = "hdfs.server", "yarn.server"
        self.name_node = HadoopDaemon(self, f"{hdfs}.namenode.NameNode", ready=listens, port=port)
        self.data_node = HadoopDaemon(
            self, f"{hdfs}.datanode.DataNode", ready="successfully registered with NN"
        )
        self.resource_manager = HadoopDaemon(
            self, f"{yarn_server}.resourcemanager.ResourceManager", ready=listens
        )
        self.node_manager = HadoopDaemon(
            self, f"{yarn_server}.nodemanager.NodeManager", ready="Registered with ResourceManager"
        )
        self.daemons: Sequence[HadoopDaemon] = (
            self.name_node,
            self.data_node,
            *((self.resource_manager, self.node_manager) if yarn else ()),
        )
        """The daemons of this cluster."""

    @property
    def address(self) -> str:
        return self.name_node.address

    @property
    def url(self) -> str:
        """URL of its HDFS. Known from the first start on."""
        return f"hdfs://{self.address}"

    @property
    def web_url(self) -> str:
        """URL of its HDFS for clients of WebHDFS. Known from the first start on."""
        return f"webhdfs://{self._ports['dfs.namenode.http-address']}"

    @property
    def yarn_url(self) -> str:
        """URL of the ResourceManager's REST API. Known from the first start on."""
        return f"http://{self._ports['yarn.resourcemanager.webapp.address']}"

    @property
    def folder(self) -> Path:
        """Folder of its data. Known from the first start on."""
        assert self._folder is not None
        return self._folder

    @property
    def settings(self) -> Path:
        """Folder with its `core-site.xml`, `hdfs-site.xml` and `yarn-site.xml`: set `HADOOP_CONF_DIR`
        to it. Known from the first start on."""
        return self.folder / "settings"

    @property
    def log(self) -> Path:
        """File with all output of the daemon that does not run; the NameNode's if all run."""
        return next((each.log for each in self.daemons if not each.running), self.name_node.log)

    @property
    def running(self) -> bool:
        """Whether all daemons are alive."""
        return all(each.running for each in self.daemons)

    def install(self) -> None:
        self.name_node.install()

    def command(self, folder: Path, port: int) -> Sequence[str]:
        raise AssertionError("each daemon has its own command")

    def start(self) -> Self:
        self._made_folder()
        # The ports are known before the first daemon writes the settings of all.
        for each in self.daemons:
            each._port = each._port or free_port()
        try:
            self._in_parallel(HadoopDaemon.start)
        except BaseException:
            self.stop()
            raise
        return self

    def _end(self, how: bytes) -> None:
        self._in_parallel(lambda daemon: daemon._end(how))

    def _in_parallel(self, act: Callable[[HadoopDaemon], object]) -> None:
        with ThreadPoolExecutor(len(self.daemons)) as threads:
            for _ in threads.map(act, self.daemons):
                pass

    def _processes(self) -> list[psutil.Process]:
        return [process for each in self.daemons for process in each._processes()]

    def write_settings(self) -> None:
        """Write the settings of all daemons, which they share."""
        for page in _WEB_APPS:
            (self.settings / "webapps" / page).mkdir(parents=True, exist_ok=True)
        (self.settings / "log4j.properties").write_text(_LOGGING)
        settings: dict[str, dict[str, object]] = {
            "core-site.xml": {"fs.defaultFS": self.url, "hadoop.tmp.dir": self.folder / "tmp"},
            "hdfs-site.xml": {**self._hdfs(), **self._settings},
        }
        if self.resource_manager in self.daemons:
            settings["yarn-site.xml"] = {**self._yarn(), **self._settings}
        for name, values in settings.items():
            entries = (
                f"<property><name>{escape(key)}</name><value>{escape(str(value))}</value></property>\n"
                for key, value in values.items()
            )
            (self.settings / name).write_text(f"<configuration>\n{''.join(entries)}</configuration>\n")

    def _own_port(self, setting: str) -> str:
        return self._ports.setdefault(setting, f"{HOST}:{free_port()}")

    def _hdfs(self) -> dict[str, object]:
        return {
            "dfs.namenode.rpc-address": self.address,
            "dfs.namenode.http-address": self._own_port("dfs.namenode.http-address"),
            "dfs.namenode.name.dir": (self.folder / "namenode" / "data").as_uri(),
            "dfs.datanode.data.dir": (self.folder / "datanode" / "data").as_uri(),
            "dfs.datanode.address": _ANY_PORT,
            "dfs.datanode.http.address": _ANY_PORT,
            "dfs.datanode.ipc.address": _ANY_PORT,
            "dfs.datanode.hostname": HOST,
            "dfs.replication": 1,
            # The DataNode notices soon that the NameNode has started again.
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.safemode.extension": 0,
        }

    def _yarn(self) -> dict[str, object]:
        manager = "yarn.resourcemanager"
        others = ("scheduler", "resource-tracker", "admin", "webapp")
        return {
            f"{manager}.hostname": HOST,
            f"{manager}.bind-host": HOST,
            f"{manager}.address": self.resource_manager.address,
            **{
                f"{manager}.{each}.address": self._own_port(f"{manager}.{each}.address")
                for each in others
            },
            f"{manager}.scheduler.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.nodemanager.hostname": HOST,
            "yarn.nodemanager.bind-host": HOST,
            "yarn.nodemanager.address": _ANY_PORT,
            "yarn.nodemanager.localizer.address": _ANY_PORT,
            "yarn.nodemanager.webapp.address": _ANY_PORT,
            "yarn.nodemanager.local-dirs": self.folder / "containers",
            "yarn.nodemanager.log-dirs": self.folder / "container-logs",
            # A development machine is small, and its disk rather full.
            "yarn.nodemanager.resource.memory-mb": 8192,
            "yarn.nodemanager.resource.cpu-vcores": 8,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
            "yarn.scheduler.minimum-allocation-mb": 128,
        }
