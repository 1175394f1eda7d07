"""A server with MongoDB's protocol: SecantusDB, from its wheel."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server


class MongodbServer(Server):
    """A server with MongoDB's protocol, which keeps its documents and its oplog if it is killed.

    ```python
    with servers.MongodbServer() as mongodb:
        counts.sink_to(rh.mongodb.sink("counts", url=mongodb.url, id="page"))
    ```

    The server is SecantusDB, a reimplementation in Python with MongoDB's storage engine and change
    streams. It is for development and tests only.
    """

    name: ClassVar[str] = "mongodb"
    ready: ClassVar[str] = "secantus listening on"

    @property
    def url(self) -> str:
        """URL for clients, with the database `test`. Known from the first start on."""
        return f"mongodb://{self.address}/test"

    def install(self) -> None:
        if importlib.util.find_spec("secantus") is None:
            raise ConfigurationError(
                "SecantusDB is not installed in this environment",
                hint="install the wheel with the server: pip install SecantusDB==0.7.0b3",
            )

    def command(self, folder: Path, port: int) -> Sequence[str]:
        given = {"--host": HOST, "--port": str(port), "--storage-path": str(folder / "documents")}
        # Without synchronous commits, its log has a buffer that a kill loses.
        options = [part for pair in given.items() for part in pair]
        return [sys.executable, "-m", "secantus", *options, "--cache-size", "256M", "--sync-on-commit"]
