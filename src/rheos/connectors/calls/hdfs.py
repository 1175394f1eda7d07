"""HDFS by the protocol of its NameNode and DataNodes, through the package hdfs-native."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlparse

from fsspec import AbstractFileSystem
from hdfs_native import Client
from hdfs_native.fsspec import HdfsFileSystem

from rheos.connectors.calls.hadoop_files import HadoopFiles, remote_error
from rheos.core.errors import ConfigurationError

_PORT = 8020
"""Port of a NameNode by default."""
_RETRIES = {
    "dfs.client.failover.max.attempts": "8",
    "dfs.client.failover.sleep.max.millis": "4000",
}
"""Settings with which the client tries for about 25 s to reach a NameNode, which is less than the time
limit of a call."""
_REMOTE = re.compile(r'(?:Fatal)?RPCError\("([^"]+)", "(.*)"\)', re.DOTALL)
_LOCAL = re.compile(r"\(os error (\d+)\)")
_NOT_RESOLVED = "failed to lookup address"
_BROKEN = re.compile("(DataTransferError|OperationFailed|BlocksNotFound)")
"""Errors of the client if a DataNode is unavailable, or if the NameNode does not know it yet."""

_clients: list[Client] = []
"""All clients of this process. fsspec forgets its file systems in a forked process. There, a client
that nothing else refers to would wait for its threads forever."""


class NativeHdfs(HadoopFiles, HdfsFileSystem):  # type: ignore[misc]
    """A file system on a NameNode or a name service; without a host, on the `fs.defaultFS` of
    `HADOOP_CONF_DIR`. Its user is `HADOOP_USER_NAME`, or the one of the process."""

    def __init__(self, host: str | None = None, port: int | None = None, **options: Any) -> None:
        """Create the file system, without connecting.

        Args:
            host: the NameNode, or the name of a service that `HADOOP_CONF_DIR` defines.
            port: the NameNode's port.
            options: settings of Hadoop's client, and options of fsspec.
        """
        settings = {key: str(value) for key, value in options.items() if "." in key}
        others = {key: value for key, value in options.items() if "." not in key}
        AbstractFileSystem.__init__(self, **others)
        self.host, self.port = host, port
        self.address = ":".join(str(part) for part in (host, port) if part is not None)
        self.client = self._connected({**_RETRIES, **settings})
        _clients.append(self.client)

    def _connected(self, settings: dict[str, str]) -> Client:
        url = f"hdfs://{self.address}" if self.address else None
        try:
            return Client(url, settings)
        except RuntimeError as error:
            if self.address and self.port is None:
                # No setting defines a name service of this name, so it is a host.
                return Client(f"{url}:{_PORT}", settings)
            raise ConfigurationError(
                f"the file system {url or 'hdfs:///'} cannot be opened: {error}",
                hint="write hdfs://HOST:PORT/PATH, or set HADOOP_CONF_DIR to the folder of the "
                "cluster's core-site.xml and hdfs-site.xml, on the driver and on every worker",
            ) from error

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        url = urlparse(path)
        if url.username is not None:
            raise ConfigurationError(
                f"a URL of HDFS has no user, but hdfs://***@{url.hostname} has one",
                hint="set the environment variable HADOOP_USER_NAME instead, on the driver and on "
                "every worker",
            )
        return {"host": url.hostname, "port": url.port}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        # A name may contain any character, so that it cannot be parsed as a URL.
        if path.startswith("hdfs://"):
            path = "/" + path.removeprefix("hdfs://").partition("/")[2]
        return path.rstrip("/") or "/"

    def _convert_file_status(self, file_status: Any) -> dict[str, Any]:
        info = super()._convert_file_status(file_status)
        return {**info, "mtime": info["modification_time"] / 1000}

    def _rename(self, source: str, target: str, overwrite: bool) -> None:
        self.client.rename(self._strip_protocol(source), self._strip_protocol(target), overwrite)

    def os_error(self, error: Exception) -> Exception:
        """Return the error as an OSError of its kind, with the NameNode."""
        text = str(error)
        if remote := _REMOTE.match(text):
            return remote_error(remote[1], remote[2].replace("\\n", "\n"))
        if local := _LOCAL.search(text):
            why = os.strerror(int(local[1]))
            return OSError(int(local[1]), f"the NameNode at {self.address} does not answer: {why}")
        if _NOT_RESOLVED in text:
            return ConnectionError(f"the NameNode at {self.address} is not known: {text}")
        if type(error) is OSError or _BROKEN.match(text):
            # An OSError without a number is a connection that ended.
            return ConnectionError(f"the connection to HDFS at {self.address} failed: {text}")
        if type(error) in (FileNotFoundError, FileExistsError, PermissionError):
            return type(error)(text.partition("\n")[0])
        return OSError(text) if type(error) is RuntimeError else error
