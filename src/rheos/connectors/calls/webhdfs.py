"""HDFS by the NameNode's REST API, WebHDFS, through fsspec's client."""

from __future__ import annotations

import getpass
import os
from typing import Any

import requests
from fsspec.implementations.webhdfs import WebHDFS

from rheos.connectors.calls.hadoop_files import HadoopFiles, remote_error
from rheos.core.errors import ConfigurationError

_PORT = 9870
"""Port of a NameNode's REST API since Hadoop 3."""


class WebHdfs(HadoopFiles, WebHDFS):  # type: ignore[misc]
    """A file system on a NameNode with WebHDFS. Its user is the URL's, `HADOOP_USER_NAME`, or the one
    of the process."""

    def __init__(self, host: str, port: int = _PORT, **options: Any) -> None:
        """Create the file system, without connecting.

        Args:
            host: the NameNode.
            port: the port of its REST API.
            options: options of fsspec's `WebHDFS`, such as `kerberos` or `token`.
        """
        if not {"user", "token", "kerberos"} & options.keys():
            options["user"] = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        super().__init__(host, port, **options)
        self.address = f"{host}:{port}"

    @staticmethod
    def _get_kwargs_from_urls(urlpath: str) -> dict[str, Any]:
        options: dict[str, Any] = WebHDFS._get_kwargs_from_urls(urlpath)
        if "password" in options:
            raise ConfigurationError(
                f"a URL of WebHDFS has no password, but webhdfs://***@{options.get('host')} has one",
                hint="set the environment variable FSSPEC_WEBHDFS_PASSWORD instead, on the driver and "
                "on every worker",
            )
        return options

    def unstrip_protocol(self, name: str) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"webhdfs://{user}{self.address}{self._strip_protocol(name)}"

    def _connect(self) -> None:
        super()._connect()
        self.session.hooks["response"].append(_check)

    def _rename(self, source: str, target: str, overwrite: bool) -> None:
        # With this parameter the NameNode raises an error instead of returning false.
        how = "OVERWRITE" if overwrite else "NONE"
        target = self._strip_protocol(target)
        self._call("RENAME", method="put", path=source, destination=target, renameoptions=how)

    @staticmethod
    def _process_info(info: dict[str, Any]) -> dict[str, Any]:
        info = WebHDFS._process_info(info)
        info["mtime"] = info["modificationTime"] / 1000
        return info

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        self.rm(path)

    def ls(self, path: str, detail: bool = False, **options: Any) -> list[Any]:
        """Return the files in a folder. The name of a single file is its path, without a slash."""
        found = super().ls(path, detail=True)
        for each in found:
            each["name"] = each["name"].rstrip("/")
        return found if detail else [each["name"] for each in found]

    def os_error(self, error: Exception) -> Exception:
        """Return the error as an OSError of its kind, with the NameNode."""
        match error:
            case requests.Timeout():
                return TimeoutError(f"the NameNode at {self.address} does not answer: {error}")
            case requests.ConnectionError() | requests.exceptions.ChunkedEncodingError():
                return ConnectionError(f"the NameNode at {self.address} does not answer: {error}")
            case requests.HTTPError(response=requests.Response(status_code=code)) if code >= 500:
                return ConnectionError(f"{self.address} is unavailable: {error}")
        return error


def _check(response: requests.Response, *_: Any, **__: Any) -> None:
    """Raise the error that a server answers with."""
    if response.status_code < 400:
        return
    try:
        remote = response.json()["RemoteException"]
        error = remote_error(remote["exception"], remote["message"])
    except (ValueError, KeyError):
        response.raise_for_status()
        raise AssertionError("the status is an error") from None
    raise error
