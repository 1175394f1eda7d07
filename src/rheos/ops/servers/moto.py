"""An emulator of AWS: the server of the package moto, which keeps everything in memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server

_REGION = "us-east-1"
_MODULES = ("moto", "flask", "flask_cors")


class MotoServer(Server):
    """A moto server. It is an emulator, and loses its data when it ends.

    Args:
        port: where it listens; None selects a free one.
        data: the folder of its log; None uses a private one that is removed with the server.
    """

    ready: ClassVar[str] = "Running on"

    @property
    def url(self) -> str:
        """URL of the endpoint. Known from the first start on."""
        return f"http://{self.address}"

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments of sources and sinks to connect. The emulator accepts any credentials."""
        options = {"aws_access_key_id": "emulated", "aws_secret_access_key": "emulated"}
        return {"region": _REGION, "endpoint": self.url, "options": options}

    def install(self) -> None:
        if not all(find_spec(name) for name in _MODULES):
            raise ConfigurationError(
                "the emulator of AWS is not installed",
                hint=f"{sys.executable} -m pip install 'moto[server]'",
            )

    def command(self, folder: Path, port: int) -> Sequence[str]:
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]


class KinesisServer(MotoServer):
    """An emulator of Kinesis, which is no real one.

    ```python
    with servers.KinesisServer() as kinesis:
        counts.sink_to(rh.kinesis.sink("counts", format=rh.formats.json(), **kinesis.arguments))
    ```
    """

    name: ClassVar[str] = "kinesis"


class SqsServer(MotoServer):
    """An emulator of SQS, which is no real one.

    ```python
    with servers.SqsServer() as sqs:
        counts.sink_to(rh.sqs.sink("counts", format=rh.formats.json(), **sqs.arguments))
    ```
    """

    name: ClassVar[str] = "sqs"
