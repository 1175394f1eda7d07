"""ClickHouse's engine, from the wheel `chdb`, which a small HTTP server of ours runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server

_FRONT = Path(__file__).with_name("clickhouse_front.py")


class ClickhouseServer(Server):
    """ClickHouse's engine with its tables of the MergeTree family, which stay if it is killed.

    ```python
    with servers.ClickhouseServer() as clickhouse:
        counts.sink_to(rh.clickhouse.sink("counts", url=clickhouse.url))
    ```

    The engine is the real one. Its HTTP interface is an imitation that knows what Rheos needs: it has
    no users, and runs one query at a time.
    """

    name: ClassVar[str] = "clickhouse"
    ready: ClassVar[str] = "Ready for connections"

    @property
    def url(self) -> str:
        """URL for clients. Known from the first start on."""
        return f"http://{self.address}"

    def install(self) -> None:
        if importlib.util.find_spec("chdb") is None:
            raise ConfigurationError(
                "chdb is not installed in this environment",
                hint="install the wheel with ClickHouse's engine: pip install chdb",
            )

    def command(self, folder: Path, port: int) -> Sequence[str]:
        return [sys.executable, str(_FRONT), HOST, str(port), str(folder / "tables")]
